//! The expected traffic of a run.

use transpute_circuit::{InputSplit, Program};
use transpute_garble::decode_len;
use transpute_ot::BASE_COUNT;

use crate::{
    Config, OtPlan, Role,
    channel::FINISH_LEN,
    connection::{CLOSE_LEN, OPEN_LEN},
    garbler::LABELS_PER_FRAME,
    hello::HELLO_LEN,
    masked_output::output_len,
    ot_plan::{OT_CHUNK, reply_len},
    pieces::{NUMBER_LEN, PIECE},
    wire::HEADER_LEN,
};

/// Estimated bytes of tables that the garbler has made when the evaluator's first request arrives:
/// the capacity of the buffers on the garbler's side. Labels of later tables need no answer.
/// Measured: 130 kB over `tcp`, and up to 15 MB over `rudp` on a path that is known to be fast.
const TABLES_AHEAD: u128 = 1 << 20;

/// Bytes of the number of the run in each of its frames.
const TAG_LEN: usize = 4;

/// Bytes of an additional chunk: a header, the number of the run, the number of the chunk, and the
/// bits of its trailer rounded up to a byte.
const CHUNK_COST: u128 = (HEADER_LEN + TAG_LEN + NUMBER_LEN + 1) as u128;

/// The bytes of a run and the number of its oblivious transfers. Bytes are those of frames with
/// their headers.
///
/// All numbers are exact, except those of the garbler. `garbler_bytes` and `garbler_late_bytes` are
/// estimates, for two reasons:
///
/// - Chunks of tables are counted as if all but the last one were full.
/// - If labels differ by one offset, the garbler answers a transfer of an extension with 16 bytes
///   if it has made the labels of that input, and with none otherwise. That depends on the arrival
///   time of the request.
///
/// `min_garbler_bytes` and `max_garbler_bytes` bound the garbler's bytes for any timing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExpectedTraffic {
    /// Bytes from the garbler to the evaluator.
    pub garbler_bytes: u64,
    /// Part of them that cannot be sent before the garbler has received a message: answers of
    /// oblivious transfers, labels of the garbler's inputs, decoding information and the end.
    pub garbler_late_bytes: u64,
    /// Minimum of the garbler's bytes: no label of a transfer that needs no answer is made when the
    /// request arrives.
    pub min_garbler_bytes: u64,
    /// Maximum of the garbler's bytes: all these labels are made, and chunks of tables are as short
    /// as possible.
    pub max_garbler_bytes: u64,
    /// Bytes from the evaluator to the garbler.
    pub evaluator_bytes: u64,
    /// Number of one-way flights from the connection of both parties to the evaluator's output
    /// ([`OtPlan::flights`]).
    pub flights: u32,
    /// Number of public-key oblivious transfers.
    pub base_transfers: u64,
    /// Number of transfers of an extension.
    pub extended_transfers: u64,
}

/// The messages of oblivious transfer.
#[derive(Default)]
struct Transfers {
    /// The garbler's message that depends on none of the evaluator's.
    setup: u128,
    /// The garbler's answers.
    answers: u128,
    /// Bytes of answers that are not needed if their labels are not made.
    avoidable: u128,
    /// The part of `avoidable` that `answers` includes.
    expected_avoidable: u128,
    /// All messages of the evaluator.
    requests: u128,
    base: u64,
    extended: u64,
}

