//! The opening, which is the first frame of each direction of a connection, and the values that
//! both sides derive from the two openings.

use std::num::NonZeroU64;

use rand::CryptoRng;
use sha2::{Digest, Sha256};
use transpute_ot::{AnySender, BASE_SENDER_LEN, BaseOt, Extension};

use super::ConnectionConfig;
use crate::{
    FrameKind, SessionError,
    error::Field,
    terms::RunLink,
    wire::{HEADER_LEN, read_header},
};

/// Length of an opening's payload, in bytes.
pub(crate) const OPEN_LEN: usize = 100;

const MAGIC: [u8; 4] = *b"TPUT";

/// Version of the protocol. Both sides must have the same version.
const VERSION: u16 = 12;

const FLAG_ENCRYPTED: u8 = 1;
const FLAG_ML_KEM: u8 = 2;
/// Flag: the sender has a connection for one run. It uses no random-OT pool.
const FLAG_SINGLE: u8 = 4;

/// Number of bytes that [`is_open_start`] checks: the header of an opening, and its first four
/// bytes.
pub const OPEN_START: usize = HEADER_LEN + MAGIC.len();

/// Length of the opening frame of a connection in bytes, with its header.
pub const OPEN_FRAME_LEN: usize = HEADER_LEN + OPEN_LEN;

/// Returns whether a stream that starts with these bytes can be a connection of this protocol.
#[must_use]
pub fn is_open_start(bytes: &[u8; OPEN_START]) -> bool {
    let expected = (FrameKind::Open, OPEN_LEN);
    matches!(read_header(bytes), Ok(Some(header)) if header == expected)
        && bytes[HEADER_LEN..] == MAGIC
}

/// The opening of a side: its limits, its nonce and its base-OT message.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) is_encrypted: bool,
    pub(super) base_ot: BaseOt,
    /// Whether the sender has a connection for one run, without a random-OT pool.
    pub(super) is_single: bool,
    /// The OT extension of the pool for runs in which the sender of this opening evaluates.
    pub(super) extension: Extension,
    pub(super) max_runs: u32,
    pub(super) window: u64,
    pub(super) prepared: u64,
    pub(super) nonce: [u8; 32],
    /// The base-OT message of the pool for runs in which the sender of this opening evaluates. Zero
    /// without a pool, and with ML-KEM, where the evaluator answers the garbler's message.
    pub(super) point: [u8; BASE_SENDER_LEN],
    /// The number of runs of the connection, if the sender has fixed it.
    pub(super) runs: Option<NonZeroU64>,
}

