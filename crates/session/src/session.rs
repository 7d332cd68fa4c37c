//! The state machine of either role.

use std::sync::Arc;

use rand::CryptoRng;
use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;

use crate::{
    Config, Frame, FrameKind, Inputs, KnownPath, Output, Progress, Progressed, Role, SecretRng,
    SessionError,
    channel::Channel,
    error::{AbortReason, Farewell},
    evaluator::EvaluatorCore,
    garbler::GarblerCore,
    hello::Hello,
    pieces::whole_frame,
    terms::{Setting, Terms, total_choices},
};

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
    /// may come later, with `provide` of the garbler or the evaluator.
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
