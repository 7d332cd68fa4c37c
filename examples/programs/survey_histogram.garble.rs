//! A histogram of four answers, from sixteen participants whose answers are shared between two
//! servers. An answer is the XOR of both shares. An answer of 4 or more is not counted.

pub fn main(one: [u8; 16], other: [u8; 16]) -> [u8; 4] {
    let mut counts = [0u8; 4];
    for i in 0usize..16usize {
        let answer = one[i] ^ other[i];
        for value in 0usize..4usize {
            let hit = if answer == (value as u8) { 1u8 } else { 0u8 };
            counts[value] = counts[value] + hit;
        }
    }
    counts
}
