//! The first message of each direction of a run: the proposal of a party.

use rand::CryptoRng;
use sha2::{Digest, Sha256};
use transpute_circuit::{InputSplit, Program};
use transpute_garble::{Params, Scheme};
use transpute_ot::BaseOt;

use crate::{
    Config, FrameKind, OtChoice, OtPlan, OutputPolicy, Role, SessionError,
    error::Field,
    schemes::{SchemeSet, SchemeTerms},
};

/// Length of an encoded hello, in bytes.
pub(crate) const HELLO_LEN: usize = 206;

const FLAG_OUTPUT_CHECK: u8 = 1;
const FLAG_PREPARED: u8 = 2;
/// Flag: the sender's preference among garbling schemes decides.
const FLAG_DECIDES: u8 = 4;
/// Flag: the garbler uses its own window before it has the peer's opening.
const FLAG_EAGER: u8 = 8;

/// Bit in the code of a plan: the party accepts the peer's plan.
///
/// A party demands a plan if its [`OtChoice`] names one. With [`OtChoice::Auto`], it demands none.
/// Its hello then contains the plan that it expects, with this bit. Both parties apply these rules:
///
/// * If the garbler demands a plan, both use that plan.
/// * Otherwise, both use the evaluator's plan, unless the evaluator expects the pool with this bit
///   and the garbler expects another plan. Then both use the garbler's plan.
/// * If both demand a plan and the plans differ, the run ends with a disagreement.
///
/// So a party that demands a plan never uses another one. A party that has started another plan
/// than the agreed one starts its transfers again. The peer ignores its first base-OT message.
const OPEN: u8 = 0x80;

/// The peer's proposal of a run, for an application that decides whether to accept it. The other
/// settings are compared after this side has called for the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Proposal {
    /// [`Program::digest`](transpute_circuit::Program::digest) of the circuit.
    pub circuit: [u8; 32],
    /// Number of evaluations of the circuit.
    pub batch: u64,
    /// Whether the oblivious transfers may be direct: the peer demands or accepts this, and their
    /// number is within [`OtPlan::direct_maximum`].
    pub may_be_direct: bool,
    /// Whether the run is prepared before its inputs are known.
    pub is_prepared: bool,
}

/// The hello of a party: the settings that both parties must agree on, and values such as nonces.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    pub(crate) nonce: [u8; 32],
    /// The start value of [`Params`]. In an evaluator's hello, it is not used.
    pub(crate) start: [u8; 16],
    pub(crate) input_seed: [u8; 16],
    pub(crate) prf_nonce: u64,
    /// SHA-256 of the base-OT message that follows this hello. Zero if none follows.
    pub(crate) setup_hash: [u8; 32],
    terms: HelloFields,
}

/// The settings that may differ in two hellos, as agreed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Agreement {
    /// The kind of oblivious transfer.
    pub(crate) plan: OtPlan,
    /// The garbling scheme.
    pub(crate) scheme: Scheme,
    /// Whether the garbler must start again with a second hello, because it has started with
    /// another scheme or a larger window than the evaluator accepts.
    pub(crate) begins_again: bool,
}

/// The settings in a hello. They must be equal on both sides, except for `schemes` and `ot`.
#[derive(Clone, Eq, PartialEq)]
struct HelloFields {
    schemes: SchemeTerms,
    /// The code of the plan with which the party starts, and the bit [`OPEN`].
    ot: u8,
    output: u8,
    flags: u8,
    rekey_period: u32,
    chunk_len: u32,
    batch: u64,
    circuit: [u8; 32],
    garbler_bits: u64,
    evaluator_bits: u64,
    split: [u8; 32],
}

