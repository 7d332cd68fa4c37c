//! The results of a run.

use transpute_circuit::{Bits, Program};
use transpute_select::SchemeChoice;
use transpute_session::{Milestone, Role};
use transpute_transport::{LinkInfo, LinkSnapshot};

use crate::Selection;

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

    /// Returns all output bits of the first evaluation, or no bits if there are no evaluations.
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
    /// The report of the run.
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
    /// The reason for which the transport was chosen, as text.
    pub reason: String,
    /// The measured path and the predictions by which this party chose the transport. `None` if
    /// this party did not choose.
    pub selection: Option<Box<Selection>>,
    /// The choice of the garbling scheme, if this party chose among several. The scheme that both
    /// parties agreed on is in [`session`](Self::session).
    pub scheme: Option<SchemeChoice>,
    /// The link: transport, addresses, peer, encryption, set-up times.
    pub link: LinkInfo,
    /// The counters of the link and its measurements of the path at the end of the run.
    pub path: LinkSnapshot,
    /// The report of the protocol: payload bytes by purpose, and times since both parties were
    /// connected.
    pub session: transpute_driver::SingleRunReport,
    /// AND gates per evaluation.
    pub and_gates: u64,
    /// XOR gates per evaluation.
    pub xor_gates: u64,
    /// Number of evaluations in the run.
    pub batch: u64,
}

impl Report {
    /// Returns the time from both parties being connected to this party's last output.
    #[must_use]
    pub fn until_output(&self) -> std::time::Duration {
        self.session
            .at(Milestone::LastOutput)
            .unwrap_or(self.session.elapsed)
    }
}
