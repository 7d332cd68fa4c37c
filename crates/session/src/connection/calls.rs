//! The application's interface to a connection: calling for runs, providing inputs, changing
//! settings, cancelling, and closing.

use std::{num::NonZeroU64, sync::Arc};

use rand::CryptoRng;
use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;

use super::{ConnectionConfig, Decline, RunId, SessionConnection, events::GARBLES, side::Run};
use crate::{
    Config, Inputs, KnownPath, OtChoice, Role, SecretRng, SessionError, helpers::Spawner,
    session::Core,
};

/// [`ConnectionConfig::queue`] of a connection for one run: maximum number of bytes of queued
/// frames that wait to be sent. The queue reaches this limit only if the peer does not read. This
/// side then stops reading too.
const SINGLE_QUEUE: u64 = 1 << 20;

/// A call for a run: the application's request to execute a circuit in one of the two roles.
pub struct Call {
    /// The compiled circuit.
    pub program: Arc<Program>,
    /// The owner of each input value.
    pub split: InputSplit,
    /// The settings. [`Config::table_lead`] and [`Config::threads`] have an effect in a [connection
    /// for one run](SessionConnection::single) only.
    pub config: Config,
    /// This side's inputs. With `None`, the run is prepared, and
    /// [`provide`](SessionConnection::provide) sets the inputs later.
    pub inputs: Option<Box<dyn Inputs>>,
}

impl Call {
    /// Creates a call without inputs. Unless [`with_inputs`](Self::with_inputs) adds them, the run
    /// is prepared.
    #[must_use]
    pub fn new(program: Arc<Program>, split: InputSplit, config: Config) -> Self {
        Self {
            program,
            split,
            config,
            inputs: None,
        }
    }

    /// Sets this side's inputs.
    #[must_use]
    pub fn with_inputs(mut self, inputs: Box<dyn Inputs>) -> Self {
        self.inputs = Some(inputs);
        self
    }
}

impl SessionConnection {
    /// Opens a connection for one run and calls for the run.
    ///
    /// The connection has no random-OT pool. The settings and [`set_path`](Self::set_path)
    /// determine the oblivious transfers of the run. The flow-control window is
    /// [`Config::table_lead`], or the peer's window if that is smaller. `spawner` starts the
    /// threads of [`Config::threads`]. If the settings are not valid, the run ends with
    /// [`SessionEvent::Ended`](crate::SessionEvent::Ended).
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn single(
        role: Role,
        call: Call,
        encrypted: bool,
        spawner: Option<Spawner>,
    ) -> Result<(Self, RunId), SessionError> {
        Self::single_with_rng(
            role,
            call,
            encrypted,
            spawner,
            &mut rand::make_rng::<SecretRng>(),
        )
    }

    /// Opens a connection for one run, with secrets from `rng`.
    pub(crate) fn single_with_rng(
        role: Role,
        call: Call,
        encrypted: bool,
        spawner: Option<Spawner>,
        rng: &mut impl CryptoRng,
    ) -> Result<(Self, RunId), SessionError> {
        let config = ConnectionConfig {
            runs: Some(NonZeroU64::MIN),
            window: call.config.table_lead,
            base_ot: call.config.base_ot,
            prepared: 0,
            pool: 0,
            queue: SINGLE_QUEUE,
            garbles: false,
            ..ConnectionConfig::default()
        };
        let mut connection = Self::opened(config, encrypted, true, rng);
        connection.spawner = spawner;
        let run = connection.call(role, call)?;
        connection.close();
        Ok((connection, run))
    }

