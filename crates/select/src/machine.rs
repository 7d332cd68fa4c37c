//! The speed of a typical machine.

use serde::{Deserialize, Serialize};

/// Processor time of one core for each step of the protocol, in seconds.
///
/// Measured on a server core with VAES (docs/performance.md). The choice of a transport hardly
/// depends on these figures: if the processors are the bottleneck, all transports take about the
/// same time. So nothing is measured at run time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Time to garble an AND gate.
    pub garble_and_s: f64,
    /// Time to evaluate an AND gate.
    pub evaluate_and_s: f64,
    /// Time to garble or evaluate an XOR gate.
    pub xor_s: f64,
    /// Time of an extended oblivious transfer, on either side.
    pub transfer_s: f64,
    /// Time of a base oblivious transfer, of both sides together, because they wait for each other.
    pub base_transfer_s: f64,
}

impl Machine {
    /// A typical machine with half-gates or another scheme whose XOR gates are free.
    pub const HALF_GATES: Self = Self {
        garble_and_s: 13e-9,
        evaluate_and_s: 11e-9,
        xor_s: 1.4e-9,
        transfer_s: 20e-9,
        // 22 µs of the sender, 8 and 4 µs of the receiver: `Costs::measured` in
        // crates/session/src/plan.rs.
        base_transfer_s: 34e-6,
    };

    /// A typical machine with three-halves gates: 42 and 53 million AND gates per second of MinCut,
    /// compared with 69 and 88 with half-gates.
    pub const THREE_HALVES: Self = Self {
        garble_and_s: 21e-9,
        evaluate_and_s: 18e-9,
        ..Self::HALF_GATES
    };

    /// A typical machine with a scheme that has tables for XOR gates.
    pub const WITHOUT_FREE_XOR: Self = Self {
        garble_and_s: 36e-9,
        evaluate_and_s: 17e-9,
        xor_s: 18e-9,
        transfer_s: 90e-9,
        ..Self::HALF_GATES
    };
}
