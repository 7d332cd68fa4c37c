//! What a run gives back.

use transpute_circuit::{Bits, Program};
use transpute_select::SchemeChoice;
use transpute_session::{Milestone, Role};
use transpute_transport::{LinkInfo, LinkSnapshot};

use crate::auto::Selection;

/// The outputs of one evaluation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Evaluation {
    /// Each output value of the circuit.
    pub outputs: Vec<Bits>,
}

impl Evaluation {
    /// Cuts the output bits of evaluations into values.
    pub(crate) fn all(program: &Program, outputs: impl IntoIterator<Item = Bits>) -> Vec<Self> {
        (outputs.into_iter())
            .map(|bits| Self {
                outputs: program.split_outputs(&bits),
            })
            .collect()
    }

    /// Returns all output bits of the first evaluation; none if there is none.
    pub(crate) fn first_bits(evaluations: &[Self]) -> Bits {
        let mut bits = Bits::new();
        if let Some(first) = evaluations.first() {
            bits.extend(first.outputs.iter().cloned());
        }
        bits
    }
}

/// What a party has after a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The evaluations of the batch in order; empty for a party that learns no output.
    pub evaluations: Vec<Evaluation>,
    /// What happened.
    pub report: Report,
}

impl Results {
    /// Returns all output bits of the first evaluation; none for a party that learns no output.
    #[must_use]
    pub fn bits(&self) -> Bits {
        Evaluation::first_bits(&self.evaluations)
    }
}

/// What happened in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// This party's role.
    pub role: Role,
    /// Why this transport.
    pub reason: String,
    /// How it was chosen, if this party chose it: the path, and what was predicted for each transport.
    pub selection: Option<Box<Selection>>,
    /// Why this party preferred its garbling scheme, if it chose among several. The one that was used is in
    /// [`session`](Self::session).
    pub scheme: Option<SchemeChoice>,
    /// The link: transport, addresses, peer, encryption, time to connect and authenticate.
    pub link: LinkInfo,
    /// The link's figures at the end.
    pub path: LinkSnapshot,
    /// The protocol: bytes by purpose and times from both parties being connected.
    pub session: transpute_driver::Report,
    /// AND gates garbled per evaluation.
    pub and_gates: u64,
    /// XOR gates per evaluation.
    pub xor_gates: u64,
    /// Evaluations.
    pub batch: u64,
}

impl Report {
    /// Returns the time from both parties being connected until the last output was known.
    #[must_use]
    pub fn until_output(&self) -> std::time::Duration {
        self.session
            .at(Milestone::LastOutput)
            .unwrap_or(self.session.elapsed)
    }
}
