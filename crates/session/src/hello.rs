//! The first message of each direction: what a party proposes.

use rand::CryptoRng;
use sha2::{Digest, Sha256};
use transpute_circuit::{InputSplit, Program};
use transpute_garble::{Params, Scheme};

use crate::{
    Config, FrameKind, Proposal, Role, SessionError,
    config::{OtPlan, OutputPolicy},
    error::Field,
    wire::{START, starts},
};

/// Length of an encoded hello.
pub(crate) const HELLO_LEN: usize = 220;

const MAGIC: [u8; 4] = *b"TPUT";

/// Version of the messages; both sides must have the same.
const VERSION: u16 = 3;

const FLAG_OUTPUT_CHECK: u8 = 1;
const FLAG_ENCRYPTED: u8 = 2;
const FLAG_PREPARED: u8 = 4;

/// Everything two parties must agree on, and what each brings.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    pub(crate) nonce: [u8; 32],
    /// The garbler's public parameters; the evaluator's are not used.
    pub(crate) start: [u8; 16],
    pub(crate) input_seed: [u8; 16],
    pub(crate) prf_nonce: u64,
    /// SHA-256 of the sender's base-OT message; zero if it sends none.
    pub(crate) setup_hash: [u8; 32],
    terms: Terms,
}

/// The part of a hello that must be equal on both sides.
#[derive(Clone, Eq, PartialEq)]
struct Terms {
    scheme: u8,
    ot: u8,
    output: u8,
    flags: u8,
    rekey_period: u32,
    chunk_len: u32,
    batch: u64,
    table_lead: u64,
    circuit: [u8; 32],
    garbler_bits: u64,
    evaluator_bits: u64,
    split: [u8; 32],
}

/// Bytes by which [`is_hello_start`] judges: the header and the first four bytes of a hello.
pub const HELLO_START: usize = START;

/// Says whether the first bytes of a stream can be those of a session.
#[must_use]
pub fn is_hello_start(bytes: &[u8; HELLO_START]) -> bool {
    starts(bytes, FrameKind::Hello, HELLO_LEN, MAGIC)
}

impl Hello {
    pub(crate) fn new(
        role: Role,
        config: &Config,
        plan: OtPlan,
        program: &Program,
        split: &InputSplit,
        encrypted: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let owners: Vec<u8> = (0..split.widths().len())
            .map(|index| u8::from(split.is_garbler(index)))
            .collect();
        Self {
            role,
            nonce,
            start: [0; 16],
            input_seed: [0; 16],
            prf_nonce: 0,
            setup_hash: [0; 32],
            terms: Terms {
                scheme: config.scheme.code(),
                ot: plan.code(),
                output: config.output.code(),
                flags: u8::from(config.output_check) * FLAG_OUTPUT_CHECK
                    + u8::from(encrypted) * FLAG_ENCRYPTED,
                rekey_period: config.rekey_period,
                chunk_len: config.chunk_len,
                batch: config.batch,
                table_lead: config.table_lead,
                circuit: *program.digest(),
                garbler_bits: split.garbler_bits() as u64,
                evaluator_bits: split.evaluator_bits() as u64,
                split: Sha256::digest(&owners).into(),
            },
        }
    }

    /// Says that the run is prepared before its inputs are known.
    pub(crate) fn set_prepared(&mut self) {
        self.terms.flags |= FLAG_PREPARED;
    }

    /// Announces the base-OT message that follows.
    pub(crate) fn set_setup(&mut self, message: &[u8]) {
        self.setup_hash = Sha256::digest(message).into();
    }

    /// Puts in the garbler's public parameters.
    pub(crate) fn set_params(&mut self, params: &Params) {
        self.start = params.start;
        self.input_seed = params.input_seed;
        self.prf_nonce = params.nonce;
    }

