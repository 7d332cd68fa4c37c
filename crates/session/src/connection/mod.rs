//! The state machine of a connection: any number of runs on one link.
//!
//! The state machine takes received frames and returns bytes to send. Each run has its own hellos,
//! secrets and transcripts. Its frames contain the number of the run. All runs share the link, the
//! limits of memory, and a pool of random oblivious transfers. A connection for one run has no
//! pool, so the run computes its own transfers.

mod calls;
mod config;
mod events;
mod lifecycle;
mod open;
pub(crate) mod pool;
mod receive;
mod schedule;
mod side;

use std::collections::VecDeque;

use rand::{CryptoRng, SeedableRng};
use transpute_ot::{AnySender, BaseOt};

pub(crate) use self::open::OPEN_LEN;
pub use self::{
    calls::Call,
    config::ConnectionConfig,
    events::{Decline, RunId, RunReport, SessionEvent},
    open::{OPEN_FRAME_LEN, OPEN_START, is_open_start},
};
use self::{
    events::GARBLES,
    open::{Agreed, Limits, Open},
    pool::{ReceiverPool, SenderPool},
    side::Side,
};
use crate::{
    Frame, FrameKind, OtPlan, Progress, Progressed, Role, SecretRng, SessionError,
    error::{AbortReason, Farewell},
    helpers::Spawner,
    pieces::whole_frame,
    session::Session,
    terms::RunLink,
};

/// Maximum number of bytes of received tables that are ready for evaluation. At this limit, this
/// side stops reading frames.
const BACKLOG_LIMIT: u64 = 4 << 20;

/// Length of the payload of a `Close` frame, in bytes: the tag 0, and the numbers of the sender's
/// calls as garbler and as evaluator.
pub(crate) const CLOSE_LEN: usize = 12;

/// One side of a connection, without I/O.
///
/// Pass received frames to [`handle`](Self::handle), send the output of [`poll`](Self::poll), and
/// read events with [`next_event`](Self::next_event). An error of `handle` or `poll` ends the
/// connection. The failure of a single run is an event.
pub struct SessionConnection {
    config: ConnectionConfig,
    open: Open,
    agreed: Option<Agreed>,
    rng: SecretRng,
    is_open_sent: bool,
    /// Starts the threads of a run.
    spawner: Option<Spawner>,
    /// Queued frames about the connection, and last frames of failed runs. They are sent after the
    /// opening and before frames of active runs.
    control: VecDeque<Vec<u8>>,
    control_bytes: usize,
    garbling: Side,
    evaluating: Side,
    /// Runs with a frame that the peer waits for.
    urgent: VecDeque<RunId>,
    events: VecDeque<SessionEvent>,
    /// The pool for runs in which this side garbles.
    sender: Option<SenderPool>,
    /// This side's base-OT sender, for the pool of runs in which this side evaluates. `None`
    /// without a pool, and after the peer's base-OT message has created `receiver`.
    base: Option<AnySender>,
    /// Whether this side has ignored the peer's base-OT message for a pool. Only a connection for
    /// one run does this, because it has no pool.
    has_ignored_base: bool,
    receiver: Option<ReceiverPool>,
    /// Number of direct transfers that this side may still use before the pool exists, in runs in
    /// which neither side demands direct transfers.
    direct_left: u64,
    /// Whether [`Self::poll`] last tried the runs in which this side evaluates. It alternates
    /// between the two roles.
    evaluates_next: bool,
    is_closing: bool,
    close_sent: bool,
    /// The numbers of the peer's calls as garbler and as evaluator, from its `Close` frame. `None`
    /// until this frame arrives.
    close_received: Option<[u32; 2]>,
}

impl SessionConnection {
    /// Opens a connection. `encrypted` states whether the link is authenticated and encrypted. Both
    /// sides must pass the same value.
    #[must_use]
    pub fn new(config: ConnectionConfig, encrypted: bool) -> Self {
        Self::with_rng(config, encrypted, &mut rand::make_rng::<SecretRng>())
    }

