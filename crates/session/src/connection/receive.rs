//! The handling of received frames of a connection.

use bytes::Bytes;
use transpute_ot::{BLOCK_OTS, BaseOt};

use super::{
    RunId, SessionConnection, SessionEvent,
    open::Open,
    pool::{MAX_POOL, ReceiverPool},
    side::{Arrived, Run},
};
use crate::{
    Frame, FrameKind, Role, SessionError,
    error::{AbortReason, Field},
    hello::Hello,
    ot_plan::OT_CHUNK,
    session::Core,
};

impl SessionConnection {
    pub(super) fn handle_open(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        let agreed = self.open.agree(Open::decode(payload)?)?;
        self.agreed = Some(agreed);
        self.connect_sender()?;
        for role in [Role::Garbler, Role::Evaluator] {
            for number in self.side(role).numbers() {
                let link = self.run_link(role, number);
                if let (Some(active), Some(link)) = (self.side(role).active(number), link) {
                    active.session.set_link(link);
                }
            }
            self.start_waiting(role)?;
        }
        self.wake(Role::Garbler);
        self.events.push_back(SessionEvent::Opened);
        Ok(())
    }

    pub(super) fn handle_control(
        &mut self,
        role: Role,
        kind: FrameKind,
        content: &Bytes,
    ) -> Result<(), SessionError> {
        let unexpected = SessionError::Unexpected {
            kind,
            problem: "it is not about a run",
        };
        match (kind, role) {
            (FrameKind::OtSetup, Role::Evaluator) if self.open.is_single => {
                // The peer sent this message before it knew that this side has no pool.
                match std::mem::replace(&mut self.has_ignored_base, true) {
                    false => Ok(()),
                    true => Err(unexpected),
                }
            }
            (FrameKind::OtSetup, Role::Evaluator) => {
                let (Some(agreed), Some(base)) = (&self.agreed, self.base.take()) else {
                    return Err(unexpected);
                };
                let (kind, nonce) = (self.open.extension, agreed.theirs.nonce);
                let sid = agreed.pool_id(&nonce);
                let (pool, answer) =
                    ReceiverPool::new(kind, base, &sid, &nonce, content, &mut self.rng)?;
                self.receiver = Some(pool);
                for (kind, message) in [
                    (FrameKind::OtSetup, answer.setup),
                    (FrameKind::OtExtendSetup, answer.seeds),
                ] {
                    if let Some(message) = message {
                        self.control_frame(false, kind, &message);
                    }
                }
                self.wake(Role::Evaluator);
                Ok(())
            }
            (FrameKind::OtSetup, Role::Garbler) => {
                let (Some(agreed), Some(sender)) = (&self.agreed, &mut self.sender) else {
                    return Err(unexpected);
                };
                if self.open.base_ot == BaseOt::Ristretto255 || !sender.awaits_base() {
                    return Err(unexpected);
                }
                let sid = agreed.pool_id(&self.open.nonce);
                sender.connect(agreed.theirs.extension, &sid, content)
            }
            (FrameKind::OtExtendSetup, Role::Garbler) => match &mut self.sender {
                Some(sender) => sender.handle_setup(content),
                None => Err(unexpected),
            },
            (FrameKind::OtExtend, Role::Garbler) => match &mut self.sender {
                Some(sender) => sender.handle_extend(content, MAX_POOL + OT_CHUNK + BLOCK_OTS),
                None => Err(unexpected),
            },
            (FrameKind::OtCheck, Role::Garbler) => match &mut self.sender {
                Some(sender) => sender.handle_check(content),
                None => Err(unexpected),
            },
            (FrameKind::Close, Role::Garbler) => {
                let (counts, rest) = content.as_chunks::<4>();
                let (&[garbled, evaluated], []) = (counts, rest) else {
                    return Err(SessionError::Length {
                        kind,
                        expected: 8,
                        found: content.len(),
                    });
                };
                let called = [garbled, evaluated].map(u32::from_le_bytes);
                self.close_received = Some(called);
                self.handle_close(called)
            }
            (FrameKind::Refuse, Role::Garbler) => {
                let field = content.first().and_then(|code| Field::from_code(*code));
                Err(field.map_or(unexpected, SessionError::RefusedByPeer))
            }
            (FrameKind::Abort, Role::Garbler) => {
                let reason = content
                    .first()
                    .and_then(|code| AbortReason::from_code(*code));
                Err(SessionError::PeerAborted(
                    reason.unwrap_or(AbortReason::Protocol),
                ))
            }
            _ => Err(unexpected),
        }
    }