impl ExpectedTraffic {
    /// Computes the traffic of a connection for one run, with the opening and the end of the
    /// connection, without a known path ([`Config::path`] is ignored). A run with more direct
    /// transfers than the protocol allows is counted without them, because it is rejected.
    #[must_use]
    pub fn new(program: &Program, split: &InputSplit, config: &Config) -> Self {
        let scheme = config.scheme;
        let batch = u128::from(config.batch);
        // Evaluations in one group share their chunks, so the bits of all evaluations are rounded
        // up once.
        let tables = u128::from(scheme.table_bytes(
            program.and_count().saturating_mul(config.batch),
            program.xor_count().saturating_mul(config.batch),
        ));
        let chunk_len = u128::from(config.chunk_len.max(1));
        let chunks = tables.div_ceil(chunk_len);
        let count = (split.evaluator_bits() as u64).saturating_mul(config.batch);
        let plan = OtPlan::new(config.ot, config.base_ot, count).unwrap_or(OtPlan::None);
        let transfers = Transfers::new(plan, config, count, tables);
        let labels = match scheme.sends_garbler_labels() {
            true => pieces(split.garbler_bits() * 16, LABELS_PER_FRAME * 16),
            false => 0,
        };
        let decode = match config.output.reaches(Role::Evaluator) {
            true => whole_pieces(decode_len(program, config.output_check)),
            false => 0,
        };
        let masked = match config.output.reaches(Role::Garbler) {
            true => whole_pieces(output_len(program)),
            false => 0,
        };
        let end = framed(FINISH_LEN) + untagged(CLOSE_LEN);
        let late = transfers.answers + batch * (labels + decode) + end;
        let begin = untagged(OPEN_LEN) + framed(HELLO_LEN);
        let early = begin + transfers.setup + tables + chunks * numbered(0);
        let evaluator = begin + transfers.requests + batch * masked + end;
        let garbler = early + late;
        let unavoidable = garbler - transfers.expected_avoidable;
        // Each evaluation, or group of them, ends with a chunk that is not full. A chunk ends
        // before a gate that does not fit.
        let more_chunks = 2 * batch + tables / chunk_len;
        let bytes = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self {
            garbler_bytes: bytes(garbler),
            min_garbler_bytes: bytes(unavoidable),
            max_garbler_bytes: bytes(unavoidable + transfers.avoidable + more_chunks * CHUNK_COST),
            garbler_late_bytes: bytes(late),
            evaluator_bytes: bytes(evaluator),
            flights: plan.flights(),
            base_transfers: transfers.base,
            extended_transfers: transfers.extended,
        }
    }
}

impl Transfers {
    fn new(plan: OtPlan, config: &Config, count: u64, tables: u128) -> Self {
        let base = config.base_ot;
        match plan {
            OtPlan::None | OtPlan::Pool => Self::default(),
            OtPlan::Direct => Self {
                setup: framed(base.sender_len(count as usize)),
                answers: numbered(reply_len(false) * count as usize),
                requests: framed(base.receiver_len(count as usize)),
                base: count,
                ..Self::default()
            },
            OtPlan::Extension(extension) => {
                let chunk = OT_CHUNK as u64;
                let message = |transfers: u64| {
                    numbered(extension.corrections_len(transfers as usize))
                        + framed(extension.check_len())
                };
                let last = match count % chunk {
                    0 => 0,
                    rest => message(rest),
                };
                let seeds = match extension.setup_len() {
                    0 => 0,
                    len => framed(len),
                };
                let messages = count.div_ceil(chunk);
                let is_correlated = config.scheme.is_free_xor();
                let replies = |answered: u128| answered * reply_len(is_correlated) as u128;
                let all = replies(count.into());
                let (avoidable, expected) = match is_correlated {
                    true => (all, replies(answered(count, tables))),
                    false => (0, all),
                };
                Self {
                    setup: framed(base.receiver_len(BASE_COUNT)),
                    answers: u128::from(messages) * numbered(0) + expected,
                    avoidable,
                    expected_avoidable: expected.min(avoidable),
                    requests: framed(base.sender_len(BASE_COUNT))
                        + seeds
                        + u128::from(count / chunk) * message(chunk)
                        + last,
                    base: BASE_COUNT as u64,
                    extended: count,
                }
            }
        }
    }
}

/// Returns the number of transfers that are answered with a correction, because their labels are in
/// tables that were made before.
fn answered(count: u64, tables: u128) -> u128 {
    match tables <= TABLES_AHEAD {
        true => count.into(),
        false => u128::from(count) * TABLES_AHEAD / tables,
    }
}

/// Returns the length of a frame of a run, with its tag.
fn framed(payload: usize) -> u128 {
    untagged(TAG_LEN + payload)
}

/// Returns the length of a frame with this payload.
fn untagged(payload: usize) -> u128 {
    (HEADER_LEN + payload) as u128
}

/// Returns the length of a frame whose content follows a number.
fn numbered(content: usize) -> u128 {
    framed(NUMBER_LEN + content)
}

/// Returns the length of the frames of a message in pieces.
fn pieces(content: usize, piece: usize) -> u128 {
    content as u128 + content.div_ceil(piece) as u128 * numbered(0)
}

/// Returns the length of the frames of a message that has one piece even if it is empty.
fn whole_pieces(content: usize) -> u128 {
    pieces(content, PIECE).max(numbered(0))
}