impl Hello {
    pub(crate) fn new(
        role: Role,
        config: &Config,
        plan: OtPlan,
        program: &Program,
        split: &InputSplit,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let is_open = config.ot == OtChoice::Auto && plan != OtPlan::None;
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
            terms: HelloFields {
                schemes: SchemeTerms {
                    preferred: config.scheme,
                    allowed: config.allowed_schemes(),
                    decides: config.decides_scheme,
                },
                ot: plan.code() | if is_open { OPEN } else { 0 },
                output: config.output.code(),
                flags: u8::from(config.output_check) * FLAG_OUTPUT_CHECK,
                rekey_period: config.rekey_period,
                chunk_len: config.chunk_len,
                batch: config.batch,
                circuit: *program.digest(),
                garbler_bits: split.garbler_bits() as u64,
                evaluator_bits: split.evaluator_bits() as u64,
                split: Sha256::digest(&owners).into(),
            },
        }
    }

    /// Marks the run as prepared: its tables are garbled before its inputs are known.
    pub(crate) fn set_prepared(&mut self) {
        self.terms.flags |= FLAG_PREPARED;
    }

    /// Sets whether the garbler uses its own window before it knows the peer's window.
    pub(crate) fn set_eager(&mut self, is_eager: bool) {
        self.terms.flags &= !FLAG_EAGER;
        self.terms.flags |= u8::from(is_eager) * FLAG_EAGER;
    }

    /// Returns whether a garbler has started with a larger window than its peer may accept.
    pub(crate) fn is_eager(&self) -> bool {
        self.terms.flags & FLAG_EAGER != 0
    }

    /// Returns the plan with which the party starts. `None` if its code is not valid.
    pub(crate) fn plan(&self) -> Option<OtPlan> {
        self.terms.plan()
    }

    /// Changes the preferred scheme to another allowed one, before the hello is sent.
    pub(crate) fn prefer_scheme(&mut self, scheme: Scheme) {
        self.terms.schemes.preferred = scheme;
    }

    /// Allows the agreed scheme and no other.
    pub(crate) fn settle_scheme(&mut self, scheme: Scheme) {
        self.terms.schemes.preferred = scheme;
        self.terms.schemes.allowed = SchemeSet::of(&[scheme]);
    }

    /// Changes a sent hello into the second hello, with which the garbler starts again. It has a
    /// new nonce and allows only the agreed scheme.
    pub(crate) fn renew(&mut self, scheme: Scheme, rng: &mut impl CryptoRng) {
        rng.fill_bytes(&mut self.nonce);
        self.setup_hash = [0; 32];
        self.settle_scheme(scheme);
        self.set_eager(false);
    }

    /// Returns whether a garbler with this hello sends tables before it has the peer's hello.
    pub(crate) fn begins_at_once(&self) -> bool {
        let is_prepared = self.terms.flags & FLAG_PREPARED != 0;
        self.terms.schemes.begins_at_once(is_prepared)
    }

    /// Sets the hash of the base-OT message that follows this hello.
    pub(crate) fn set_setup(&mut self, message: &[u8]) {
        self.setup_hash = Sha256::digest(message).into();
    }

    /// Sets the garbler's public parameters.
    pub(crate) fn set_params(&mut self, params: &Params) {
        self.start = params.start;
        self.input_seed = params.input_seed;
        self.prf_nonce = params.nonce;
    }

    /// Returns the garbling parameters that a garbler's hello announces, for the scheme in
    /// `config`.
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
        let role = match self.role {
            Role::Garbler => 0,
            Role::Evaluator => 1,
        };
        let SchemeTerms {
            preferred,
            allowed,
            decides,
        } = terms.schemes;
        let flags = terms.flags | (u8::from(decides) * FLAG_DECIDES);
        out.extend_from_slice(&[role, preferred.code(), allowed.code()]);
        out.extend_from_slice(&[terms.ot, terms.output, flags]);
        out.extend_from_slice(&terms.rekey_period.to_le_bytes());
        out.extend_from_slice(&terms.chunk_len.to_le_bytes());
        out.extend_from_slice(&terms.batch.to_le_bytes());
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

    /// Decodes a peer's hello.
    ///
    /// # Errors
    /// Returns `Length` for a wrong length, and `Unexpected` if the role or the schemes have an
    /// unknown value.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, SessionError> {
        let wrong_length = SessionError::Length {
            kind: FrameKind::Hello,
            expected: HELLO_LEN,
            found: payload.len(),
        };
        if payload.len() != HELLO_LEN {
            return Err(wrong_length);
        }
        let hello = Reader(payload).hello().ok_or(wrong_length)?;
        hello.ok_or(SessionError::Unexpected {
            kind: FrameKind::Hello,
            problem: "its role or its garbling schemes have an unknown value",
        })
    }

    /// Returns the part of this hello that is shown to the application.
    pub(crate) fn proposal(&self, base: BaseOt) -> Proposal {
        let terms = &self.terms;
        let accepts_direct =
            terms.ot & OPEN != 0 || matches!(terms.plan(), Some(OtPlan::None | OtPlan::Direct));
        let transfers = terms.batch.checked_mul(terms.evaluator_bits);
        let fits = transfers.is_some_and(|count| count <= OtPlan::direct_maximum(base));
        let is_prepared = terms.flags & FLAG_PREPARED != 0;
        Proposal {
            circuit: terms.circuit,
            batch: terms.batch,
            may_be_direct: accepts_direct && fits && !is_prepared,
            is_prepared,
        }
    }

    /// Compares the peer's hello with this one. Returns the agreed settings. `has_excess` states
    /// whether the garbler's window is larger than the evaluator accepts.
    ///
    /// # Errors
    /// Returns `Disagreement` on the first differing field, and `Unexpected` for an impossible
    /// plan.
    pub(crate) fn agree(
        &self,
        theirs: &Self,
        base: BaseOt,
        has_excess: bool,
    ) -> Result<Agreement, SessionError> {
        if self.role == theirs.role {
            return Err(SessionError::Disagreement {
                field: Field::Role,
                ours: self.role.to_string(),
                theirs: theirs.role.to_string(),
            });
        }
        let (garbler, evaluator) = match self.role {
            Role::Garbler => (&self.terms, &theirs.terms),
            Role::Evaluator => (&theirs.terms, &self.terms),
        };
        let scheme = SchemeTerms::agree(&garbler.schemes, &evaluator.schemes);
        self.terms.compare(&theirs.terms, scheme.is_some())?;
        // If the evaluator expects the pool but does not demand it, the garbler's plan decides. So
        // the pool is used only if both sides expect it.
        let leaves_it = evaluator.ot & OPEN != 0 && evaluator.plan() == Some(OtPlan::Pool);
        let decides = if garbler.ot & OPEN == 0 || leaves_it {
            garbler
        } else {
            evaluator
        };
        let plan = (decides.plan()).filter(|plan| self.terms.can_do(*plan, base));
        let (Some(plan), Some(scheme)) = (plan, scheme) else {
            return Err(SessionError::Unexpected {
                kind: FrameKind::Hello,
                problem: "its oblivious transfers are impossible with these settings",
            });
        };
        let is_prepared = garbler.flags & FLAG_PREPARED != 0;
        Ok(Agreement {
            plan,
            scheme,
            begins_again: garbler.schemes.begins_at_once(is_prepared)
                && (scheme != garbler.schemes.preferred
                    || (has_excess && garbler.flags & FLAG_EAGER != 0)),
        })
    }

    /// Returns whether the base-OT message that this hello announces is also the first message of
    /// `plan`.
    pub(crate) fn has_begun(&self, plan: OtPlan) -> bool {
        (self.terms.plan()).is_some_and(|begun| begun.begins_as(plan))
    }

    /// Returns whether the hello announces a base-OT message.
    pub(crate) fn announces_setup(&self) -> bool {
        self.setup_hash != [0; 32]
    }

    /// Changes the plan, before the hello is sent.
    pub(crate) fn set_plan(&mut self, plan: OtPlan) {
        self.terms.ot = plan.code() | self.terms.ot & OPEN;
        self.setup_hash = [0; 32];
    }
}

