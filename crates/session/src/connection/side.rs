//! The runs of a connection in which this side has the same role.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Call, ConnectionConfig, open::Limits, pool::Rows};
use crate::{
    Frame, FrameKind, MAX_PAYLOAD, Progress, SessionError,
    session::{Core, Session},
};

/// Maximum total number of pooled transfers that the evaluator has requested in runs for which the
/// garbler's application has not called.
pub(super) const HELD_TRANSFERS: u64 = 1 << 18;

/// Memory that is counted for each held frame in addition to its content, in bytes.
const HELD_OVERHEAD: u64 = 128;

/// All runs of a connection in which this side has one role.
pub(super) struct Side {
    /// The number of this side's last call.
    pub(super) called: u32,
    /// The lowest number of all runs that have not ended in both directions.
    base: u32,
    /// The numbers above `base` of runs that have ended in both directions.
    closed: BTreeSet<u32>,
    runs: BTreeMap<u32, Run>,
    /// The numbers of called runs that are not started yet.
    pub(super) waiting: BTreeSet<u32>,
    /// The numbers of runs that may have work.
    pub(super) ready: VecDeque<u32>,
    /// The numbers of runs that wait for room in the window, or until they may request transfers.
    pub(super) parked: BTreeSet<u32>,
    /// The sum of the resources of all active runs.
    pub(super) sum: Counts,
    /// Bytes of received tables of runs that are not started.
    held_tables: u64,
    /// Other received bytes of runs that are not started.
    held_bytes: u64,
    held_transfers: u64,
    /// The maximum of `held_bytes`, and the maximum of `held_transfers`.
    max_held: [u64; 2],
    /// Bytes of tables that are reserved for prepared runs.
    pub(super) prepared: u64,
}

/// A run, from its call or its first received frame until it has ended in both directions.
pub(super) enum Run {
    /// The run is not started here. The peer has started it, or this side has called for it.
    Held(Held),
    Active(Box<Active>),
    /// The run has ended here, and this side's last frame is sent. The peer's last frame has not
    /// arrived.
    Over,
}

#[derive(Default)]
pub(super) struct Held {
    pub(super) call: Option<Box<Call>>,
    pub(super) arrived: VecDeque<Arrived>,
    /// Whether the call had no inputs.
    pub(super) is_prepared: bool,
    /// Whether the peer's last frame of the run has arrived.
    pub(super) is_ended: bool,
    /// The garbler's window, if it is larger than this side accepts. The garbler will start again,
    /// and its first tables are ignored.
    excess_window: Option<u64>,
    /// Bytes of ignored tables.
    ignored: u64,
    tables: u64,
    bytes: u64,
    transfers: u64,
}

/// A received frame of a run.
pub(super) enum Arrived {
    Frame(Frame),
    /// An `OtCorrect` frame, with the pooled transfers that it uses.
    Correct(Frame, Rows),
    /// Ignored tables of a garbler that will start again, with the length of the payload.
    Skipped(u32),
}

/// An active run.
pub(super) struct Active {
    pub(super) session: Session,
    /// Bytes that are reserved for the tables of this run, if it is prepared.
    pub(super) prepared: u64,
    pub(super) is_announced: bool,
    pub(super) is_urgent: bool,
    pub(super) is_ready: bool,
    /// The milestones that were reported, as bits like in
    /// [`Channel::milestones`](crate::channel::Channel::milestones).
    pub(super) reached: u8,
    /// Bytes sent in the current turn.
    pub(super) turn: usize,
}

/// The resources that a run occupies.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Bytes that the flow-control window counts.
    pub(super) used: u64,
    /// Bytes that wait to be sent.
    pub(super) queued: u64,
    /// Bytes of received tables that are not evaluated.
    pub(super) tables: u64,
    /// Number of requested and unanswered transfers.
    pub(super) transfers: u64,
    /// The part of `transfers` in runs whose hello from the peer has not arrived.
    pub(super) unagreed: u64,
}

impl Counts {
    fn replace(&mut self, old: Self, new: Self) {
        self.used = self.used - old.used + new.used;
        self.queued = self.queued - old.queued + new.queued;
        self.tables = self.tables - old.tables + new.tables;
        self.transfers = self.transfers - old.transfers + new.transfers;
        self.unagreed = self.unagreed - old.unagreed + new.unagreed;
    }
}

impl Active {
    pub(super) fn new(session: Session, prepared: u64) -> Self {
        Self {
            session,
            prepared,
            is_announced: false,
            is_urgent: false,
            is_ready: false,
            reached: 0,
            turn: 0,
        }
    }

