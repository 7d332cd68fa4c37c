//! One round of a running average: a device has come so many metres, which it does not tell, and a server knows the sum and the number of the
//! rounds before. The server learns the new sum and the new average, rounded down.

struct Before {
    sum: u32,
    rounds: u16,
}

pub fn main(metres: u16, before: Before) -> (u32, u32) {
    let sum = before.sum + (metres as u32);
    let rounds = (before.rounds as u32) + 1u32;
    (sum, sum / rounds)
}
