//! Statistics of eight companies whose figures are shared between two servers: each figure is the
//! XOR of two shares. Outputs: sum, sum of squares, minimum, median (mean of the two middle values,
//! rounded down), maximum, and mean of the best quarter, rounded down.

struct Statistics {
    sum: u32,
    squares: u64,
    least: u16,
    median: u16,
    greatest: u16,
    best: u16,
}

/// Sorts in ascending order: eight rounds of exchanges of neighbours, alternately from even and
/// from odd positions.
fn sorted(figures: [u16; 8]) -> [u16; 8] {
    let mut f = figures;
    for round in 0usize..8usize {
        for pair in 0usize..4usize {
            let i = pair * 2usize + (round & 1usize);
            if i < 7usize {
                let low = f[i];
                let high = f[i + 1usize];
                let swap = low > high;
                f[i] = if swap { high } else { low };
                f[i + 1usize] = if swap { low } else { high };
            }
        }
    }
    f
}

fn half(a: u16, b: u16) -> u16 {
    (((a as u32) + (b as u32)) >> 1u8) as u16
}

pub fn main(one: [u16; 8], other: [u16; 8]) -> Statistics {
    let mut figures = [0u16; 8];
    let mut sum = 0u32;
    let mut squares = 0u64;
    for i in 0usize..8usize {
        let figure = one[i] ^ other[i];
        figures[i] = figure;
        sum = sum + (figure as u32);
        squares = squares + (((figure as u32) * (figure as u32)) as u64);
    }
    let rising = sorted(figures);
    Statistics {
        sum: sum,
        squares: squares,
        least: rising[0],
        median: half(rising[3], rising[4]),
        greatest: rising[7],
        best: half(rising[6], rising[7]),
    }
}
