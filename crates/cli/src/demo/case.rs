//! The test case of the demo: a circuit's inputs and the outputs that are expected for them.

use std::num::NonZeroU64;

use transpute::Bits;

use crate::{failure::Failure, output::OutputValue, run::RunReport, source};

/// The AES-128 key of the test vector in FIPS-197, appendix C.1.
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const PLAINTEXT: &str = "00112233445566778899aabbccddeeff";
const CIPHERTEXT: &str = "69c4e0d86a7b0430d8cdb78070b4c55a";

/// The name of the built-in circuit to which the test vector applies.
pub(super) const AES: &str = "aes128";

/// The inputs of the demo and the expected outputs, in hexadecimal digits.
pub(super) struct Case {
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// The origin of the expected outputs, as text for the report of the demo.
    pub(super) authority: &'static str,
}

impl Case {
    pub(super) fn new(circuit: &str) -> Result<Self, Failure> {
        if circuit == AES {
            return Ok(Self {
                inputs: [KEY, PLAINTEXT].map(str::to_owned).into(),
                outputs: vec![CIPHERTEXT.to_owned()],
                authority: "by FIPS-197 C.1",
            });
        }
        let circuit = source::load("--circuit", circuit)?.circuit;
        // The inputs are arbitrary: the top bits of multiples of the golden ratio (times 2^32).
        let bit = |index: u32| index.wrapping_mul(0x9e37_79b9) >> 31 == 1;
        let value = |(&width, number): (&u32, u32)| -> Bits {
            (0..width)
                .map(|index| bit(index.wrapping_mul(number)))
                .collect()
        };
        let inputs: Vec<Bits> = circuit.input_widths().iter().zip(1..).map(value).collect();
        let mut all = Bits::new();
        all.extend(inputs.iter().cloned());
        let outputs = (circuit.evaluate(&all))
            .map_err(|error| Failure::other("cannot evaluate the circuit").because(error))?;
        Ok(Self {
            inputs: inputs.iter().map(Bits::to_hex).collect(),
            outputs: circuit
                .split_outputs(&outputs)
                .iter()
                .map(Bits::to_hex)
                .collect(),
            authority: "computed in clear",
        })
    }

    /// Returns whether `report` contains `batch` evaluations, all with the expected outputs.
    pub(super) fn is_answered_by(&self, report: &RunReport, batch: NonZeroU64) -> bool {
        let is_right =
            |outputs: &Vec<OutputValue>| (outputs.iter().map(|value| &value.hex)).eq(&self.outputs);
        report.evaluations.len() as u64 == batch.get() && report.evaluations.iter().all(is_right)
    }
}