/// Checks a received base-OT message against the hello that announced it.
pub(crate) fn check_setup(hello: &Hello, message: &[u8]) -> Result<(), SessionError> {
    let mut announced = hello.clone();
    announced.set_setup(message);
    if announced.setup_hash == hello.setup_hash {
        Ok(())
    } else {
        Err(SessionError::Unexpected {
            kind: FrameKind::OtSetup,
            problem: "it is not the message that the hello announced",
        })
    }
}

impl HelloFields {
    fn compare(&self, theirs: &Self, has_scheme: bool) -> Result<(), SessionError> {
        let flag = |terms: &Self, flag| terms.flags & flag != 0;
        let yes_no = |yes: bool| if yes { "on" } else { "off" }.to_owned();
        let differ = |field, ours: String, theirs: String| {
            Err(SessionError::Disagreement {
                field,
                ours,
                theirs,
            })
        };
        // The circuit is first, because with different circuits most other fields differ too.
        if self.circuit != theirs.circuit {
            return differ(
                Field::Circuit,
                transpute_circuit::hex(&self.circuit),
                transpute_circuit::hex(&theirs.circuit),
            );
        }
        if (self.garbler_bits, self.evaluator_bits, self.split)
            != (theirs.garbler_bits, theirs.evaluator_bits, theirs.split)
        {
            return differ(Field::InputSplit, self.split_text(), theirs.split_text());
        }
        if !has_scheme {
            let text = |terms: &Self| terms.schemes.to_string();
            return differ(Field::Scheme, text(self), text(theirs));
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
        ] {
            if ours != theirs {
                return differ(field, ours.to_string(), theirs.to_string());
            }
        }
        let is_open = (self.ot | theirs.ot) & OPEN != 0;
        if self.ot != theirs.ot && !is_open {
            return differ(Field::Ot, plan_text(self.ot), plan_text(theirs.ot));
        }
        for (field, mask) in [
            (Field::OutputCheck, FLAG_OUTPUT_CHECK),
            (Field::Prepared, FLAG_PREPARED),
        ] {
            if flag(self, mask) != flag(theirs, mask) {
                return differ(field, yes_no(flag(self, mask)), yes_no(flag(theirs, mask)));
            }
        }
        Ok(())
    }

