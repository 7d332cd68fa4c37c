//! The expected number of bytes, flights and transfers of a run.

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

/// Estimated number of bytes of tables that the garbler has made when the evaluator's first request
/// arrives: the capacity of the garbler's send buffers. Transfers for later tables need no answer.
/// Measured values are 130 kB over `tcp`, and up to 15 MB over `rudp` on a path known to be fast.
const TABLES_AHEAD: u128 = 1 << 20;

/// Length of the run's number, which every frame of a run contains, in bytes.
const TAG_LEN: usize = 4;

/// Overhead of one more chunk of tables, in bytes: a header, the number of the run, the number of
/// the chunk, and the bits of its trailer rounded up to a byte.
const CHUNK_COST: u128 = (HEADER_LEN + TAG_LEN + NUMBER_LEN + 1) as u128;

/// The expected bytes, flights and oblivious transfers of a run. All numbers of bytes include frame
/// headers.
///
/// All numbers are exact, except for `garbler_bytes` and `garbler_late_bytes`. These are estimates,
/// for two reasons:
///
/// - Chunks of tables are counted as if all but the last one were full.
/// - If all pairs of labels differ by one offset, the garbler's answer to a transfer of an
///   extension depends on the arrival time of the request. It is 16 bytes if the garbler has
///   already made the labels of that input, and 0 bytes otherwise.
///
/// `min_garbler_bytes` and `max_garbler_bytes` are bounds of `garbler_bytes` for any timing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExpectedTraffic {
    /// Estimated number of bytes from the garbler to the evaluator.
    pub garbler_bytes: u64,
    /// The part of `garbler_bytes` that the garbler cannot send before it has received a message:
    /// answers of oblivious transfers, labels of its own inputs, decoding information, and the last
    /// frames.
    pub garbler_late_bytes: u64,
    /// Minimum of the garbler's bytes. It assumes that every request for transfers arrives before
    /// the garbler has made the labels, so that correlated transfers need no answer.
    pub min_garbler_bytes: u64,
    /// Maximum of the garbler's bytes. It assumes that every request for transfers arrives after
    /// the garbler has made the labels, so that correlated transfers need an answer, and that
    /// chunks of tables are as short as possible.
    pub max_garbler_bytes: u64,
    /// Number of bytes from the evaluator to the garbler.
    pub evaluator_bytes: u64,
    /// Number of one-way flights from both parties being connected to the evaluator's output. See
    /// [`OtPlan::flights`].
    pub flights: u32,
    /// Number of base oblivious transfers, which use public-key operations.
    pub base_transfers: u64,
    /// Number of oblivious transfers of an extension.
    pub extended_transfers: u64,
}

/// The bytes of the messages of oblivious transfer, and the number of transfers.
#[derive(Default)]
struct Transfers {
    /// Bytes of the garbler's first message, which depends on no message of the evaluator.
    setup: u128,
    /// Expected bytes of the garbler's answers.
    answers: u128,
    /// Maximum number of answer bytes that the garbler may omit. It omits an answer if it has not
    /// garbled the tables that read the label when the request arrives.
    avoidable: u128,
    /// The part of `avoidable` that is expected and included in `answers`.
    expected_avoidable: u128,
    /// Bytes of all the evaluator's messages.
    requests: u128,
    base: u64,
    extended: u64,
}

impl ExpectedTraffic {
    /// Computes the traffic of a connection for one run, including the opening and the end of the
    /// connection. The kind of transfers depends on [`Config::path`], if it is known. The result
    /// leaves out the transfers of a run with more direct transfers than the protocol allows,
    /// because such a run is rejected.
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
        let plan = config.plan(count).map_or(OtPlan::None, |(plan, _)| plan);
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

/// Returns the number of transfers that the garbler answers with a correction, because it has made
/// the tables that use their labels before the request arrives.
fn answered(count: u64, tables: u128) -> u128 {
    match tables <= TABLES_AHEAD {
        true => count.into(),
        false => u128::from(count) * TABLES_AHEAD / tables,
    }
}

/// Returns the length of a frame of a run, in bytes, with header and tag.
fn framed(payload: usize) -> u128 {
    untagged(TAG_LEN + payload)
}

/// Returns the length of a frame with a payload of this length, in bytes, with its header.
fn untagged(payload: usize) -> u128 {
    (HEADER_LEN + payload) as u128
}

/// Returns the length of a frame of a run whose content follows a number, in bytes.
fn numbered(content: usize) -> u128 {
    framed(NUMBER_LEN + content)
}

/// Returns the total length of the frames of a message of `content` bytes in pieces.
fn pieces(content: usize, piece: usize) -> u128 {
    content as u128 + content.div_ceil(piece) as u128 * numbered(0)
}

/// Returns the same as [`pieces`] for a message that has one piece even if it is empty.
fn whole_pieces(content: usize) -> u128 {
    pieces(content, PIECE).max(numbered(0))
}
