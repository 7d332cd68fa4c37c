//! The state machine of either role.

use std::sync::Arc;

use rand::CryptoRng;
use transpute_circuit::{Bits, InputSplit, Program};
use transpute_garble::Scheme;

use crate::{
    Config, Frame, FrameKind, Inputs, KnownPath, OtPlan, Planned, Progress, Role, SessionError,
    channel::Channel,
    config::ConfigError,
    error::{AbortReason, Farewell},
    evaluator::EvaluatorCore,
    garbler::GarblerCore,
    hello::Hello,
    layout::Layout,
    pieces::whole_frame,
};

/// The generator of secrets: that of [`StdRng`](rand::rngs::StdRng), in a type that promises to wipe its
/// key and its output when dropped.
pub(crate) type SecretRng = chacha20::ChaCha12Rng;

/// What everything in a session refers to. Its scheme is the preferred one until the hellos agree, then the agreed one.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) config: Config,
    pub(crate) plan: OtPlan,
    /// Why this party wanted which plan, if by prediction.
    pub(crate) planned: Option<Planned>,
    pub(crate) program: Arc<Program>,
    pub(crate) split: InputSplit,
    /// The evaluator's input bits per evaluation.
    pub(crate) choices: usize,
    /// The same for the whole batch.
    pub(crate) total_choices: u64,
    pub(crate) progress: Progress,
    pub(crate) setting: Setting,
}

/// What a session is part of.
#[derive(Clone, Copy)]
pub(crate) enum Setting {
    /// It has the link for itself.
    Alone,
    /// It is a run of a standing connection.
    Run {
        /// What keys and hashes of this run are bound to besides the hellos; known when the peer's
        /// hello is here.
        context: Option<[u8; 32]>,
        /// Whether tables are made before the inputs are known.
        is_prepared: bool,
    },
}

impl Terms {
    /// Checks the settings.
    pub(crate) fn new(
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        plan: OtPlan,
        setting: Setting,
    ) -> Result<Self, SessionError> {
        config.check()?;
        Ok(Self {
            choices: split.evaluator_bits(),
            total_choices: total_choices(&split, &config)?,
            config,
            plan,
            planned: None,
            program,
            split,
            progress: Progress::default(),
            setting,
        })
    }

    /// Plans anew for a path; says whether the plan is another one now.
    pub(crate) fn replan(&mut self, path: KnownPath) -> Result<bool, SessionError> {
        if !matches!(self.setting, Setting::Alone) {
            return Ok(false);
        }
        self.config.path = Some(path);
        let (plan, planned) = self.config.plan(self.total_choices)?;
        self.planned = planned;
        Ok(std::mem::replace(&mut self.plan, plan) != plan)
    }

    /// Returns the bytes of all tables of the batch, under the scheme with the most of those that are allowed.
    pub(crate) fn max_tables(&self) -> Result<u64, SessionError> {
        let mut most = 0;
        for scheme in self.config.allowed_schemes().iter() {
            let mut terms = self.clone();
            terms.config.scheme = scheme;
            most = most.max(Layout::new(&terms)?.total_tables());
        }
        Ok(most)
    }

    /// Says whether tables are made before the inputs are known.
    pub(crate) fn is_prepared(&self) -> bool {
        matches!(
            self.setting,
            Setting::Run {
                is_prepared: true,
                ..
            }
        )
    }

    /// Binds keys and hashes to the connection and the number of the run.
    pub(crate) fn set_context(&mut self, known: [u8; 32]) {
        if let Setting::Run { context, .. } = &mut self.setting {
            *context = Some(known);
        }
    }

    /// Says whether the labels of the garbler's inputs are sent.
    pub(crate) fn sends_garbler_labels(&self) -> bool {
        self.config.scheme.sends_garbler_labels() || self.is_prepared()
    }