    /// Returns the garbling parameters that a garbler's hello announces.
    pub(crate) fn params(&self, config: &Config) -> Params {
        Params {
            scheme: config.scheme,
            rekey_period: config.rekey_period,
            start: self.start,
            nonce: self.prf_nonce,
            input_seed: self.input_seed,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let terms = &self.terms;
        let mut out = Vec::with_capacity(HELLO_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let role = match self.role {
            Role::Garbler => 0,
            Role::Evaluator => 1,
        };
        out.extend_from_slice(&[role, terms.scheme, terms.ot, terms.output, terms.flags, 0]);
        out.extend_from_slice(&terms.rekey_period.to_le_bytes());
        out.extend_from_slice(&terms.chunk_len.to_le_bytes());
        out.extend_from_slice(&terms.batch.to_le_bytes());
        out.extend_from_slice(&terms.table_lead.to_le_bytes());
        out.extend_from_slice(&terms.circuit);
        out.extend_from_slice(&terms.garbler_bits.to_le_bytes());
        out.extend_from_slice(&terms.evaluator_bits.to_le_bytes());
        out.extend_from_slice(&terms.split);
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.setup_hash);
        out.extend_from_slice(&self.start);
        out.extend_from_slice(&self.input_seed);
        out.extend_from_slice(&self.prf_nonce.to_le_bytes());
        debug_assert_eq!(out.len(), HELLO_LEN);
        out
    }

    /// Reads a peer's hello.
    ///
    /// # Errors
    /// `NotTranspute`, `Disagreement` on the version, `Length`, `Unexpected`.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, SessionError> {
        let mut reader = Reader(payload);
        if reader.array() != Some(MAGIC) {
            return Err(SessionError::NotTranspute);
        }
        match reader.array().map(u16::from_le_bytes) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(SessionError::Disagreement {
                    field: Field::Version,
                    ours: VERSION.to_string(),
                    theirs: other.to_string(),
                });
            }
            None => return Err(SessionError::NotTranspute),
        }
        let wrong_length = SessionError::Length {
            kind: FrameKind::Hello,
            expected: HELLO_LEN,
            found: payload.len(),
        };
        if payload.len() != HELLO_LEN {
            return Err(wrong_length);
        }
        let hello = reader.hello().ok_or(wrong_length)?;
        hello.ok_or(SessionError::Unexpected {
            kind: FrameKind::Hello,
            problem: "a role or reserved byte has an unknown value",
        })
    }

    /// Returns what an application needs to know to answer.
    pub(crate) fn proposal(&self) -> Proposal {
        let Terms { flags, ot, .. } = self.terms;
        Proposal {
            circuit: self.terms.circuit,
            batch: self.terms.batch,
            is_direct: ot == OtPlan::Direct.code(),
            is_prepared: flags & FLAG_PREPARED != 0,
        }
    }

    /// Compares a peer's hello with ours.
    ///
    /// # Errors
    /// `Disagreement` on the first field that differs.
    pub(crate) fn agree(&self, theirs: &Self) -> Result<(), SessionError> {
        if self.role == theirs.role {
            return Err(SessionError::Disagreement {
                field: Field::Role,
                ours: self.role.to_string(),
                theirs: theirs.role.to_string(),
            });
        }
        self.terms.compare(&theirs.terms)
    }

    /// Returns the session id of a run of a standing connection.
    pub(crate) fn run_id(context: &[u8; 32], garbler: &[u8], evaluator: &[u8]) -> [u8; 32] {
        Sha256::new()
            .chain_update(b"transpute 1 run id")
            .chain_update(context)
            .chain_update(garbler)
            .chain_update(evaluator)
            .finalize()
            .into()
    }

    /// Returns the session id: a hash of both hellos.
    pub(crate) fn session_id(garbler: &[u8], evaluator: &[u8]) -> [u8; 32] {
        Sha256::new()
            .chain_update(b"transpute 1 session id")
            .chain_update(garbler)
            .chain_update(evaluator)
            .finalize()
            .into()
    }
}

