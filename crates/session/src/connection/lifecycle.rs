//! The start and end of the runs of a connection.

use super::{
    Call, RunId, RunReport, SessionConnection, SessionEvent,
    open::FIRST,
    side::{Active, Arrived, Held, Run},
};
use crate::{
    Config, FrameKind, Milestone, OtChoice, OtPlan, Planned, Role, SessionError,
    config_error::ConfigError,
    error::{AbortReason, Farewell},
    hello::Hello,
    layout::Layout,
    pieces::whole_frame,
    session::{Core, Session},
    terms::{RunTerms, total_choices},
};

/// Code of an `Abort` frame without a reason. Such a frame only ends this direction of a run that
/// the peer has already ended.
const HEARD: u8 = 0;

impl SessionConnection {
    /// Starts the waiting calls of a role that may start now.
    pub(super) fn start_waiting(&mut self, role: Role) -> Result<(), SessionError> {
        let limits = self.limits(role);
        let mut from = 0;
        loop {
            let side = self.side(role);
            let Some(&number) = side.waiting.range(from..).next() else {
                return Ok(());
            };
            if !side.is_in_range(number, limits) {
                return Ok(());
            }
            from = number + 1;
            // The limit of prepared runs is known only after both openings.
            let is_prepared = match side.get(number) {
                Some(Run::Held(held)) => held.is_prepared,
                _ => false,
            };
            if is_prepared && self.agreed.is_none() {
                continue;
            }
            if let Some(held) = self.side(role).take_held(number) {
                self.start(RunId::new(role, number), held)?;
            }
        }
    }

    /// Starts a run, and handles the frames that have arrived for it.
    pub(super) fn start(&mut self, run: RunId, held: Held) -> Result<(), SessionError> {
        let theirs = peer_plan(&held);
        let begun = match held.call {
            Some(call) => self.begin(run, *call, held.is_prepared, theirs),
            None => Err(SessionError::Cancelled),
        };
        match begun {
            Ok(active) => self.side(run.role()).insert(run.number, active),
            Err(error) => {
                self.part(run, &error, held.is_ended);
                self.events.push_back(SessionEvent::Ended(run, Err(error)));
                return Ok(());
            }
        }
        self.schedule(run);
        for arrived in held.arrived {
            self.deliver(run, arrived)?;
        }
        Ok(())
    }

    /// Creates the session of a run. `theirs` is the plan of oblivious transfers in the peer's
    /// hello, if the hello has arrived.
    fn begin(
        &mut self,
        run: RunId,
        call: Call,
        is_prepared: bool,
        theirs: Option<OtPlan>,
    ) -> Result<Active, SessionError> {
        let Call {
            program,
            split,
            mut config,
            inputs,
        } = call;
        let role = run.role();
        config.base_ot = self.open.base_ot;
        let spawner = self.spawner.filter(|_| config.threads.get() > 1);
        if !self.open.is_single {
            config.threads = std::num::NonZeroUsize::MIN;
        }
        let count = total_choices(&split, &config)?;
        let plan = self.plan(role, &config, count, is_prepared, theirs)?;
        let lead = config.table_lead;
        let mut terms = RunTerms::new(program, split, config, plan, is_prepared)?;
        if let Some(link) = self.run_link(role, run.number) {
            terms.set_link(link);
        }
        // Only a connection for one run can use a window above `FIRST` before it knows the peer's
        // window.
        terms.is_eager = role == Role::Garbler
            && self.open.is_single
            && self.agreed.is_none()
            && lead > FIRST.window;
        let (early, late) = match role {
            Role::Garbler if is_prepared => (None, inputs),
            _ => (inputs, None),
        };
        let mut session = Session::start(role, terms, early, &run.tag(), spawner, &mut self.rng)?;
        if self.open.is_single && !self.is_open_sent {
            // This side's window is reduced to the bytes that the run needs. If the peer's window
            // has at least this size, the garbler need not start again.
            let needed = session.max_unasked()?.max(FIRST.window);
            self.open.window = lead.min(needed);
            if self.open.window <= FIRST.window {
                session.set_eager(false);
            }
        }
        let mut reserved = 0;
        if is_prepared {
            reserved = Layout::max_tables(session.terms())?;
            let limit = self.limits(role).prepared;
            let free = limit.saturating_sub(self.side(role).prepared);
            if reserved > free {
                return Err(SessionError::PreparedFull {
                    needed: reserved,
                    free,
                });
            }
        }
        if let (Some(inputs), Core::Garbler(core)) = (late, &mut session.0) {
            core.provide(inputs)?;
        }
        Ok(Active::new(session, reserved))
    }

    /// Chooses the plan of oblivious transfers for a run.
    fn plan(
        &mut self,
        role: Role,
        config: &Config,
        count: u64,
        is_prepared: bool,
        theirs: Option<OtPlan>,
    ) -> Result<(OtPlan, Option<Planned>), ConfigError> {
        let has_pool = self.has_pool();
        let is_possible = |plan: &OtPlan| match plan {
            OtPlan::None => false,
            OtPlan::Direct => count <= OtPlan::direct_maximum(config.base_ot),
            OtPlan::Extension(_) => true,
            OtPlan::Pool => has_pool,
        };
        if count == 0 {
            return Ok((OtPlan::None, None));
        }
        if is_prepared {
            return match config.ot {
                OtChoice::Auto => Ok((OtPlan::Pool, None)),
                _ => Err(ConfigError::OtOfPrepared),
            };
        }
        if config.ot != OtChoice::Auto {
            return Ok((OtPlan::new(config.ot, config.base_ot, count)?, None));
        }
        // A side that knows the peer's plan adopts it.
        if let Some(plan) = theirs.filter(is_possible) {
            return Ok((plan, None));
        }
        if !has_pool {
            return config.plan(count);
        }
        let may_be_direct = role == Role::Evaluator
            && self.receiver.is_none()
            && count <= self.direct_left
            && is_possible(&OtPlan::Direct);
        if may_be_direct {
            self.direct_left -= count;
            return Ok((OtPlan::Direct, None));
        }
        Ok((OtPlan::Pool, None))
    }