    /// Returns the session id.
    pub(crate) fn session_id(&self, garbler: &[u8], evaluator: &[u8]) -> [u8; 32] {
        match self.setting {
            Setting::Run {
                context: Some(context),
                ..
            } => Hello::run_id(&context, garbler, evaluator),
            _ => Hello::session_id(garbler, evaluator),
        }
    }
}

/// The outputs of one evaluation.
#[derive(Debug)]
pub struct Output {
    /// Which evaluation of the batch, from 0.
    pub instance: u64,
    /// All output values concatenated, in wire order.
    pub bits: Bits,
}

/// What a call of [`Session::poll`] came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progressed {
    /// Something was done; call again.
    Worked,
    /// Nothing can be done before another frame arrives.
    Idle,
    /// The session is complete in both directions.
    Finished,
}

/// One party's side of a session, without I/O.
///
/// Give it what arrives ([`handle`](Self::handle)), send what it makes ([`poll`](Self::poll)),
/// collect what it finds out ([`next_output`](Self::next_output)).
pub struct Session(pub(crate) Core);

pub(crate) enum Core {
    Garbler(Box<GarblerCore>),
    Evaluator(Box<EvaluatorCore>),
}

impl Session {
    /// Starts a session.
    ///
    /// `encrypted` says whether the link authenticates and hides what it carries; both sides must
    /// say the same. `inputs` provides this party's bits.
    ///
    /// # Errors
    /// [`SessionError::Config`] and [`SessionError::Garble`] where the settings do not fit, and
    /// [`SessionError::Input`].
    pub fn new(
        role: Role,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        inputs: Box<dyn Inputs>,
        encrypted: bool,
    ) -> Result<Self, SessionError> {
        let mut rng: SecretRng = rand::make_rng();
        Self::with_rng(role, program, split, config, inputs, encrypted, &mut rng)
    }