impl Open {
    pub(super) fn new(
        config: &ConnectionConfig,
        is_encrypted: bool,
        is_single: bool,
        rng: &mut impl CryptoRng,
    ) -> (Self, Option<AnySender>) {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let (mut base, mut point) = (None, [0; BASE_SENDER_LEN]);
        if !is_single {
            let (sender, message) = AnySender::start(config.base_ot, rng);
            if let Some(message) = message.as_deref().and_then(<[u8]>::first_chunk) {
                point = *message;
            }
            base = Some(sender);
        }
        let window = match is_single {
            true => config.window,
            false => config.window.max(FIRST.window),
        };
        let open = Self {
            is_encrypted,
            base_ot: config.base_ot,
            is_single,
            extension: config.extension,
            max_runs: config.max_runs.max(FIRST.max_runs),
            window,
            prepared: config.prepared,
            nonce,
            point,
            runs: config.runs,
        };
        (open, base)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(OPEN_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let is_kem = self.base_ot != BaseOt::Ristretto255;
        out.push(
            u8::from(self.is_encrypted) * FLAG_ENCRYPTED
                + u8::from(is_kem) * FLAG_ML_KEM
                + u8::from(self.is_single) * FLAG_SINGLE,
        );
        out.push(self.extension.code());
        out.extend_from_slice(&self.max_runs.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        out.extend_from_slice(&self.prepared.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.point);
        out.extend_from_slice(&self.runs.map_or(0, NonZeroU64::get).to_le_bytes());
        debug_assert_eq!(out.len(), OPEN_LEN);
        out
    }

    /// Decodes a peer's opening.
    ///
    /// # Errors
    /// Returns `NotTranspute` or `Length` if the payload is not an opening, `Disagreement` on
    /// another version, and `Unexpected` for an unknown flag or limits that are too low.
    pub(super) fn decode(payload: &[u8]) -> Result<Self, SessionError> {
        let rest = payload
            .strip_prefix(&MAGIC)
            .ok_or(SessionError::NotTranspute)?;
        match rest.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)) {
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
        let fields: &[u8; OPEN_LEN] = payload.try_into().map_err(|_| SessionError::Length {
            kind: FrameKind::Open,
            expected: OPEN_LEN,
            found: payload.len(),
        })?;
        let wrong = |problem| SessionError::Unexpected {
            kind: FrameKind::Open,
            problem,
        };
        let field = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&fields[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let block = |at: usize| {
            let mut bytes = [0; 32];
            bytes.copy_from_slice(&fields[at..at + 32]);
            bytes
        };
        if fields[6] & !(FLAG_ENCRYPTED | FLAG_ML_KEM | FLAG_SINGLE) != 0 {
            return Err(wrong("a flag has an unknown meaning"));
        }
        let code = u8::from(fields[6] & FLAG_ML_KEM != 0);
        let base_ot = BaseOt::from_code(code).ok_or_else(|| SessionError::Disagreement {
            field: Field::BaseOt,
            ours: BaseOt::default().to_string(),
            theirs: "ml-kem-768, which this build does not have".into(),
        })?;
        let open = Self {
            is_encrypted: fields[6] & FLAG_ENCRYPTED != 0,
            base_ot,
            is_single: fields[6] & FLAG_SINGLE != 0,
            extension: Extension::from_code(fields[7])?,
            max_runs: field(8) as u32,
            window: field(12),
            prepared: field(20),
            nonce: block(28),
            point: block(60),
            runs: NonZeroU64::new(field(92)),
        };
        let min_window = match open.is_single {
            true => 0,
            false => FIRST.window,
        };
        if open.max_runs < FIRST.max_runs || open.window < min_window {
            return Err(wrong("its limits are below those that every side has"));
        }
        Ok(open)
    }

    /// Compares the peer's opening with this one. Returns the values that both determine.
    ///
    /// # Errors
    /// Returns `Disagreement` on encryption, base OT or the number of runs, and `Unexpected` if the
    /// peer sent this opening back.
    pub(super) fn agree(&self, theirs: Self) -> Result<Agreed, SessionError> {
        if self.is_encrypted != theirs.is_encrypted {
            let text = |on: bool| if on { "on" } else { "off" }.to_owned();
            return Err(SessionError::Disagreement {
                field: Field::Encryption,
                ours: text(self.is_encrypted),
                theirs: text(theirs.is_encrypted),
            });
        }
        if self.base_ot != theirs.base_ot {
            return Err(SessionError::Disagreement {
                field: Field::BaseOt,
                ours: self.base_ot.to_string(),
                theirs: theirs.base_ot.to_string(),
            });
        }
        if let (Some(ours), Some(theirs)) = (self.runs, theirs.runs)
            && ours != theirs
        {
            return Err(SessionError::Disagreement {
                field: Field::Runs,
                ours: ours.to_string(),
                theirs: theirs.to_string(),
            });
        }
        if self.nonce == theirs.nonce {
            return Err(SessionError::Unexpected {
                kind: FrameKind::Open,
                problem: "it is the one that was sent",
            });
        }
        // Both sides must hash the openings in the same order. The opening with the lower nonce
        // comes first, because the sides have no fixed roles.
        let (low, high) = if self.nonce < theirs.nonce {
            (self, &theirs)
        } else {
            (&theirs, self)
        };
        let sid = Sha256::new()
            .chain_update(b"transpute 1 connection id")
            .chain_update(low.encode())
            .chain_update(high.encode())
            .finalize()
            .into();
        Ok(Agreed {
            sid,
            limits: Limits {
                max_runs: self.max_runs.min(theirs.max_runs),
                window: self.window.min(theirs.window),
                taken_window: self.takes().min(theirs.window),
                prepared: self.prepared.min(theirs.prepared),
            },
            theirs,
        })
    }
}

impl Open {
    /// Returns the window, in bytes, that this side accepts in runs that it evaluates. It is at
    /// least the window of [`FIRST`], because the peer may use that window before it has this
    /// opening.
    fn takes(&self) -> u64 {
        self.window.max(FIRST.window)
    }

    /// Returns the limits that apply until the peer's opening has arrived.
    pub(super) fn first_limits(&self) -> Limits {
        let window = match self.is_single {
            true => self.window,
            false => FIRST.window,
        };
        Limits { window, ..FIRST }
    }
}

/// The limits that apply to a connection.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_runs: u32,
    /// Window for tables that this side sends, in bytes.
    pub(super) window: u64,
    /// Window for tables that this side receives, in bytes.
    pub(super) taken_window: u64,
    pub(super) prepared: u64,
}

/// The limits that every side supports. They apply until the peer's opening has arrived.
pub(super) const FIRST: Limits = Limits {
    max_runs: 32,
    window: 1 << 20,
    taken_window: 1 << 20,
    prepared: 0,
};

/// Values derived from both openings.
pub(super) struct Agreed {
    sid: [u8; 32],
    pub(super) limits: Limits,
    pub(super) theirs: Open,
}

impl Agreed {
    /// Returns the id of the pool for runs in which one side garbles. The pool's transfers are
    /// bound to this id. `garbler` is the nonce of that side.
    pub(super) fn pool_id(&self, garbler: &[u8; 32]) -> [u8; 32] {
        self.derive(b"transpute 1 stock id", garbler, 0)
    }

    /// Returns the properties of a run that both openings determine. `garbler` and `evaluator` are
    /// the openings of the sides with these roles.
    pub(super) fn run_link(&self, garbler: &Open, evaluator: &Open, number: u32) -> RunLink {
        RunLink {
            context: self.derive(b"transpute 1 run context", &garbler.nonce, number),
            excess_window: (garbler.is_single && garbler.window > evaluator.takes())
                .then_some(garbler.window),
        }
    }

    fn derive(&self, purpose: &[u8], garbler: &[u8; 32], number: u32) -> [u8; 32] {
        Sha256::new()
            .chain_update(purpose)
            .chain_update(self.sid)
            .chain_update(garbler)
            .chain_update(number.to_le_bytes())
            .finalize()
            .into()
    }
}
