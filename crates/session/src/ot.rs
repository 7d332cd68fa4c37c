//! The messages of oblivious transfer in a session, and their order.

use std::{collections::VecDeque, iter};

use rand::{CryptoRng, SeedableRng};
use transpute_circuit::Bits;
use transpute_garble::{Garbler, Label};
use transpute_ot::{
    AnyReceiver, AnySender, BASE_COUNT, BaseOt, CotReceiver, CotSender, Extension, MaskHash,
    UncheckedRows, delta_choices, mask_pair, unmask_pair,
};
use zeroize::Zeroizing;

use crate::{
    FrameKind, OtPlan, SecretRng, SessionError,
    channel::Channel,
    connection::pool::Asked,
    ot_plan::reply_len,
    transfers::{Transfers, block},
};

/// The garbler's state of the oblivious transfers of a run.
pub(crate) enum GarblerOt {
    None,
    Direct {
        base: Option<AnySender>,
        /// The seed of the randomness in the garbler's answer.
        seed: Zeroizing<[u8; 32]>,
    },
    Extension {
        kind: Extension,
        base: Option<AnyReceiver>,
        /// The offset between the two strings of every correlated transfer.
        delta: Zeroizing<u128>,
        sender: Option<Box<CotSender>>,
        is_set_up: bool,
        masks: Option<Box<MaskHash>>,
        /// The last segment, until its check arrives, with the number of its first transfer.
        unchecked: Option<(u64, UncheckedRows)>,
    },
    /// Transfers from the random-OT pool of the connection.
    Pool,
}

/// The garbler's answer to the evaluator's base-OT message.
#[derive(Default)]
pub(crate) struct SetupAnswer {
    /// The garbler's base-OT message, if it depends on the evaluator's message.
    pub(crate) setup: Option<Vec<u8>>,
    /// The masked labels of direct transfers.
    pub(crate) reply: Option<Vec<u8>>,
}

impl GarblerOt {
    /// Starts the transfers. Returns the garbler's base-OT message. It is empty if the evaluator
    /// sends the first one.
    pub(crate) fn start(
        plan: OtPlan,
        base: BaseOt,
        correlation: Option<Label>,
        nonce: &[u8; 32],
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        match plan {
            OtPlan::None => (Self::None, Vec::new()),
            OtPlan::Direct => {
                let (base, message) = AnySender::start(base, rng);
                let (base, seed) = (Some(base), draw_seed(rng));
                (Self::Direct { base, seed }, message.unwrap_or_default())
            }
            OtPlan::Pool => (Self::Pool, Vec::new()),
            OtPlan::Extension(kind) => {
                let delta = Zeroizing::new(match correlation {
                    Some(label) => block(label),
                    None => {
                        let mut bytes = Zeroizing::new([0; 16]);
                        rng.fill_bytes(&mut *bytes);
                        u128::from_le_bytes(*bytes)
                    }
                });
                let (base, message) = AnyReceiver::start(base, &*delta_choices(*delta), nonce, rng);
                let ot = Self::Extension {
                    kind,
                    base: Some(base),
                    delta,
                    sender: None,
                    is_set_up: kind.setup_len() == 0,
                    masks: None,
                    unchecked: None,
                };
                (ot, message)
            }
        }
    }

    /// Changes the extension. The base-OT message is the same for all extensions.
    pub(crate) fn set_extension(&mut self, chosen: Extension) {
        if let Self::Extension {
            kind, is_set_up, ..
        } = self
        {
            *kind = chosen;
            *is_set_up = chosen.setup_len() == 0;
        }
    }