    /// Starts a session whose secrets come from `rng`.
    pub(crate) fn with_rng(
        role: Role,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        inputs: Box<dyn Inputs>,
        encrypted: bool,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SessionError> {
        let (plan, planned) = config.plan(total_choices(&split, &config)?)?;
        let mut terms = Terms::new(program, split, config, plan, Setting::Alone)?;
        terms.planned = planned;
        Self::start(role, terms, Some(inputs), encrypted, &[], rng)
    }

    /// Starts a session on `terms`. In a standing connection its frames bear `tag`, and its inputs
    /// may come later, with [`provide`](Self::provide).
    pub(crate) fn start(
        role: Role,
        terms: Terms,
        inputs: Option<Box<dyn Inputs>>,
        encrypted: bool,
        tag: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SessionError> {
        let Terms {
            config,
            plan,
            program,
            split,
            ..
        } = &terms;
        let mut hello = Hello::new(role, config, *plan, program, split, encrypted, rng);
        if terms.is_prepared() {
            hello.set_prepared();
        }
        let mut channel = Channel::new(!encrypted);
        channel.set_tag(tag);
        Ok(Self(match role {
            Role::Garbler => Core::Garbler(Box::new(GarblerCore::new(
                terms, channel, hello, inputs, rng,
            )?)),
            Role::Evaluator => Core::Evaluator(Box::new(EvaluatorCore::new(
                terms, channel, hello, inputs, rng,
            )?)),
        }))
    }

    /// Tells what is known of the path, once the link is there: with
    /// [`OtChoice::Auto`](crate::OtChoice::Auto) the oblivious transfers are planned for it. Of no effect
    /// behind the first [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`SessionError::Input`].
    pub fn set_path(&mut self, path: KnownPath) -> Result<(), SessionError> {
        let mut rng: SecretRng = rand::make_rng();
        match &mut self.0 {
            Core::Garbler(core) => core.set_path(path, &mut rng),
            Core::Evaluator(core) => core.set_path(path, &mut rng),
        }
    }

    /// Prefers a garbling scheme, once the path is known. Of no effect if the scheme is not among those that are allowed,
    /// and behind the first [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`SessionError::Garble`], [`SessionError::Thread`].
    pub fn prefer_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        let config = &self.terms().config;
        if scheme == config.scheme || !config.allowed_schemes().contains(scheme) {
            return Ok(());
        }
        match &mut self.0 {
            Core::Garbler(core) => core.prefer_scheme(scheme),
            Core::Evaluator(core) => core.prefer_scheme(scheme),
        }
    }

    /// Returns this party's role.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.0 {
            Core::Garbler(_) => Role::Garbler,
            Core::Evaluator(_) => Role::Evaluator,
        }
    }

    /// Returns live counters.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.terms().progress.clone()
    }

    /// Takes one received frame.
    ///
    /// # Errors
    /// Any but those of the link. The session is over then; send
    /// [`farewell`](Self::farewell) and close.
    pub fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        match &mut self.0 {
            Core::Garbler(core) => core.handle(frame),
            Core::Evaluator(core) => core.handle(frame),
        }
    }

    /// Does one bounded piece of work: appends at most one frame (two at the start) to `out`, or
    /// evaluates one chunk. With `may_send` false it only does what makes no bytes.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn poll(&mut self, out: &mut Vec<u8>, may_send: bool) -> Result<Progressed, SessionError> {
        match &mut self.0 {
            Core::Garbler(core) if may_send => core.poll(out),
            Core::Garbler(core) => Ok(core.idle()),
            Core::Evaluator(core) => core.poll(out, may_send),
        }
    }

    /// Waits for what the threads of this session are at, where nothing is left to do before a frame
    /// arrives and none has. Says whether there is more to do now. Only with
    /// [`Config::threads`](crate::Config::threads) above 1 there is anything to wait for.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn settle(&mut self) -> Result<bool, SessionError> {
        match &mut self.0 {
            Core::Garbler(_) => Ok(false),
            Core::Evaluator(core) => core.settle(),
        }
    }

    /// Returns the next output this party has learned.
    ///
    /// It is final once [`poll`](Self::poll) has returned [`Progressed::Finished`].
    pub fn next_output(&mut self) -> Option<Output> {
        match &mut self.0 {
            Core::Garbler(core) => core.outputs.pop_front(),
            Core::Evaluator(core) => core.outputs.pop_front(),
        }
    }

    /// Says whether frames may be given to [`handle`](Self::handle) now. If not, send first: the
    /// peer is not reading fast enough for more answers.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.channel().wants_input()
    }

    /// Returns the last frame to send after `error`, if the peer should hear of it.
    #[must_use]
    pub fn farewell(error: &SessionError) -> Option<Vec<u8>> {
        let (kind, code) = match error.farewell()? {
            Farewell::Refuse(field) => (FrameKind::Refuse, field as u8),
            Farewell::Abort(reason) => (FrameKind::Abort, reason as u8),
        };
        Some(vec![kind as u8, 1, 0, 0, 0, code])
    }

    /// Returns the frame of this side's hello, for a peer that disagrees before anything was sent: it learns on what.
    pub(crate) fn hello_frame(&self, tag: &[u8]) -> Vec<u8> {
        let hello = match &self.0 {
            Core::Garbler(core) => core.hello(),
            Core::Evaluator(core) => core.hello(),
        };
        whole_frame(FrameKind::Hello, &[tag, &hello.encode()].concat())
    }

    /// Returns all that is sent to a peer that is turned away before this side has begun a session.
    #[must_use]
    pub fn refusal(reason: AbortReason) -> Vec<u8> {
        vec![FrameKind::Abort as u8, 1, 0, 0, 0, reason as u8]
    }

    /// Returns the sign of life to send when there is nothing else.
    #[must_use]
    pub fn sign_of_life() -> &'static [u8] {
        &[FrameKind::Alive as u8, 0, 0, 0, 0]
    }

    pub(crate) fn terms(&self) -> &Terms {
        match &self.0 {
            Core::Garbler(core) => &core.terms,
            Core::Evaluator(core) => &core.terms,
        }
    }

    pub(crate) fn channel(&self) -> &Channel {
        match &self.0 {
            Core::Garbler(core) => &core.channel,
            Core::Evaluator(core) => &core.channel,
        }
    }
}

