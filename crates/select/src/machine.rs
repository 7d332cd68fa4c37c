//! The speed of a typical machine.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Processor time of each step of the protocol on one core, in seconds.
///
/// The figures were measured on a server core with VAES (docs/performance.md). The choice of a
/// transport hardly depends on them: if the processors are the bottleneck, all transports take
/// about the same time. Therefore the program does not measure them at run time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct Machine {
    /// Time to garble an AND gate.
    pub garble_and_s: f64,
    /// Time to evaluate an AND gate.
    pub evaluate_and_s: f64,
    /// Time to garble or evaluate an XOR gate.
    pub xor_s: f64,
    /// Time of one extended oblivious transfer, for each party.
    pub transfer_s: f64,
    /// Time of one base oblivious transfer: the sum of both parties, which wait for each other.
    pub base_transfer_s: f64,
    /// Time to encrypt or decrypt a byte of a link.
    pub encrypt_byte_s: f64,
}

impl Machine {
    /// Times of a typical machine with half gates or fixed-key. Both have free XOR.
    pub const HALF_GATES: Self = Self {
        garble_and_s: 13e-9,
        evaluate_and_s: 11e-9,
        xor_s: 1.4e-9,
        transfer_s: 20e-9,
        // 36 and 23 µs on the two machines of docs/performance.md.
        base_transfer_s: 29e-6,
        // AES-128 in batches over loopback, with TLS and in plaintext.
        encrypt_byte_s: 2e-10,
    };

    /// Times of a typical machine with three-halves. It garbles 42 and evaluates 53 million AND
    /// gates of MinCut per second, compared with 69 and 88 million with half-gates.
    pub const THREE_HALVES: Self = Self {
        garble_and_s: 21e-9,
        evaluate_and_s: 18e-9,
        ..Self::HALF_GATES
    };

    /// Times of a typical machine with a scheme that has tables for XOR gates.
    pub const WITHOUT_FREE_XOR: Self = Self {
        garble_and_s: 36e-9,
        evaluate_and_s: 17e-9,
        xor_s: 18e-9,
        transfer_s: 90e-9,
        ..Self::HALF_GATES
    };
}