    /// Handles the evaluator's base-OT message. Returns the answer, which is sent at once. `count`
    /// is the number of transfers of the batch. Only direct transfers use it.
    pub(crate) fn handle_setup(
        &mut self,
        sid: &[u8; 32],
        evaluator_nonce: &[u8; 32],
        message: &[u8],
        count: usize,
        garbler: &Garbler,
        transfers: &Transfers,
    ) -> Result<SetupAnswer, SessionError> {
        match self {
            Self::None | Self::Pool => Err(unexpected_setup()),
            Self::Direct { base, seed } => {
                let base = base.take().ok_or_else(unexpected_setup)?;
                let mut rng = SecretRng::from_seed(**seed);
                let (keys, setup) = base.finish(sid, evaluator_nonce, message, count, &mut rng)?;
                let pairs = transfers.label_pairs(garbler, 0, count);
                let mut reply = Vec::with_capacity(count * 32);
                for (keys, labels) in keys.iter().zip(pairs.iter()) {
                    write_blocks(&mask_pair(*keys, *labels), &mut reply);
                }
                let reply = Some(reply);
                Ok(SetupAnswer { setup, reply })
            }
            Self::Extension {
                kind,
                base,
                delta,
                sender,
                masks,
                ..
            } => {
                let base = base.take().ok_or_else(unexpected_setup)?;
                let keys = base.finish(sid, message)?;
                *sender = Some(Box::new(CotSender::new(*kind, **delta, &keys, sid)));
                *masks = Some(Box::new(MaskHash::new(sid)));
                Ok(SetupAnswer::default())
            }
        }
    }

    /// Handles the seed corrections of a SoftSpoken extension.
    pub(crate) fn handle_extend_setup(&mut self, message: &[u8]) -> Result<(), SessionError> {
        match self {
            Self::Extension {
                sender: Some(sender),
                is_set_up,
                ..
            } if !*is_set_up => {
                sender.setup(message)?;
                *is_set_up = true;
                Ok(())
            }
            _ => Err(SessionError::Unexpected {
                kind: FrameKind::OtExtendSetup,
                problem: "no extension waits for it",
            }),
        }
    }

    /// Handles one `OtExtend` message for transfers `first..first + n`. `challenge` is the hash of
    /// all frames that the evaluator has sent in this run, including this one.
    pub(crate) fn handle_extend(
        &mut self,
        first: u64,
        n: usize,
        message: &[u8],
        challenge: &[u8; 32],
    ) -> Result<(), SessionError> {
        let Self::Extension {
            sender: Some(sender),
            is_set_up: true,
            unchecked: unchecked @ None,
            ..
        } = self
        else {
            return Err(SessionError::Unexpected {
                kind: FrameKind::OtExtend,
                problem: "the extension is not set up, or the check of a segment is due",
            });
        };
        *unchecked = Some((first, sender.extend(n, message, challenge)?));
        Ok(())
    }

    /// Handles the check of the last segment. Returns the number of its first transfer, the number
    /// of its transfers, and the answer if the check holds. If `adopts` is set and all pairs of
    /// labels differ by one offset, the garbler adopts the transferred strings as the labels that
    /// it has not made yet.
    pub(crate) fn handle_check(
        &mut self,
        message: &[u8],
        garbler: &mut Garbler,
        transfers: &Transfers,
        adopts: bool,
    ) -> Result<(u64, usize, Vec<u8>), SessionError> {
        let Self::Extension {
            delta,
            sender: Some(sender),
            masks: Some(masks),
            unchecked,
            ..
        } = self
        else {
            return Err(unexpected_check());
        };
        let (first, rows) = unchecked.take().ok_or_else(unexpected_check)?;
        let rows = sender.check(rows, message)?;
        let n = rows.len();
        let mut reply = Vec::new();
        if garbler.delta().is_none() {
            let pairs = transfers.label_pairs(garbler, first, n);
            let mut masked = Vec::new();
            masks.mask(first, &rows, **delta, &pairs, &mut masked);
            for pair in &masked {
                write_blocks(pair, &mut reply);
            }
            sender.recycle(rows);
            return Ok((first, n, reply));
        }
        let made = match adopts {
            true => garbler.labels_made().saturating_sub(first).min(n as u64) as usize,
            false => n,
        };
        let zeros = transfers.zero_labels(garbler, first, made);
        reply.reserve(made * 16);
        for (q, zero) in rows.iter().zip(zeros.iter()) {
            write_blocks(&[q ^ zero], &mut reply);
        }
        if made < n {
            let labels = rows[made..]
                .iter()
                .map(|q| Label::from_bytes(q.to_le_bytes()));
            let labels = Zeroizing::new(labels.collect::<Vec<_>>());
            garbler.adopt(first + made as u64, labels);
        }
        sender.recycle(rows);
        Ok((first, n, reply))
    }
}

