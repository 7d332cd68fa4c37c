//! One round of a running average. A device has travelled a number of metres, which stays secret. A
//! server has the sum and the number of the earlier rounds. It learns the new sum and the new
//! average, rounded down.

struct Before {
    sum: u32,
    rounds: u16,
}

pub fn main(metres: u16, before: Before) -> (u32, u32) {
    let sum = before.sum + (metres as u32);
    let rounds = (before.rounds as u32) + 1u32;
    (sum, sum / rounds)
}