    fn counts(&mut self) -> Counts {
        let is_prepared = self.session.terms().is_prepared;
        let queued = self.session.channel().queued_bytes() as u64;
        let mut counts = match &mut self.session.0 {
            Core::Garbler(core) => Counts {
                used: core.lead().used(0),
                ..Counts::default()
            },
            Core::Evaluator(core) => Counts {
                used: core.lead().used(0),
                tables: core.held_tables(),
                transfers: core.outstanding(),
                unagreed: if core.has_agreed() {
                    0
                } else {
                    core.outstanding()
                },
                ..Counts::default()
            },
        };
        if is_prepared {
            // The tables of a prepared run are counted in `prepared` instead.
            (counts.used, counts.tables) = (0, 0);
        }
        counts.queued = queued;
        counts
    }

    /// Returns whether the run has a frame to send that the peer waits for.
    pub(super) fn wants_urgently(&self) -> bool {
        match &self.session.0 {
            Core::Garbler(core) => core.is_urgent(),
            Core::Evaluator(core) => core.is_urgent() || core.question().is_some(),
        }
    }

    /// Returns whether all tables of the run are transferred.
    pub(super) fn is_prepared(&self) -> bool {
        match &self.session.0 {
            Core::Garbler(core) => core.is_garbled(),
            Core::Evaluator(core) => core.is_received(),
        }
    }
}

impl Side {
    pub(super) fn new(config: &ConnectionConfig) -> Self {
        Self {
            called: 0,
            base: 1,
            closed: BTreeSet::new(),
            runs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: VecDeque::new(),
            parked: BTreeSet::new(),
            sum: Counts::default(),
            held_tables: 0,
            held_bytes: 0,
            held_transfers: 0,
            max_held: [config.held, config.held_transfers.min(HELD_TRANSFERS)],
            prepared: 0,
        }
    }

    /// Returns whether a run of this number may be active now.
    pub(super) fn is_in_range(&self, number: u32, limits: Limits) -> bool {
        number >= self.base && number - self.base < limits.max_runs
    }

    /// Returns whether all runs that this side has called for have ended here.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
            && !(self.runs.iter())
                .any(|(number, run)| *number <= self.called && !matches!(run, Run::Over))
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Run> {
        self.runs.get_mut(&number)
    }

    pub(super) fn active(&mut self, number: u32) -> Option<&mut Active> {
        match self.runs.get_mut(&number)? {
            Run::Active(active) => Some(active),
            _ => None,
        }
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.runs.keys().copied().collect()
    }

    /// Returns the live counters of an active run.
    pub(super) fn progress(&self, number: u32) -> Option<Progress> {
        match self.runs.get(&number)? {
            Run::Active(active) => Some(active.session.terms().progress.clone()),
            _ => None,
        }
    }