/// The evaluator's state of the oblivious transfers of a run.
pub(crate) enum EvaluatorOt {
    None,
    Direct {
        base: Option<AnyReceiver>,
        choices: Bits,
        keys: Zeroizing<Vec<u128>>,
    },
    Extension {
        kind: Extension,
        correlated: bool,
        base: Option<AnySender>,
        /// The random generator for the base-OT answer and the sacrificed choices of each segment.
        rng: Box<SecretRng>,
        receiver: Option<Box<CotReceiver>>,
        masks: Option<Box<MaskHash>>,
        /// Transfers that are requested and not answered.
        open: VecDeque<OpenChunk>,
        /// In tests of a deviating evaluator, the function that changes its corrections.
        #[cfg(test)]
        deviation: Option<fn(&mut [u8])>,
    },
    /// Transfers from the random-OT pool of the connection.
    Pool {
        /// Transfers that are requested and not answered. Each entry starts with the number of its
        /// first transfer.
        open: VecDeque<(u64, Asked)>,
    },
}

/// Consecutive transfers that the garbler has not answered.
pub(crate) struct OpenChunk {
    first: u64,
    choices: Bits,
    rows: Zeroizing<Vec<u128>>,
}

/// The evaluator's answer to the garbler's base-OT message.
#[derive(Default)]
pub(crate) struct Corrections {
    /// The evaluator's base-OT message, if it depends on the garbler's message.
    pub(crate) setup: Option<Vec<u8>>,
    /// The seed corrections of a SoftSpoken extension.
    pub(crate) seeds: Option<Vec<u8>>,
}

impl EvaluatorOt {
    /// Starts the transfers. Returns the evaluator's base-OT message. It is empty if the garbler
    /// sends the first one. `choices` are all input bits of the batch. Only direct transfers use
    /// them.
    pub(crate) fn start(
        plan: OtPlan,
        base: BaseOt,
        correlated: bool,
        choices: Bits,
        nonce: &[u8; 32],
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        match plan {
            OtPlan::None => (Self::None, Vec::new()),
            OtPlan::Pool => {
                let open = VecDeque::new();
                (Self::Pool { open }, Vec::new())
            }
            OtPlan::Direct => {
                let as_bools: Zeroizing<Vec<bool>> = Zeroizing::new(choices.iter().collect());
                let (base, message) = AnyReceiver::start(base, &as_bools, nonce, rng);
                let ot = Self::Direct {
                    base: Some(base),
                    choices,
                    keys: Zeroizing::new(Vec::new()),
                };
                (ot, message)
            }
            OtPlan::Extension(kind) => {
                let (base, message) = AnySender::start(base, rng);
                let ot = Self::Extension {
                    kind,
                    correlated,
                    base: Some(base),
                    rng: Box::new(SecretRng::from_seed(*draw_seed(rng))),
                    receiver: None,
                    masks: None,
                    open: VecDeque::new(),
                    #[cfg(test)]
                    deviation: None,
                };
                (ot, message.unwrap_or_default())
            }
        }
    }

    /// Makes the evaluator deviate: applies `change` to the corrections of every segment before
    /// they are sent and the challenge is drawn.
    #[cfg(test)]
    pub(crate) fn deviate(&mut self, change: fn(&mut [u8])) {
        if let Self::Extension { deviation, .. } = self {
            *deviation = Some(change);
        }
    }