    /// Handles the peer's `Close` frame: ends the called runs for which the peer will not call.
    pub(super) fn handle_close(
        &mut self,
        [garbled, evaluated]: [u32; 2],
    ) -> Result<(), SessionError> {
        for (role, theirs) in [(Role::Evaluator, garbled), (Role::Garbler, evaluated)] {
            for number in self.side(role).numbers() {
                let run = RunId::new(role, number);
                if number > theirs {
                    let side = self.side(role);
                    let held = side.take_held(number);
                    let was_called = held.is_some_and(|held| held.call.is_some());
                    let was_active = side.take_active(number).is_some();
                    side.close(number);
                    if was_called || was_active {
                        self.events
                            .push_back(SessionEvent::Ended(run, Err(SessionError::Closed)));
                    }
                }
            }
            self.start_waiting(role)?;
        }
        self.is_closing = true;
        Ok(())
    }

    pub(super) fn handle_run(
        &mut self,
        run: RunId,
        kind: FrameKind,
        payload: Bytes,
    ) -> Result<(), SessionError> {
        if kind == FrameKind::Open {
            return Err(SessionError::Unexpected {
                kind,
                problem: "the connection is open",
            });
        }
        let limits = self.limits(run.role());
        // Every `OtCorrect` frame uses transfers of the pool, even if its run has failed. Otherwise
        // the pools of both sides would differ.
        let is_correct = kind == FrameKind::OtCorrect && run.garbles;
        let rows = match (&mut self.sender, is_correct) {
            (Some(sender), true) => Some(sender.take(&payload)?),
            _ => None,
        };
        let frame = Frame { kind, payload };
        let side = self.side(run.role());
        side.check(run.number, limits, kind)?;
        let arrived = match rows {
            Some(rows) => Arrived::Correct(frame, rows),
            None => Arrived::Frame(frame),
        };
        match side.get(run.number) {
            None | Some(Run::Held(_)) => {
                let is_new = side.is_new(run.number);
                let hello = match &arrived {
                    Arrived::Frame(frame) | Arrived::Correct(frame, _) => first(frame, is_new)?,
                    Arrived::Skipped(_) => None,
                };
                let base = self.open.base_ot;
                let excess = (self.run_link(run.role(), run.number))
                    .and_then(|link| link.excess_window)
                    .filter(|_| hello.as_ref().is_some_and(Hello::is_eager));
                let side = self.side(run.role());
                side.hold(run.number, arrived, limits, excess)?;
                if is_new {
                    let proposal = hello.map(|hello| hello.proposal(base));
                    self.events.push_back(SessionEvent::Called(run, proposal));
                    self.check_role(run.role());
                }
                Ok(())
            }
            Some(Run::Active(_)) => self.deliver(run, arrived),
            Some(Run::Over) => {
                if matches!(
                    kind,
                    FrameKind::Finish | FrameKind::Refuse | FrameKind::Abort
                ) {
                    side.close(run.number);
                    self.start_waiting(run.role())?;
                }
                Ok(())
            }
        }
    }

    /// In a connection for one run, ends this side's run if the peer has the same role in its run.
    fn check_role(&mut self, role: Role) {
        let own = match role {
            Role::Garbler => Role::Evaluator,
            Role::Evaluator => Role::Garbler,
        };
        if self.open.is_single && self.side(role).called == 0 {
            let error = SessionError::Disagreement {
                field: Field::Role,
                ours: own.to_string(),
                theirs: own.to_string(),
            };
            self.end(RunId::new(own, 1), Err(error));
        }
    }

    /// Passes a frame to an active run, and handles the result.
    pub(super) fn deliver(&mut self, run: RunId, arrived: Arrived) -> Result<(), SessionError> {
        let limits = self.limits(run.role());
        let before = self.side(run.role()).sum;
        let done = self
            .side(run.role())
            .work(run.number, limits, |session| match arrived {
                Arrived::Frame(frame) => session.handle(frame),
                Arrived::Skipped(len) => match &mut session.0 {
                    Core::Evaluator(core) => core.skip(len),
                    // Only an evaluator receives tables.
                    Core::Garbler(_) => Ok(()),
                },
                Arrived::Correct(frame, rows) => match &mut session.0 {
                    Core::Garbler(core) => core.handle_correct(frame, rows),
                    // Only a garbler receives corrections.
                    Core::Evaluator(_) => Ok(()),
                },
            });
        self.settle_run(run, done)?;
        let sum = self.side(run.role()).sum;
        if sum.used < before.used
            || sum.transfers < before.transfers
            || sum.unagreed < before.unagreed
        {
            self.wake(run.role());
        }
        Ok(())
    }
}

/// Decodes the hello of a run that is not active here. `None` if the frame is not a hello. The
/// first frame of a run must be a hello, unless it ends the run.
fn first(frame: &Frame, is_new: bool) -> Result<Option<Hello>, SessionError> {
    match frame.kind {
        FrameKind::Hello => Hello::decode(&frame.payload).map(Some),
        FrameKind::Refuse | FrameKind::Abort => Ok(None),
        kind if is_new => Err(SessionError::Unexpected {
            kind,
            problem: "a run begins with a hello",
        }),
        _ => Ok(None),
    }
}