impl Terms {
    fn compare(&self, theirs: &Self) -> Result<(), SessionError> {
        let flag = |terms: &Self, flag| terms.flags & flag != 0;
        let yes_no = |yes: bool| if yes { "on" } else { "off" }.to_owned();
        let scheme = |code| {
            Scheme::from_code(code).map_or_else(|| format!("scheme {code}"), |s| s.to_string())
        };
        let differ = |field, ours: String, theirs: String| {
            Err(SessionError::Disagreement {
                field,
                ours,
                theirs,
            })
        };
        // The circuit first: with different circuits most of the rest differs as a consequence.
        if self.circuit != theirs.circuit {
            return differ(Field::Circuit, hex(&self.circuit), hex(&theirs.circuit));
        }
        if (self.garbler_bits, self.evaluator_bits, self.split)
            != (theirs.garbler_bits, theirs.evaluator_bits, theirs.split)
        {
            return differ(Field::InputSplit, self.split_text(), theirs.split_text());
        }
        if self.scheme != theirs.scheme {
            return differ(Field::Scheme, scheme(self.scheme), scheme(theirs.scheme));
        }
        if self.output != theirs.output {
            let text = |code| match code {
                c if c == OutputPolicy::Evaluator.code() => "evaluator".to_owned(),
                c if c == OutputPolicy::Garbler.code() => "garbler".to_owned(),
                c if c == OutputPolicy::Both.code() => "both".to_owned(),
                c => format!("policy {c}"),
            };
            return differ(Field::Output, text(self.output), text(theirs.output));
        }
        for (field, ours, theirs) in [
            (Field::Batch, self.batch, theirs.batch),
            (
                Field::RekeyPeriod,
                self.rekey_period.into(),
                theirs.rekey_period.into(),
            ),
            (
                Field::ChunkLen,
                self.chunk_len.into(),
                theirs.chunk_len.into(),
            ),
            (Field::TableLead, self.table_lead, theirs.table_lead),
        ] {
            if ours != theirs {
                return differ(field, ours.to_string(), theirs.to_string());
            }
        }
        if self.ot != theirs.ot {
            return differ(
                Field::Ot,
                format!("{:#04x}", self.ot),
                format!("{:#04x}", theirs.ot),
            );
        }
        for (field, mask) in [
            (Field::OutputCheck, FLAG_OUTPUT_CHECK),
            (Field::Encryption, FLAG_ENCRYPTED),
            (Field::Prepared, FLAG_PREPARED),
        ] {
            if flag(self, mask) != flag(theirs, mask) {
                return differ(field, yes_no(flag(self, mask)), yes_no(flag(theirs, mask)));
            }
        }
        Ok(())
    }

    fn split_text(&self) -> String {
        format!(
            "{} bits from the garbler and {} from the evaluator (split {})",
            self.garbler_bits,
            self.evaluator_bits,
            hex(&self.split[..4])
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes fixed-size fields off the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads what follows the version: outer `None` if it is too short, inner if a byte has no
    /// meaning.
    fn hello(&mut self) -> Option<Option<Hello>> {
        let [role, scheme, ot, output, flags, reserved] = self.array()?;
        let (rekey_period, chunk_len) = (self.u32()?, self.u32()?);
        let (batch, table_lead) = (self.u64()?, self.u64()?);
        let circuit = self.array()?;
        let (garbler_bits, evaluator_bits) = (self.u64()?, self.u64()?);
        let (split, nonce, setup_hash) = (self.array()?, self.array()?, self.array()?);
        let (start, input_seed, prf_nonce) = (self.array()?, self.array()?, self.u64()?);
        let role = match (role, reserved) {
            (0, 0) => Role::Garbler,
            (1, 0) => Role::Evaluator,
            _ => return Some(None),
        };
        Some(Some(Hello {
            role,
            nonce,
            start,
            input_seed,
            prf_nonce,
            setup_hash,
            terms: Terms {
                scheme,
                ot,
                output,
                flags,
                rekey_period,
                chunk_len,
                batch,
                table_lead,
                circuit,
                garbler_bits,
                evaluator_bits,
                split,
            },
        }))
    }
}
