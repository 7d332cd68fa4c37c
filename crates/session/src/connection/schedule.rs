//! The order in which runs send and compute.

use rand::CryptoRng;
use transpute_circuit::Bits;

use super::{
    RunId, SessionConnection,
    pool::{MAX_POOL, ReceiverPool},
    side::HELD_TRANSFERS,
};
use crate::{FrameKind, Progressed, Role, SessionError, pieces::whole_frame, session::Core};

/// Number of bytes that one garbling run sends before the next run's turn. Small runs complete in
/// one turn, so they end in the order of their calls.
const TURN: usize = 256 << 10;

/// Maximum number of requested and unanswered transfers of all runs of a connection together.
const TRANSFER_LIMIT: u64 = 1 << 19;

impl SessionConnection {
    /// Adds a run to the queue of runs that may have work, and to the urgent runs if it has an
    /// urgent frame.
    pub(super) fn schedule(&mut self, run: RunId) {
        let Self {
            garbling,
            evaluating,
            urgent,
            ..
        } = self;
        let side = if run.garbles { garbling } else { evaluating };
        let Some(active) = side.active(run.number) else {
            return;
        };
        if active.wants_urgently() && !active.is_urgent {
            active.is_urgent = true;
            urgent.push_back(run);
        }
        if !active.is_ready {
            active.is_ready = true;
            side.ready.push_back(run.number);
        }
    }

    /// Schedules the runs of a role that wait for room in the window or for transfers.
    pub(super) fn wake(&mut self, role: Role) {
        for number in std::mem::take(&mut self.side(role).parked) {
            self.schedule(RunId::new(role, number));
        }
    }

    /// Sends the next frames of a run that the peer waits for. Returns whether there were any.
    pub(super) fn poll_urgent(
        &mut self,
        run: RunId,
        out: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        let limits = self.limits(run.role());
        let side = self.side(run.role());
        let Some(active) = side.active(run.number) else {
            return Ok(false);
        };
        active.is_urgent = false;
        let is_question = match &active.session.0 {
            Core::Garbler(core) if !core.is_urgent() => return Ok(false),
            Core::Garbler(_) => false,
            Core::Evaluator(core) => !core.is_urgent(),
        };
        if is_question {
            return self.ask(run, out);
        }
        let done = side.work(run.number, limits, |session| {
            session.poll(out, true).map(drop)
        });
        self.settle_run(run, done)?;
        Ok(true)
    }

    /// Requests the next labels of a run in which this side evaluates, with transfers from the
    /// pool. Returns whether this was possible.
    pub(super) fn ask(&mut self, run: RunId, out: &mut Vec<u8>) -> Result<bool, SessionError> {
        let limits = self.limits(Role::Evaluator);
        let side = &mut self.evaluating;
        let (sum, called) = (side.sum, side.active(run.number));
        let Some(active) = called else {
            return Ok(false);
        };
        let Core::Evaluator(core) = &active.session.0 else {
            return Ok(false);
        };
        let Some(count) = core.question() else {
            return Ok(false);
        };
        let added = count as u64;
        let has_room = sum.transfers + added <= TRANSFER_LIMIT
            && (core.has_agreed() || sum.unagreed + added <= HELD_TRANSFERS);
        let done = match &mut self.receiver {
            Some(pool) if has_room => {
                // The choices are drawn first, so that an error does not use up pooled transfers.
                let drawn = side.work(run.number, limits, |session| match &mut session.0 {
                    Core::Evaluator(core) => core.draw_choices(count),
                    Core::Garbler(_) => Ok(Bits::new()),
                });
                match drawn {
                    None => None,
                    Some(Err(error)) => Some(Err(error)),
                    Some(Ok(choices)) => {
                        if pool.len() < count {
                            extend_pool(pool, count - pool.len(), &mut self.rng, out);
                        }
                        let Some(items) = pool.take(count) else {
                            return Err(SessionError::Cancelled);
                        };
                        side.work(run.number, limits, |session| match &mut session.0 {
                            Core::Evaluator(core) => core.ask(items, choices, out),
                            Core::Garbler(_) => Ok(()),
                        })
                    }
                }
            }
            _ => {
                side.parked.insert(run.number);
                return Ok(false);
            }
        };
        self.settle_run(run, done)?;
        Ok(true)
    }

