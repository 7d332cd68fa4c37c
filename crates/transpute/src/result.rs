//! The results of a run.

use transpute_circuit::{Bits, Program};
use transpute_select::SchemeChoice;
use transpute_session::{Milestone, Role};
use transpute_transport::{LinkInfo, LinkSnapshot};

use crate::auto::Selection;

/// The outputs of one evaluation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Evaluation {
    /// The output values of the circuit.
    pub outputs: Vec<Bits>,
}

impl Evaluation {
    /// Splits the output bits of evaluations into values.
    pub(crate) fn all(program: &Program, outputs: impl IntoIterator<Item = Bits>) -> Vec<Self> {
        (outputs.into_iter())
            .map(|bits| Self {
                outputs: program.split_outputs(&bits),
            })
            .collect()
    }

    /// Returns all output bits of the first evaluation, or no bits without one.
    pub(crate) fn first_bits(evaluations: &[Self]) -> Bits {
        let mut bits = Bits::new();
        if let Some(first) = evaluations.first() {
            bits.extend(first.outputs.iter().cloned());
        }
        bits
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The evaluations of the batch, in order. Empty for a party that learns no output.
    pub evaluations: Vec<Evaluation>,
    /// Bytes, times, link and choices of the run.
    pub report: Report,
}

impl Results {
    /// Returns all output bits of the first evaluation, or no bits for a party that learns no
    /// output.
    #[must_use]
    pub fn bits(&self) -> Bits {
        Evaluation::first_bits(&self.evaluations)
    }
}

/// Bytes, times, link and choices of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// This party's role.
    pub role: Role,
    /// The reason for the transport.
    pub reason: String,
    /// The choice of the transport, if this party chose it: the path and the predictions.
    pub selection: Option<Box<Selection>>,
    /// The choice of the garbling scheme, if this party chose among several. The scheme in use is
    /// in [`session`](Self::session).
    pub scheme: Option<SchemeChoice>,
    /// The link: transport, addresses, peer, encryption, set-up times.
    pub link: LinkInfo,
    /// The counters of the link at the end of the run.
    pub path: LinkSnapshot,
    /// The protocol: bytes by purpose, and times since both parties were connected.
    pub session: transpute_driver::SingleRunReport,
    /// AND gates per evaluation.
    pub and_gates: u64,
    /// XOR gates per evaluation.
    pub xor_gates: u64,
    /// Number of evaluations.
    pub batch: u64,
}

impl Report {
    /// Returns the time from the connection of both parties to the last output.
    #[must_use]
    pub fn until_output(&self) -> std::time::Duration {
        self.session
            .at(Milestone::LastOutput)
            .unwrap_or(self.session.elapsed)
    }
}