    /// Returns the plan that the party starts with, if its code is valid.
    fn plan(&self) -> Option<OtPlan> {
        OtPlan::from_code(self.ot & !OPEN)
    }

    /// Returns whether a plan is possible with these settings of this side.
    fn can_do(&self, plan: OtPlan, base: BaseOt) -> bool {
        let Some(total) = self.batch.checked_mul(self.evaluator_bits) else {
            return false;
        };
        let is_prepared = self.flags & FLAG_PREPARED != 0;
        match plan {
            OtPlan::None => total == 0,
            OtPlan::Direct => !is_prepared && (1..=OtPlan::direct_maximum(base)).contains(&total),
            OtPlan::Extension(_) => !is_prepared && total > 0,
            OtPlan::Pool => self.plan() == Some(OtPlan::Pool),
        }
    }

    fn split_text(&self) -> String {
        format!(
            "{} bits from the garbler and {} from the evaluator (split {})",
            self.garbler_bits,
            self.evaluator_bits,
            transpute_circuit::hex(&self.split[..4])
        )
    }
}

fn plan_text(code: u8) -> String {
    OtPlan::from_code(code & !OPEN).map_or_else(|| format!("plan {code}"), |p| p.to_string())
}

/// Reads fixed-size fields from the front of a slice.
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

    /// Reads all fields. The outer `None` means that there are too few bytes. The inner `None`
    /// means an invalid role or scheme.
    fn hello(&mut self) -> Option<Option<Hello>> {
        let [role, scheme, allowed, ot, output, flags] = self.array()?;
        let (rekey_period, chunk_len) = (self.u32()?, self.u32()?);
        let batch = self.u64()?;
        let circuit = self.array()?;
        let (garbler_bits, evaluator_bits) = (self.u64()?, self.u64()?);
        let (split, nonce, setup_hash) = (self.array()?, self.array()?, self.array()?);
        let (start, input_seed, prf_nonce) = (self.array()?, self.array()?, self.u64()?);
        let role = match role {
            0 => Role::Garbler,
            1 => Role::Evaluator,
            _ => return Some(None),
        };
        let schemes = (Scheme::from_code(scheme).zip(SchemeSet::from_code(allowed)))
            .filter(|(preferred, allowed)| allowed.contains(*preferred));
        let Some((preferred, allowed)) = schemes else {
            return Some(None);
        };
        Some(Some(Hello {
            role,
            nonce,
            start,
            input_seed,
            prf_nonce,
            setup_hash,
            terms: HelloFields {
                schemes: SchemeTerms {
                    preferred,
                    allowed,
                    decides: flags & FLAG_DECIDES != 0,
                },
                ot,
                output,
                flags: flags & !FLAG_DECIDES,
                rekey_period,
                chunk_len,
                batch,
                circuit,
                garbler_bits,
                evaluator_bits,
                split,
            },
        }))
    }
}