/// Returns the evaluator's input bits of a whole batch.
pub(crate) fn total_choices(split: &InputSplit, config: &Config) -> Result<u64, ConfigError> {
    let all = split.widths().iter().map(|&width| u64::from(width)).sum();
    config
        .batch
        .checked_mul(all)
        .filter(|bits| *bits < 1 << 56)
        .map(|_| config.batch * split.evaluator_bits() as u64)
        .ok_or(ConfigError::TooLarge {
            batch: config.batch,
        })
}

/// Checks a received base-OT message against the hello that announced it.
pub(crate) fn check_setup(hello: &Hello, message: &[u8]) -> Result<(), SessionError> {
    let mut announced = hello.clone();
    announced.set_setup(message);
    if announced.setup_hash == hello.setup_hash {
        Ok(())
    } else {
        Err(SessionError::Unexpected {
            kind: FrameKind::OtSetup,
            problem: "it is not the message that the hello announced",
        })
    }
}

/// The error for a hello that came twice or a message that came before it.
pub(crate) fn out_of_order(kind: FrameKind) -> SessionError {
    SessionError::Unexpected {
        kind,
        problem: "it does not come at this point",
    }
}

/// Where tables may run ahead of labels: the accounting both sides share.
///
/// Everything about an evaluation that the garbler sends unasked (its tables, its own labels, the
/// decoding information) counts until the evaluator has the labels of its inputs that it needs for it: tables until it has those
/// that they and the ones before read, where the garbler's labels are not sent, and else, like all the rest, until it has all of
/// that evaluation and those garbled side by side with it. What counts stays within the agreed lead, give
/// or take the untabled part of the evaluations that are garbled together.
pub(crate) struct Lead {
    limit: u64,
    /// Bytes that count of other runs on the same connection.
    others: u64,
    layout: Layout,
    committed: u64,
    /// Labels of evaluator's inputs that are there, or, where there are no such inputs, evaluations.
    answered: u64,
}

impl Lead {
    pub(crate) fn new(limit: u64, layout: Layout) -> Self {
        Self {
            limit,
            others: 0,
            layout,
            committed: 0,
            answered: 0,
        }
    }

    /// Returns the accounting of what is sent in another layout, before anything counts.
    pub(crate) fn renewed(&self, layout: Layout) -> Self {
        Self {
            layout,
            limit: self.limit,
            others: self.others,
            committed: 0,
            answered: self.answered,
        }
    }

    /// Sets the limit of all runs of a connection together, and what counts of the others.
    pub(crate) fn share(&mut self, limit: u64, others: u64) {
        self.limit = limit;
        self.others = others;
    }

    /// Returns how many bytes may count.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn set_answered(&mut self, labels: u64) {
        self.answered = labels;
    }

    /// Returns the bytes that count, if `more` are added.
    pub(crate) fn used(&self, more: u64) -> u64 {
        let free = self.layout.unasked(self.answered);
        (self.committed + more).saturating_sub(free)
    }

    /// Says whether nothing counts, of other runs neither.
    pub(crate) fn is_empty(&self) -> bool {
        self.used(0) == 0 && self.others == 0
    }

    /// Says whether `more` bytes may be sent: those of a chunk, at most, or what is not tables.
    pub(crate) fn allows(&self, more: u64) -> bool {
        // What can be evaluated ends where a chunk ends: with its first byte goes the whole of the next one.
        let used = self.used(more);
        self.used(1) == 0 || used == 0 || used.saturating_add(self.others) <= self.limit
    }

    /// Says whether what has come unasked is more than could be sent.
    pub(crate) fn is_exceeded(&self) -> bool {
        let limit = self.limit.saturating_add(self.layout.max_untabled());
        self.used(0).saturating_add(self.others) > limit
    }

    pub(crate) fn commit(&mut self, bytes: u64) {
        self.committed += bytes;
    }
}