    /// Handles the result of a piece of work on a run: emits events, and ends the run if it failed.
    pub(super) fn settle_run(
        &mut self,
        run: RunId,
        done: Option<Result<(), SessionError>>,
    ) -> Result<(), SessionError> {
        match done {
            None => Ok(()),
            Some(Ok(())) => {
                self.note(run);
                if self.end_finished(run) {
                    return self.start_waiting(run.role());
                }
                self.schedule(run);
                Ok(())
            }
            Some(Err(error)) if error.ends_connection() => Err(error),
            Some(Err(error)) => {
                self.end(run, Err(error));
                self.start_waiting(run.role())
            }
        }
    }

    /// Ends a run if it is complete in both directions. Returns whether it did. The run must end at
    /// once, because the peer may then start another run within `max_runs`.
    pub(super) fn end_finished(&mut self, run: RunId) -> bool {
        let active = self.side(run.role()).active(run.number);
        let is_finished = active.is_some_and(|active| active.session.channel().is_finished());
        if is_finished {
            self.end(run, Ok(()));
        }
        is_finished
    }

    /// Emits the new events of a run: milestones, outputs, and the end of its preparation.
    pub(super) fn note(&mut self, run: RunId) {
        let Self {
            garbling,
            evaluating,
            events,
            ..
        } = self;
        let side = if run.garbles { garbling } else { evaluating };
        let Some(active) = side.active(run.number) else {
            return;
        };
        let reached = active.session.channel().milestones();
        for milestone in Milestone::ALL {
            let bit = 1 << milestone as u8;
            if reached & bit & !active.reached != 0 {
                events.push_back(SessionEvent::Reached(run, milestone));
            }
        }
        active.reached = reached;
        while let Some(output) = active.session.next_output() {
            events.push_back(SessionEvent::Output(run, output));
        }
        if active.session.terms().is_prepared && !active.is_announced && active.is_prepared() {
            active.is_announced = true;
            events.push_back(SessionEvent::Prepared(run));
        }
    }

    /// Ends an active run on this side, and emits its `Ended` event.
    pub(super) fn end(&mut self, run: RunId, result: Result<(), SessionError>) {
        let side = self.side(run.role());
        let Some(active) = side.take_active(run.number) else {
            return;
        };
        let channel = active.session.channel();
        match result {
            Ok(()) => {
                let terms = active.session.terms();
                let report = RunReport {
                    traffic: channel.traffic,
                    bytes_sent: channel.bytes_sent,
                    bytes_received: channel.bytes_received,
                    ot: terms.plan,
                    base_ot: terms.config.base_ot,
                    planned: terms.planned,
                    scheme: terms.config.scheme,
                };
                side.close(run.number);
                self.events.push_back(SessionEvent::Ended(run, Ok(report)));
            }
            Err(error) => {
                let is_sent = channel.finish_sent;
                let is_received = channel.finish_received
                    || matches!(
                        error,
                        SessionError::PeerAborted(_) | SessionError::RefusedByPeer(_)
                    );
                if channel.bytes_sent == 0 && matches!(error, SessionError::Disagreement { .. }) {
                    self.control(active.session.hello_frame(&run.tag()));
                }
                let side = self.side(run.role());
                if is_sent {
                    if is_received {
                        side.close(run.number);
                    } else {
                        side.expect_end(run.number);
                    }
                } else {
                    self.part(run, &error, is_received);
                }
                self.events.push_back(SessionEvent::Ended(run, Err(error)));
            }
        }
        self.wake(run.role());
    }

    /// Queues the last frame of a failed run. `is_received` states whether the peer has ended the
    /// run.
    pub(super) fn part(&mut self, run: RunId, error: &SessionError, is_received: bool) {
        let frame = match error.farewell() {
            _ if matches!(error, SessionError::Cancelled) => {
                (FrameKind::Abort, AbortReason::Cancelled as u8)
            }
            Some(Farewell::Refuse(field)) => (FrameKind::Refuse, field as u8),
            Some(Farewell::Abort(reason)) => (FrameKind::Abort, reason as u8),
            None => (FrameKind::Abort, HEARD),
        };
        self.part_with(run, frame, is_received);
    }

    /// Queues the last frame of a run, with this kind and code.
    pub(super) fn part_with(
        &mut self,
        run: RunId,
        (kind, code): (FrameKind, u8),
        is_received: bool,
    ) {
        let payload = [&run.tag()[..], &[code]].concat();
        self.control(whole_frame(kind, &payload));
        let side = self.side(run.role());
        if is_received {
            side.close(run.number);
        } else {
            side.expect_end(run.number);
        }
    }
}

/// Returns the plan of oblivious transfers in the peer's hello, if the hello has arrived.
fn peer_plan(held: &Held) -> Option<OtPlan> {
    match held.arrived.front() {
        Some(Arrived::Frame(frame)) if frame.kind == FrameKind::Hello => {
            Hello::decode(&frame.payload).ok()?.plan()
        }
        _ => None,
    }
}