    /// Opens a connection, with secrets from `rng`.
    pub(crate) fn with_rng(
        config: ConnectionConfig,
        encrypted: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let mut connection = Self::opened(config, encrypted, false, rng);
        if connection.config.garbles {
            connection.set_up_sender();
        }
        connection
    }

    fn opened(
        config: ConnectionConfig,
        encrypted: bool,
        is_single: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let (open, base) = Open::new(&config, encrypted, is_single, rng);
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        Self {
            rng: SecretRng::from_seed(*seed),
            is_open_sent: false,
            spawner: None,
            control: VecDeque::new(),
            control_bytes: 0,
            garbling: Side::new(&config),
            evaluating: Side::new(&config),
            urgent: VecDeque::new(),
            events: VecDeque::new(),
            sender: None,
            base,
            has_ignored_base: false,
            receiver: None,
            direct_left: OtPlan::DIRECT_LIMIT,
            evaluates_next: false,
            is_closing: false,
            close_sent: false,
            close_received: None,
            agreed: None,
            open,
            config,
        }
    }

    /// Returns the live counters of an active run.
    #[must_use]
    pub fn progress(&self, run: RunId) -> Option<Progress> {
        let side = match run.role() {
            Role::Garbler => &self.garbling,
            Role::Evaluator => &self.evaluating,
        };
        side.progress(run.number)
    }