    /// Calls for a run in `role`. The call pairs with the peer's call that has the same number in
    /// the other role. If the settings are not valid, the run ends on both sides with
    /// [`SessionEvent::Ended`](crate::SessionEvent::Ended).
    ///
    /// # Errors
    /// Returns [`SessionError::Closed`] if the connection is closing or all 2^31 - 1 run numbers
    /// are used.
    pub fn call(&mut self, role: Role, call: Call) -> Result<RunId, SessionError> {
        self.check_may_call(role)?;
        let side = self.side(role);
        let may_use_pool = call.config.ot == OtChoice::Auto && call.split.evaluator_bits() > 0;
        let number = side.call(call);
        if role == Role::Garbler && may_use_pool && self.sender.is_none() && self.has_pool() {
            self.set_up_sender();
            self.connect_sender()?;
        }
        self.start_waiting(role)?;
        Ok(RunId::new(role, number))
    }

    /// Declines the peer's next run in which this side would have `role`. Use it instead of
    /// [`call`](Self::call) for that run.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn decline(&mut self, role: Role, why: Decline) -> Result<(), SessionError> {
        self.check_may_call(role)?;
        let side = self.side(role);
        let (number, is_ended) = side.skip();
        self.part_with(RunId::new(role, number), why.frame(), is_ended);
        self.start_waiting(role)
    }

    /// Sets this side's inputs of a prepared run.
    ///
    /// # Errors
    /// Returns errors that end the connection.
    pub fn provide(&mut self, run: RunId, inputs: Box<dyn Inputs>) -> Result<(), SessionError> {
        let limits = self.limits(run.role());
        let side = self.side(run.role());
        if let Some(Run::Held(held)) = side.get(run.number)
            && let Some(call) = &mut held.call
        {
            call.inputs = Some(inputs);
            return Ok(());
        }
        let done = side.work(run.number, limits, |session| match &mut session.0 {
            Core::Garbler(core) => core.provide(inputs),
            Core::Evaluator(core) => {
                core.provide(inputs);
                Ok(())
            }
        });
        self.settle_run(run, done)
    }

    /// Plans the oblivious transfers of a run again, for `path`. This has an effect only before the
    /// first [`poll`](Self::poll), with [`OtChoice::Auto`], and without a random-OT pool.
    ///
    /// # Errors
    /// Returns errors that end the connection.
    pub fn set_path(&mut self, run: RunId, path: KnownPath) -> Result<(), SessionError> {
        let mut rng: SecretRng = rand::make_rng();
        let limits = self.limits(run.role());
        let side = self.side(run.role());
        let done = side.work(run.number, limits, |session| match &mut session.0 {
            Core::Garbler(core) => core.set_path(path, &mut rng),
            Core::Evaluator(core) => core.set_path(path, &mut rng),
        });
        self.settle_run(run, done)
    }

    /// Makes `scheme` the preferred garbling scheme of a run. This has no effect if the run does
    /// not allow the scheme, or after the first [`poll`](Self::poll).
    ///
    /// # Errors
    /// Returns errors that end the connection.
    pub fn prefer_scheme(&mut self, run: RunId, scheme: Scheme) -> Result<(), SessionError> {
        let limits = self.limits(run.role());
        let side = self.side(run.role());
        let done = side.work(run.number, limits, |session| session.prefer_scheme(scheme));
        self.settle_run(run, done)
    }

    /// Cancels a run and informs the peer. Other runs continue.
    pub fn cancel(&mut self, run: RunId) {
        let side = self.side(run.role());
        match side.get(run.number) {
            Some(Run::Held(held)) if held.call.is_some() => {
                // The run stays in the queue without its call. When its turn to start comes, the
                // peer is informed.
                held.call = None;
            }
            Some(Run::Active(_)) => self.end(run, Err(SessionError::Cancelled)),
            _ => {}
        }
    }

    /// Rejects further calls of this side. The connection ends when all runs have ended.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    fn check_may_call(&mut self, role: Role) -> Result<(), SessionError> {
        let peer_called = self.close_received.map(|called| match role {
            Role::Garbler => called[1],
            Role::Evaluator => called[0],
        });
        let called = self.side(role).called;
        let is_over = peer_called.is_some_and(|theirs| called >= theirs);
        if self.is_closing || is_over || called >= GARBLES - 1 {
            return Err(SessionError::Closed);
        }
        Ok(())
    }
}
