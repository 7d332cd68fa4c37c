//! A forecast for two companies that sell the same: how much an outlet will sell in the next period, by the average of the last four
//! (blanton-2005, section 4: a division of numbers that are split between two parties).
//!
//! Nothing but the forecast becomes known: neither what a company sold, nor how many outlets it has. Without any outlet the
//! forecast is 0.

struct Company {
    sold: [u16; 4],
    outlets: u8,
}

fn total(sold: [u16; 4]) -> u32 {
    let mut total = 0u32;
    for sold_in_period in sold {
        total = total + (sold_in_period as u32);
    }
    total
}

pub fn main(garbler: Company, evaluator: Company) -> u32 {
    let sold = total(garbler.sold) + total(evaluator.sold);
    let outlets = (garbler.outlets as u32) + (evaluator.outlets as u32);
    if outlets == 0u32 {
        0u32
    } else {
        sold / (outlets << 2u8)
    }
}