    /// Returns whether frames may be passed to [`handle`](Self::handle) now. If not, call
    /// [`poll`](Self::poll) first, because a memory limit is reached.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let queued = self.garbling.sum.queued + self.evaluating.sum.queued;
        let sum = &self.evaluating.sum;
        let backlog = sum.tables.saturating_sub(sum.used);
        queued + (self.control_bytes as u64) < self.config.queue
            && (backlog < BACKLOG_LIMIT || self.evaluating.ready.is_empty())
    }

    /// Returns whether frames should be passed to [`handle`](Self::handle) while
    /// [`poll`](Self::poll) still has work. This is true if this side garbles, or evaluates in
    /// several runs. A single evaluation handles the next frame only after it has evaluated the
    /// last one.
    #[must_use]
    pub fn hears_while_working(&self) -> bool {
        self.garbling.has_runs() || self.evaluating.has_several()
    }

    /// Returns whether [`poll`](Self::poll) still has to send the opening or another frame that the
    /// peer waits for.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        !self.is_open_sent || !self.control.is_empty() || !self.urgent.is_empty()
    }

    /// Waits until the threads of a run return outputs, if any are outstanding. Call it when no
    /// other work is left and no frame has arrived. Returns whether there is more work now. A run
    /// has threads only if [`Config::threads`](crate::Config::threads) is above 1.
    ///
    /// # Errors
    /// See [`handle`](Self::handle).
    pub fn settle(&mut self) -> Result<bool, SessionError> {
        if self.spawner.is_none() {
            return Ok(false);
        }
        for number in self.evaluating.numbers() {
            let limits = self.limits(Role::Evaluator);
            let settled = self.evaluating.work(number, limits, Session::settle);
            let run = RunId::new(Role::Evaluator, number);
            match settled {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => {
                    self.settle_run(run, Some(Ok(())))?;
                    return Ok(true);
                }
                Some(Err(error)) => {
                    self.settle_run(run, Some(Err(error)))?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the keep-alive frame. The driver sends it while the link is idle.
    #[must_use]
    pub fn sign_of_life() -> &'static [u8] {
        &[FrameKind::Alive as u8, 0, 0, 0, 0]
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Returns the last frames to send after an error that ended the connection: the opening, if it
    /// was not sent, and the reason. `None` if the peer need not or cannot be informed.
    #[must_use]
    pub fn farewell(&mut self, error: &SessionError) -> Option<Vec<u8>> {
        let (kind, code) = match error.farewell()? {
            Farewell::Refuse(field) => (FrameKind::Refuse, field as u8),
            Farewell::Abort(reason) => (FrameKind::Abort, reason as u8),
        };
        let mut frames = self.opening().unwrap_or_default();
        frames.extend(last_frame(kind, code));
        Some(frames)
    }

    /// Returns the frames that reject a peer for which no connection was created: an opening, and
    /// an `Abort` frame with the reason.
    #[must_use]
    pub fn refusal(encrypted: bool, reason: AbortReason) -> Vec<u8> {
        let mut rng = rand::make_rng::<SecretRng>();
        let (open, _) = Open::new(&ConnectionConfig::default(), encrypted, true, &mut rng);
        let abort = last_frame(FrameKind::Abort, reason as u8);
        [whole_frame(FrameKind::Open, &open.encode()), abort].concat()
    }

    /// Handles a received frame.
    ///
    /// # Errors
    /// Any error that ends the connection. Send the frames of [`farewell`](Self::farewell), then
    /// close the link.
    pub fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        let Frame { kind, payload } = frame;
        if kind == FrameKind::Alive {
            return Ok(());
        }
        if self.close_received.is_some() {
            return Err(SessionError::Unexpected {
                kind,
                problem: "the peer had closed the connection",
            });
        }
        let is_end =
            matches!(kind, FrameKind::Refuse | FrameKind::Abort) && payload.starts_with(&[0; 4]);
        if self.agreed.is_none() && !is_end {
            return match kind {
                FrameKind::Open => self.handle_open(&payload),
                _ => Err(SessionError::Unexpected {
                    kind,
                    problem: "a connection begins with an opening",
                }),
            };
        }
        let Some((tag, _)) = payload.split_first_chunk() else {
            return Err(SessionError::Unexpected {
                kind,
                problem: "it does not say of which run it is",
            });
        };
        let tag = u32::from_le_bytes(*tag);
        let content = payload.slice(4..);
        // The bit is set if the sender of the frame garbles. The sender is the peer, so this side
        // then evaluates.
        let role = if tag & GARBLES != 0 {
            Role::Evaluator
        } else {
            Role::Garbler
        };
        match tag & !GARBLES {
            0 => self.handle_control(role, kind, &content),
            number => self.handle_run(RunId::new(role, number), kind, content),
        }
    }

    /// Does one bounded piece of work: appends a few frames to `out`, or evaluates one chunk. If
    /// `may_send` is false, it only does work that sends nothing.
    ///
    /// # Errors
    /// See [`handle`](Self::handle).
    pub fn poll(&mut self, out: &mut Vec<u8>, may_send: bool) -> Result<Progressed, SessionError> {
        if may_send {
            if let Some(opening) = self.opening() {
                out.extend_from_slice(&opening);
                return Ok(Progressed::Worked);
            }
            if let Some(frame) = self.control.pop_front() {
                self.control_bytes -= frame.len();
                out.extend_from_slice(&frame);
                return Ok(Progressed::Worked);
            }
            while let Some(run) = self.urgent.pop_front() {
                if self.poll_urgent(run, out)? {
                    return Ok(Progressed::Worked);
                }
            }
        }
        for _ in 0..2 {
            self.evaluates_next = !self.evaluates_next;
            let worked = if self.evaluates_next {
                self.poll_ready(Role::Evaluator, out, may_send)?
            } else {
                may_send && self.poll_ready(Role::Garbler, out, true)?
            };
            if worked {
                return Ok(Progressed::Worked);
            }
        }
        if may_send && (self.top_up(out) || self.poll_close(out)) {
            return Ok(Progressed::Worked);
        }
        if may_send && !(self.control.is_empty() && self.urgent.is_empty()) {
            // During this poll, a run failed or got an urgent frame. The next poll sends it.
            return Ok(Progressed::Worked);
        }
        Ok(if self.close_sent && self.close_received.is_some() {
            Progressed::Finished
        } else {
            Progressed::Idle
        })
    }

    /// Returns the `Open` frame of this side the first time, then `None`.
    fn opening(&mut self) -> Option<Vec<u8>> {
        let is_due = !std::mem::replace(&mut self.is_open_sent, true);
        is_due.then(|| whole_frame(FrameKind::Open, &self.open.encode()))
    }

    /// Returns whether runs may use a pool: neither side has a connection for one run, as far as
    /// this side knows.
    fn has_pool(&self) -> bool {
        let is_refused = (self.agreed.as_ref()).is_some_and(|agreed| agreed.theirs.is_single);
        !self.open.is_single && !is_refused
    }

    fn side(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Garbler => &mut self.garbling,
            Role::Evaluator => &mut self.evaluating,
        }
    }

    /// Returns the limits of the runs in which this side has `role`.
    fn limits(&self, role: Role) -> Limits {
        let limits = match &self.agreed {
            Some(agreed) => agreed.limits,
            None => self.open.first_limits(),
        };
        match role {
            Role::Garbler => limits,
            Role::Evaluator => Limits {
                window: limits.taken_window,
                ..limits
            },
        }
    }

    fn control(&mut self, frame: Vec<u8>) {
        self.control_bytes += frame.len();
        self.control.push_back(frame);
    }

    /// Queues a frame about the connection or a pool. `garbles` states whether the frame is about
    /// the pool for runs in which this side garbles.
    fn control_frame(&mut self, garbles: bool, kind: FrameKind, content: &[u8]) {
        let tag = if garbles { GARBLES } else { 0 };
        let payload = [&tag.to_le_bytes(), content].concat();
        self.control(whole_frame(kind, &payload));
    }

    /// Returns the properties of a run that both openings determine. `None` until the peer's
    /// opening has arrived.
    fn run_link(&self, role: Role, number: u32) -> Option<RunLink> {
        let agreed = self.agreed.as_ref()?;
        let (garbler, evaluator) = match role {
            Role::Garbler => (&self.open, &agreed.theirs),
            Role::Evaluator => (&agreed.theirs, &self.open),
        };
        Some(agreed.run_link(garbler, evaluator, number))
    }

    /// Starts to set up the pool for runs in which this side garbles.
    fn set_up_sender(&mut self) {
        let (pool, message) = SenderPool::start(self.open.base_ot, &self.open.nonce, &mut self.rng);
        self.control_frame(true, FrameKind::OtSetup, &message);
        self.sender = Some(pool);
    }

    /// Continues to set up the pool for runs in which this side garbles, if the peer's opening has
    /// arrived.
    fn connect_sender(&mut self) -> Result<(), SessionError> {
        let (Some(sender), Some(agreed)) = (&mut self.sender, &self.agreed) else {
            return Ok(());
        };
        if agreed.theirs.is_single {
            self.sender = None;
            return Ok(());
        }
        // With ML-KEM, the peer's base-OT message answers this side's message, so the opening does
        // not contain it.
        if self.open.base_ot == BaseOt::Ristretto255 {
            let sid = agreed.pool_id(&self.open.nonce);
            sender.connect(agreed.theirs.extension, &sid, &agreed.theirs.point)?;
        }
        Ok(())
    }

    /// Returns four numbers for runs in which this side has `role`. For runs that are not started,
    /// they are the bytes of tables, the other bytes, and the transfers. For active runs, it is the
    /// bytes of received tables that are not evaluated.
    #[cfg(test)]
    pub(crate) fn held(&mut self, role: Role) -> [u64; 4] {
        let side = self.side(role);
        let (tables, bytes, transfers) = side.held();
        [tables, bytes, transfers, side.sum.tables]
    }

    /// Returns the session of an active run.
    #[cfg(test)]
    pub(crate) fn session(&mut self, run: RunId) -> Option<&mut Session> {
        Some(&mut self.side(run.role()).active(run.number)?.session)
    }

    /// Returns delta, the global offset of labels, of an active run.
    #[cfg(test)]
    pub(crate) fn delta(&mut self, run: RunId) -> Option<[u8; 16]> {
        match &self.side(run.role()).active(run.number)?.session.0 {
            crate::session::Core::Garbler(core) => {
                core.delta().map(transpute_garble::Label::to_bytes)
            }
            crate::session::Core::Evaluator(_) => None,
        }
    }
}

/// Returns the frame that ends a connection: the tag 0 and the code of the reason.
fn last_frame(kind: FrameKind, code: u8) -> Vec<u8> {
    whole_frame(kind, &[0, 0, 0, 0, code])
}