    /// Does one piece of work of the next run of this role. Returns whether any run had work.
    pub(super) fn poll_ready(
        &mut self,
        role: Role,
        out: &mut Vec<u8>,
        may_send: bool,
    ) -> Result<bool, SessionError> {
        let limits = self.limits(role);
        for _ in 0..self.side(role).ready.len() {
            let Some(&number) = self.side(role).ready.front() else {
                break;
            };
            let run = RunId::new(role, number);
            let side = self.side(role);
            let start = out.len();
            let used = side.sum.used;
            let Some(result) = side.work(number, limits, |session| session.poll(out, may_send))
            else {
                side.ready.pop_front();
                continue;
            };
            let (done, progressed) = match result {
                Ok(progressed) => (Ok(()), progressed),
                Err(error) => (Err(error), Progressed::Idle),
            };
            let is_freed = side.sum.used < used;
            if done.is_ok() {
                match progressed {
                    Progressed::Worked => {
                        if let Some(active) = side.active(number) {
                            active.turn += out.len() - start;
                            // Evaluating runs take turns after each chunk.
                            if active.turn >= TURN || role == Role::Evaluator {
                                active.turn = 0;
                                side.ready.rotate_left(1);
                            }
                        }
                    }
                    // The run may still have frames to send, so it stays in the queue.
                    Progressed::Idle if !may_send => side.ready.rotate_left(1),
                    Progressed::Idle | Progressed::Finished => {
                        side.ready.pop_front();
                        if let Some(active) = side.active(number) {
                            active.is_ready = false;
                            active.turn = 0;
                            let is_held_back = match &active.session.0 {
                                Core::Garbler(core) => core.is_held_back(),
                                Core::Evaluator(_) => false,
                            };
                            if is_held_back {
                                side.parked.insert(number);
                            }
                        }
                    }
                }
            }
            let is_finished = if done.is_err() {
                self.settle_run(run, Some(done))?;
                false
            } else {
                self.note(run);
                let is_finished = self.end_finished(run);
                if is_finished {
                    self.start_waiting(role)?;
                } else {
                    self.schedule_urgent(run);
                }
                is_finished
            };
            if is_freed {
                self.wake(role);
            }
            if progressed == Progressed::Worked || is_finished {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a run to the urgent runs if it has a frame that the peer waits for.
    pub(super) fn schedule_urgent(&mut self, run: RunId) {
        let side = if run.garbles {
            &mut self.garbling
        } else {
            &mut self.evaluating
        };
        if let Some(active) = side.active(run.number)
            && active.wants_urgently()
            && !active.is_urgent
        {
            active.is_urgent = true;
            self.urgent.push_back(run);
        }
    }

    /// Extends the pool to its target size if it is less than half full. Returns whether it did.
    /// Call it when there is no other work.
    pub(super) fn top_up(&mut self, out: &mut Vec<u8>) -> bool {
        let target = (self.config.pool as usize).min(MAX_POOL);
        match &mut self.receiver {
            // One extension of half the pool is cheaper than one for every few used transfers.
            Some(pool) if !self.is_closing && 2 * pool.len() < target => {
                extend_pool(pool, target - pool.len(), &mut self.rng, out);
                true
            }
            _ => false,
        }
    }

    pub(super) fn poll_close(&mut self, out: &mut Vec<u8>) -> bool {
        let is_done = self.garbling.is_done() && self.evaluating.is_done();
        // The last frames of runs that have just failed are sent first.
        let is_flushed = self.control.is_empty();
        if !self.is_closing || self.close_sent || !is_done || !is_flushed || self.agreed.is_none() {
            return false;
        }
        self.close_sent = true;
        let mut payload = vec![0; 4];
        payload.extend_from_slice(&self.garbling.called.to_le_bytes());
        payload.extend_from_slice(&self.evaluating.called.to_le_bytes());
        out.extend_from_slice(&whole_frame(FrameKind::Close, &payload));
        true
    }
}

/// Adds at least `count` transfers to the pool. Appends the frames of this extension to `out`.
fn extend_pool(pool: &mut ReceiverPool, count: usize, rng: &mut impl CryptoRng, out: &mut Vec<u8>) {
    let due = pool.len() + count;
    while pool.len() < due {
        for (kind, message) in pool.extend(due - pool.len(), rng) {
            // The tag 0 marks frames of the connection, not of a run.
            let payload = [&[0; 4], &message[..]].concat();
            out.extend_from_slice(&whole_frame(kind, &payload));
        }
    }
}