    /// Returns whether any run has not ended in both directions.
    pub(super) fn has_runs(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns whether more than one run has not ended in both directions.
    pub(super) fn has_several(&self) -> bool {
        self.runs.len() > 1
    }

    /// Calls `work` on an active run, and updates `sum`. `None` if the run is not active.
    pub(super) fn work<R>(
        &mut self,
        number: u32,
        limits: Limits,
        work: impl FnOnce(&mut Session) -> R,
    ) -> Option<R> {
        let Some(Run::Active(active)) = self.runs.get_mut(&number) else {
            return None;
        };
        let before = active.counts();
        let (limit, others) = if active.session.terms().is_prepared {
            (u64::MAX, 0)
        } else {
            (limits.window, self.sum.used - before.used)
        };
        match &mut active.session.0 {
            Core::Garbler(core) => core.lead().share(limit, others),
            Core::Evaluator(core) => core.lead().share(limit, others),
        }
        let result = work(&mut active.session);
        self.sum.replace(before, active.counts());
        Some(result)
    }

    /// Adds a call, which waits to be started. Returns its number.
    pub(super) fn call(&mut self, call: Call) -> u32 {
        self.called += 1;
        let number = self.called;
        match self
            .runs
            .entry(number)
            .or_insert_with(|| Run::Held(Held::default()))
        {
            Run::Held(held) => {
                held.is_prepared = call.inputs.is_none();
                held.call = Some(Box::new(call));
            }
            // A run cannot be active or over before this side has called for it.
            Run::Active(_) | Run::Over => {}
        }
        self.waiting.insert(number);
        number
    }

    /// Uses the next number without a call. Returns the number, and whether the peer has already
    /// ended the run.
    pub(super) fn skip(&mut self) -> (u32, bool) {
        self.called += 1;
        let held = self.take_held(self.called);
        (self.called, held.is_some_and(|held| held.is_ended))
    }

    /// Returns whether this side has not called for the run and no frame of the run has arrived.
    pub(super) fn is_new(&self, number: u32) -> bool {
        number > self.called && !self.runs.contains_key(&number)
    }

    /// Removes and returns the held state of a run that is to be started or skipped.
    pub(super) fn take_held(&mut self, number: u32) -> Option<Held> {
        match self.runs.remove(&number) {
            Some(Run::Held(held)) => {
                self.waiting.remove(&number);
                self.held_tables -= held.tables;
                self.held_bytes -= held.bytes;
                self.held_transfers -= held.transfers;
                Some(held)
            }
            Some(other) => {
                self.runs.insert(number, other);
                None
            }
            None => None,
        }
    }

    pub(super) fn insert(&mut self, number: u32, active: Active) {
        let mut active = active;
        self.sum.replace(Counts::default(), active.counts());
        self.prepared += active.prepared;
        self.runs.insert(number, Run::Active(Box::new(active)));
    }

    /// Removes an active run.
    pub(super) fn take_active(&mut self, number: u32) -> Option<Box<Active>> {
        match self.runs.remove(&number)? {
            Run::Active(mut active) => {
                self.sum.replace(active.counts(), Counts::default());
                self.prepared -= active.prepared;
                self.parked.remove(&number);
                Some(active)
            }
            other => {
                self.runs.insert(number, other);
                None
            }
        }
    }

    /// Records that this side has sent its last frame of a run, and the peer has not.
    pub(super) fn expect_end(&mut self, number: u32) {
        self.runs.insert(number, Run::Over);
    }

    /// Records that a run has ended in both directions.
    pub(super) fn close(&mut self, number: u32) {
        self.runs.remove(&number);
        self.closed.insert(number);
        while self.closed.remove(&self.base) {
            self.base += 1;
        }
    }

    /// Returns whether the run has ended in both directions.
    fn is_closed(&self, number: u32) -> bool {
        number < self.base || self.closed.contains(&number)
    }

    /// Checks that the peer may send a frame of this run now.
    pub(super) fn check(
        &self,
        number: u32,
        limits: Limits,
        kind: FrameKind,
    ) -> Result<(), SessionError> {
        if self.is_closed(number) || !self.is_in_range(number, limits) {
            return Err(SessionError::Unexpected {
                kind,
                problem: "it is of a run that is over or may not have begun",
            });
        }
        Ok(())
    }

    /// Stores a frame of a run that is not started. Returns an error if the stored frames exceed a
    /// limit.
    pub(super) fn hold(
        &mut self,
        number: u32,
        arrived: Arrived,
        limits: Limits,
        excess_window: Option<u64>,
    ) -> Result<(), SessionError> {
        let run = self
            .runs
            .entry(number)
            .or_insert_with(|| Run::Held(Held::default()));
        let Run::Held(held) = run else { return Ok(()) };
        let (kind, len, transfers) = match &arrived {
            Arrived::Frame(frame) => (frame.kind, frame.payload.len() as u64, 0),
            Arrived::Correct(frame, rows) => {
                (frame.kind, frame.payload.len() as u64, rows.len() as u64)
            }
            Arrived::Skipped(_) => (FrameKind::Tables, 0, 0),
        };
        held.excess_window = held.excess_window.or(excess_window);
        let mut arrived = arrived;
        let (mut tables, mut rest) = match kind {
            FrameKind::Tables => (len.saturating_sub(8), len.min(8)),
            _ => (0, len),
        };
        if let (Some(window), FrameKind::Tables, Arrived::Frame(frame)) =
            (held.excess_window, kind, &arrived)
        {
            held.ignored += len;
            if held.ignored > window.saturating_add(2 * MAX_PAYLOAD as u64) {
                return Err(SessionError::Unexpected {
                    kind,
                    problem: "it runs further ahead of the labels than agreed",
                });
            }
            (tables, rest) = (0, 0);
            // The cast is exact, because a frame is at most about 1 MiB.
            arrived = Arrived::Skipped(frame.payload.len() as u32);
        }
        let is_end = matches!(
            kind,
            FrameKind::Refuse | FrameKind::Abort | FrameKind::Finish
        );
        if held.is_ended {
            return Err(SessionError::Unexpected {
                kind,
                problem: "the peer had ended the run",
            });
        }
        if is_end {
            // After the end of the run, its earlier frames have no effect.
            held.arrived.clear();
            held.is_ended = true;
            self.held_tables -= std::mem::take(&mut held.tables);
            self.held_bytes -= std::mem::take(&mut held.bytes);
            self.held_transfers -= std::mem::take(&mut held.transfers);
        }
        let bytes = rest + HELD_OVERHEAD;
        held.tables += tables;
        held.bytes += bytes;
        held.transfers += transfers;
        self.held_tables += tables;
        self.held_bytes += bytes;
        self.held_transfers += transfers;
        held.arrived.push_back(arrived);
        if self.held_tables.saturating_add(self.sum.used) > limits.window
            || self.held_bytes > self.max_held[0]
            || self.held_transfers > self.max_held[1]
        {
            return Err(SessionError::Unexpected {
                kind,
                problem: "more comes ahead of the calls here than agreed",
            });
        }
        Ok(())
    }

    /// Returns three numbers for all runs that are not started: the bytes of received tables, the
    /// other received bytes, and the pooled transfers.
    #[cfg(test)]
    pub(super) fn held(&self) -> (u64, u64, u64) {
        (self.held_tables, self.held_bytes, self.held_transfers)
    }
}