    /// Returns the choices of the transfers, which then start again under another plan.
    pub(crate) fn take_choices(&mut self) -> Option<Bits> {
        match self {
            Self::Direct { choices, .. } => Some(std::mem::take(choices)),
            Self::Pool { open } => {
                let mut all = Bits::new();
                for (_, asked) in open.drain(..) {
                    let choices = asked.into_choices();
                    all.append(&choices, 0..choices.len());
                }
                Some(all)
            }
            _ => None,
        }
    }

    /// Changes the extension, before the garbler's base-OT message is handled.
    pub(crate) fn set_extension(&mut self, chosen: Extension) {
        if let Self::Extension { kind, .. } = self {
            *kind = chosen;
        }
    }

    /// Records that corrections of the pooled transfers from number `first` on are sent.
    pub(crate) fn expect(&mut self, first: u64, asked: Asked) {
        if let Self::Pool { open } = self {
            open.push_back((first, asked));
        }
    }

    /// Handles the garbler's base-OT message. Returns the messages that are sent at once.
    pub(crate) fn handle_setup(
        &mut self,
        sid: &[u8; 32],
        garbler_nonce: &[u8; 32],
        message: &[u8],
    ) -> Result<Corrections, SessionError> {
        match self {
            Self::None | Self::Pool { .. } => Err(unexpected_setup()),
            Self::Direct { base, keys, .. } => {
                let base = base.take().ok_or_else(unexpected_setup)?;
                *keys = base.finish(sid, message)?;
                Ok(Corrections::default())
            }
            Self::Extension {
                kind,
                base,
                rng,
                receiver,
                masks,
                ..
            } => {
                let base = base.take().ok_or_else(unexpected_setup)?;
                let (pairs, setup) = base.finish(sid, garbler_nonce, message, BASE_COUNT, rng)?;
                let (cot, corrections) = CotReceiver::new(*kind, &pairs, sid);
                *receiver = Some(Box::new(cot));
                *masks = Some(Box::new(MaskHash::new(sid)));
                let seeds = (kind.setup_len() > 0).then_some(corrections);
                Ok(Corrections { setup, seeds })
            }
        }
    }

    /// Returns whether `OtExtend` messages can be sent, because the base OTs are complete.
    pub(crate) fn can_extend(&self) -> bool {
        matches!(
            self,
            Self::Extension {
                receiver: Some(_),
                ..
            }
        )
    }

