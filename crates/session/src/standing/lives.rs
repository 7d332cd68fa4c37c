//! How runs of a connection begin and end.

use super::{
    Call, Connection, Event, RunId, RunReport,
    side::{Active, Held, Run},
};
use crate::{
    FrameKind, OtChoice, OtPlan, Role, Session, SessionError,
    config_error::ConfigError,
    error::{AbortReason, Farewell},
    layout::Layout,
    pieces::whole_frame,
    session::Core,
    terms::{Setting, Terms, total_choices},
};

/// Reason in the `Abort` that only says that the other one has been heard.
const HEARD: u8 = 0;

impl Connection {
    /// Starts the calls whose turn it is.
    pub(super) fn start_waiting(&mut self, role: Role) -> Result<(), SessionError> {
        let limits = self.limits();
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
            // Room for prepared runs is not known before the openings are.
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

    /// Starts a run and gives it what has come already.
    pub(super) fn start(&mut self, run: RunId, held: Held) -> Result<(), SessionError> {
        let begun = match held.call {
            Some(call) => self.begin(run, *call, held.is_prepared),
            None => Err(SessionError::Cancelled),
        };
        match begun {
            Ok(active) => self.side(run.role()).insert(run.number, active),
            Err(error) => {
                self.part(run, &error, held.is_ended);
                self.events.push_back(Event::Ended(run, Err(error)));
                return Ok(());
            }
        }
        self.schedule(run);
        for arrived in held.arrived {
            self.deliver(run, arrived)?;
        }
        Ok(())
    }

    /// Makes the session of a run.
    pub(super) fn begin(
        &mut self,
        run: RunId,
        call: Call,
        is_prepared: bool,
    ) -> Result<Active, SessionError> {
        let Call {
            program,
            split,
            mut config,
            inputs,
        } = call;
        config.table_lead = 0;
        config.base_ot = self.open.base_ot;
        config.threads = std::num::NonZeroUsize::MIN;
        let count = total_choices(&split, &config)?;
        let plan = match (config.ot, count) {
            (_, 0) => OtPlan::None,
            (OtChoice::Auto, _) => OtPlan::Stock,
            (OtChoice::Direct, count) if !is_prepared && count <= OtPlan::DIRECT_LIMIT => {
                OtPlan::Direct
            }
            _ => return Err(ConfigError::OtOfConnection.into()),
        };
        let setting = Setting::Run {
            context: self.context(run.role(), run.number),
            is_prepared,
        };
        let terms = Terms::new(program, split, config, plan, setting)?;
        let encrypted = self.open.is_encrypted;
        let (early, late) = match run.role() {
            Role::Garbler if is_prepared => (None, inputs),
            _ => (inputs, None),
        };
        let mut session = Session::start(
            run.role(),
            terms,
            early,
            encrypted,
            &run.tag(),
            &mut self.rng,
        )?;
        let mut reserved = 0;
        if is_prepared {
            reserved = Layout::max_tables(session.terms())?;
            let limit = self.limits().prepared;
            let free = limit.saturating_sub(self.side(run.role()).prepared);
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

    /// Looks at what became of a piece of work on a run.
    pub(super) fn settle(
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

    /// Ends a run that is complete in both directions; says whether it is. At once, because the peer
    /// may use its place from then on.
    pub(super) fn end_finished(&mut self, run: RunId) -> bool {
        let active = self.side(run.role()).active(run.number);
        let is_finished = active.is_some_and(|active| active.session.channel().is_finished());
        if is_finished {
            self.end(run, Ok(()));
        }
        is_finished
    }

    /// Tells what a run has come to.
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
        while let Some(output) = active.session.next_output() {
            events.push_back(Event::Output(run, output));
        }
        if active.session.terms().is_prepared() && !active.is_announced && active.is_prepared() {
            active.is_announced = true;
            events.push_back(Event::Prepared(run));
        }
    }

    /// Ends an active run on this side.
    pub(super) fn end(&mut self, run: RunId, result: Result<(), SessionError>) {
        let side = self.side(run.role());
        let Some(active) = side.take_active(run.number) else {
            return;
        };
        let channel = active.session.channel();
        match result {
            Ok(()) => {
                let report = RunReport {
                    traffic: channel.traffic,
                    bytes_sent: channel.bytes_sent,
                    bytes_received: channel.bytes_received,
                    ot: if active.is_direct {
                        OtPlan::Direct
                    } else {
                        active.session.terms().plan
                    },
                    scheme: active.session.terms().config.scheme,
                };
                side.close(run.number);
                self.events.push_back(Event::Ended(run, Ok(report)));
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
                self.events.push_back(Event::Ended(run, Err(error)));
            }
        }
        self.wake(run.role());
    }

    /// Tells the peer that this side is done with a run that failed.
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

    /// Sends the last frame of a run, of a kind with a code.
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
