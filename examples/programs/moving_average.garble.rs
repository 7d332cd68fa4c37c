//! A forecast for two companies that sell the same product: the sales of an outlet in the next
//! period, by the average of the last four (blanton-2005, section 4: a division of numbers that are
//! shared between two parties).
//!
//! Only the forecast becomes known: neither a company's sales, nor its number of outlets. Without
//! outlets, the forecast is 0.

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