    /// Sends the `OtExtend` message for `choices`, and its check. `first` is the number of the
    /// first of these transfers.
    pub(crate) fn extend(
        &mut self,
        first: u64,
        choices: Bits,
        channel: &mut Channel,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let Self::Extension {
            receiver: Some(receiver),
            rng,
            open,
            #[cfg(test)]
            deviation,
            ..
        } = self
        else {
            return Ok(());
        };
        let mut corrections = Vec::new();
        let segment = receiver.extend(choices.as_words(), choices.len(), rng, &mut corrections);
        #[cfg(test)]
        if let Some(deviation) = deviation {
            deviation(&mut corrections);
        }
        channel.send(out, FrameKind::OtExtend, |out| {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&corrections);
            Ok(())
        })?;
        let challenge = channel.sent_hash();
        let mut rows = Zeroizing::new(Vec::with_capacity(choices.len()));
        channel.send(out, FrameKind::OtCheck, |out| {
            segment.prove(&challenge, out, &mut rows);
            Ok(())
        })?;
        open.push_back(OpenChunk {
            first,
            choices,
            rows,
        });
        Ok(())
    }

    /// Decrypts the garbler's next answer, and appends the labels to `labels`. `first` must be the
    /// number of the oldest transfer without an answer.
    pub(crate) fn handle_reply(
        &mut self,
        first: u64,
        reply: &[u8],
        labels: &mut Vec<Label>,
    ) -> Result<(), SessionError> {
        let no_question = SessionError::Unexpected {
            kind: FrameKind::OtReply,
            problem: "it answers no open transfers",
        };
        match self {
            Self::None => Err(no_question),
            Self::Pool { open } => {
                let Some((_, asked)) = open.pop_front().filter(|(due, _)| *due == first) else {
                    return Err(no_question);
                };
                check_reply(reply, asked.len() * 32)?;
                let pairs: Vec<_> = read_pairs(reply).collect();
                let opened = asked.open(&pairs);
                labels.extend(
                    opened
                        .iter()
                        .map(|label| Label::from_bytes(label.to_le_bytes())),
                );
                Ok(())
            }
            Self::Direct { choices, keys, .. } => {
                if keys.is_empty() || first != 0 {
                    return Err(no_question);
                }
                check_reply(reply, choices.len() * 32)?;
                for (index, (pair, key)) in read_pairs(reply).zip(keys.iter()).enumerate() {
                    let label = unmask_pair(*key, choices.get(index), pair);
                    labels.push(Label::from_bytes(label.to_le_bytes()));
                }
                *keys = Zeroizing::new(Vec::new());
                Ok(())
            }
            Self::Extension {
                correlated,
                masks,
                open,
                ..
            } => {
                let (Some(chunk), Some(masks)) = (open.pop_front(), masks) else {
                    return Err(no_question);
                };
                if chunk.first != first {
                    return Err(no_question);
                }
                let whole = chunk.rows.len() * reply_len(*correlated);
                if *correlated && reply.len() < whole && reply.len().is_multiple_of(16) {
                    // Only the first transfers have a correction. For the others, the transferred
                    // block is the label.
                } else {
                    check_reply(reply, whole)?;
                }
                if *correlated {
                    let corrections = reply.as_chunks().0.iter();
                    let corrections = corrections.copied().chain(iter::repeat([0; 16]));
                    labels.extend(
                        (chunk.rows.iter().zip(corrections)).map(|(row, correction)| {
                            Label::from_bytes((row ^ u128::from_le_bytes(correction)).to_le_bytes())
                        }),
                    );
                } else {
                    let pairs: Vec<_> = read_pairs(reply).collect();
                    let words = chunk.choices.as_words();
                    let mut opened = Zeroizing::new(Vec::with_capacity(pairs.len()));
                    masks.unmask(first, &chunk.rows, words, &pairs, &mut opened);
                    labels.extend(
                        opened
                            .iter()
                            .map(|label| Label::from_bytes(label.to_le_bytes())),
                    );
                }
                Ok(())
            }
        }
    }
}

/// Draws a seed for a random generator that is used later.
fn draw_seed(rng: &mut impl CryptoRng) -> Zeroizing<[u8; 32]> {
    let mut seed = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *seed);
    seed
}

fn write_blocks(blocks: &[u128], out: &mut Vec<u8>) {
    for block in blocks {
        out.extend_from_slice(&block.to_le_bytes());
    }
}

fn read_pairs(bytes: &[u8]) -> impl Iterator<Item = [u128; 2]> + '_ {
    let (blocks, _) = bytes.as_chunks::<16>();
    blocks
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| pair.map(u128::from_le_bytes))
}

fn check_reply(reply: &[u8], expected: usize) -> Result<(), SessionError> {
    if reply.len() == expected {
        return Ok(());
    }
    Err(SessionError::Length {
        kind: FrameKind::OtReply,
        expected,
        found: reply.len(),
    })
}

fn unexpected_check() -> SessionError {
    SessionError::Unexpected {
        kind: FrameKind::OtCheck,
        problem: "no segment of an extension waits for it",
    }
}

fn unexpected_setup() -> SessionError {
    SessionError::Unexpected {
        kind: FrameKind::OtSetup,
        problem: "no base OT waits for it",
    }
}
