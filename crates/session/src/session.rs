//! The state machine of one run, in either role.

use rand::CryptoRng;
use transpute_garble::Scheme;

use crate::{
    Frame, FrameKind, Output, Progressed, Role, SessionError,
    channel::Channel,
    evaluator::EvaluatorCore,
    garbler::GarblerCore,
    hello::Hello,
    helpers::Spawner,
    inputs::Inputs,
    layout::Layout,
    pieces::whole_frame,
    terms::{RunLink, RunTerms},
};

/// One party's side of a run, without I/O.
///
/// Pass received frames to [`handle`](Self::handle), send the output of [`poll`](Self::poll), and
/// read outputs with [`next_output`](Self::next_output).
pub(crate) struct Session(pub(crate) Core);

pub(crate) enum Core {
    Garbler(Box<GarblerCore>),
    Evaluator(Box<EvaluatorCore>),
}

impl Session {
    /// Starts a run with these terms. `tag` is the number of the run in its frames. The inputs may
    /// be set later, with `provide` of the garbler or the evaluator.
    pub(crate) fn start(
        role: Role,
        terms: RunTerms,
        inputs: Option<Box<dyn Inputs>>,
        tag: &[u8],
        spawner: Option<Spawner>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SessionError> {
        let RunTerms {
            config,
            plan,
            program,
            split,
            ..
        } = &terms;
        let mut hello = Hello::new(role, config, *plan, program, split, rng);
        if terms.is_prepared {
            hello.set_prepared();
        }
        hello.set_eager(terms.is_eager);
        let mut channel = Channel::new();
        channel.set_tag(tag);
        Ok(Self(match role {
            Role::Garbler => Core::Garbler(Box::new(GarblerCore::new(
                terms, channel, hello, inputs, spawner, rng,
            )?)),
            Role::Evaluator => Core::Evaluator(Box::new(EvaluatorCore::new(
                terms, channel, hello, inputs, spawner, rng,
            )?)),
        }))
    }

    /// Returns the maximum number of bytes that the garbler of this run sends without a request. If
    /// several schemes are allowed, the scheme with the largest tables determines it.
    pub(crate) fn max_unasked(&self) -> Result<u64, SessionError> {
        let layout = match &self.0 {
            Core::Garbler(core) => core.layout(),
            Core::Evaluator(core) => core.layout(),
        };
        let tables = match self.terms().config.allowed_schemes().len() {
            1 => layout.total_tables(),
            _ => Layout::max_tables(self.terms())?,
        };
        Ok(tables.saturating_add(layout.total_untabled()))
    }

    /// Sets whether the garbler uses its own window before it has the peer's opening.
    pub(crate) fn set_eager(&mut self, is_eager: bool) {
        if let Core::Garbler(core) = &mut self.0 {
            core.set_eager(is_eager);
        }
    }

    /// Sets the properties of the run that both openings determine.
    pub(crate) fn set_link(&mut self, link: RunLink) {
        match &mut self.0 {
            Core::Garbler(core) => core.set_link(link),
            Core::Evaluator(core) => core.set_link(link),
        }
    }

    /// Makes `scheme` the preferred one, if it is allowed and the hello has not been sent.
    pub(crate) fn prefer_scheme(&mut self, scheme: Scheme) -> Result<(), SessionError> {
        let config = &self.terms().config;
        if scheme == config.scheme || !config.allowed_schemes().contains(scheme) {
            return Ok(());
        }
        match &mut self.0 {
            Core::Garbler(core) => core.prefer_scheme(scheme),
            Core::Evaluator(core) => core.prefer_scheme(scheme),
        }
    }

    /// Handles a received frame.
    ///
    /// # Errors
    /// Any error, except an error of the link. The run has then ended.
    pub(crate) fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        match &mut self.0 {
            Core::Garbler(core) => core.handle(frame),
            Core::Evaluator(core) => core.handle(frame),
        }
    }

    /// Does one bounded piece of work: appends at most one frame (two at the start) to `out`, or
    /// evaluates one chunk. If `may_send` is false, it only does work that sends nothing.
    ///
    /// # Errors
    /// See [`handle`](Self::handle).
    pub(crate) fn poll(
        &mut self,
        out: &mut Vec<u8>,
        may_send: bool,
    ) -> Result<Progressed, SessionError> {
        match &mut self.0 {
            Core::Garbler(core) if may_send => core.poll(out),
            Core::Garbler(core) => Ok(core.idle()),
            Core::Evaluator(core) => core.poll(out, may_send),
        }
    }

    /// Waits until a thread of this run returns outputs, if any are outstanding. Returns whether it
    /// waited.
    pub(crate) fn settle(&mut self) -> Result<bool, SessionError> {
        match &mut self.0 {
            Core::Garbler(_) => Ok(false),
            Core::Evaluator(core) => core.settle(),
        }
    }

    /// Returns the next output of this party. It is final when [`poll`](Self::poll) has returned
    /// [`Progressed::Finished`].
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        match &mut self.0 {
            Core::Garbler(core) => core.outputs.pop_front(),
            Core::Evaluator(core) => core.outputs.pop_front(),
        }
    }

    /// Returns the frame of this side's hello. The connection sends it if the peer's hello
    /// disagrees and this side has not sent its own hello yet. The peer can then report the
    /// difference.
    pub(crate) fn hello_frame(&self, tag: &[u8]) -> Vec<u8> {
        let hello = match &self.0 {
            Core::Garbler(core) => core.hello(),
            Core::Evaluator(core) => core.hello(),
        };
        whole_frame(FrameKind::Hello, &[tag, &hello.encode()].concat())
    }

    pub(crate) fn terms(&self) -> &RunTerms {
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
