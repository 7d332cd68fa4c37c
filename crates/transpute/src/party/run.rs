//! Runs of a party over a link.

use std::sync::{PoisonError, mpsc};

use tokio::task::{JoinHandle, spawn_blocking};
use transpute_select::{Chooser, End, PathEstimate};
use transpute_session::{
    Call, Config, Inputs, RunId, SessionConnection as Session, SessionError, Spawner,
};
use transpute_transport::{HandshakeError, Link, TransportError};
use transpute_units::KnownPath;

use super::Party;
use crate::{
    Connection, Error, Evaluation, Report, Results, Selection,
    connection::Run,
    known::{as_evaluator, round_trip},
    path_watch, scheme,
};

/// The reason for which the transport of a link was chosen.
pub(crate) struct Why {
    pub(crate) reason: String,
    /// The choice among several transports, if there was one.
    pub(crate) selection: Option<Box<Selection>>,
}

impl Why {
    /// Updates the path of the selection with measurements of the link since the choice.
    fn update(&mut self, chooser: &dyn Chooser, path: &transpute_transport::PathSample) {
        if let Some(selection) = &mut self.selection {
            selection.update(chooser, path);
        }
    }
}

/// A connection for one run that another thread prepares before the link exists.
pub(crate) struct Ready {
    session: JoinHandle<Result<(Session, RunId), SessionError>>,
    /// The prepared connection requires an encrypted link.
    is_encrypted: bool,
}

impl Ready {
    /// Checks that `link` is encrypted if this party expects it, and only then.
    fn check(&self, link: &Link) -> Result<(), TransportError> {
        if link.info().encrypted == self.is_encrypted {
            return Ok(());
        }
        let [ours, theirs] = match self.is_encrypted {
            true => ["TLS", "plaintext"],
            false => ["plaintext", "TLS"],
        };
        Err(TransportError::Handshake(
            HandshakeError::SecurityMismatch { ours, theirs },
        ))
    }
}

impl Party {
    /// Starts the computations that do not depend on the peer, such as the first message of
    /// oblivious transfer. They overlap with connecting.
    pub(crate) fn prepare(&self, inputs: Box<dyn Inputs>) -> Result<Ready, Error> {
        let (role, is_encrypted) = (self.role, self.network.is_encrypted());
        let call = Call {
            program: self.program.clone(),
            split: self.split()?,
            config: self.config.clone(),
            inputs: Some(inputs),
        };
        let spawner = Some(transpute_driver::spawn_thread as Spawner);
        Ok(Ready {
            session: spawn_blocking(move || Session::single(role, call, is_encrypted, spawner)),
            is_encrypted,
        })
    }

    /// Opens a connection for any number of runs on `link`.
    pub(crate) async fn open_over(mut self, link: Link, why: Why) -> Result<Connection, Error> {
        let split = self.split()?;
        self.runs = (1, 1);
        let run = self.workload(End::Connector);
        let chosen = match (why.selection, run) {
            (Some(selection), Ok(run)) => Some(path_watch::Chosen {
                selection,
                chooser: self.network.chooser(),
                run,
            }),
            _ => None,
        };
        let run = Run {
            role: self.role,
            program: self.program,
            split,
            config: self.config,
        };
        Connection::new(link, self.connection, self.driver, run, chosen).await
    }

    /// Runs the prepared computation over `link`.
    pub(crate) async fn run_over(
        self,
        link: Link,
        mut why: Why,
        ready: Ready,
    ) -> Result<Results, Error> {
        ready.check(&link)?;
        let (info, stats) = (link.info().clone(), link.stats());
        let (role, batch) = (self.role, self.config.batch);
        let chooser = self.network.chooser();
        let made = ready.session.await;
        let (session, run) = made.unwrap_or(Err(SessionError::Cancelled))?;

        let before = stats.snapshot();
        why.update(&*chooser, &before.path);
        let rtt = round_trip(&info, &before);
        // Only the connector has a selection. It has measured both directions of the path.
        let selected = |of: fn(&PathEstimate) -> KnownPath| {
            let selection = why.selection.as_deref();
            let path = selection.map_or_else(KnownPath::default, |selection| of(&selection.path));
            as_evaluator(KnownPath { rtt, ..path }, role)
        };
        let path = rtt.map(|_| selected(PathEstimate::known));
        let mut config = self.config.clone();
        let exact = selected(PathEstimate::known_exactly);
        let scheme = scheme::prefer(&mut config, self.program.and_count(), &exact);
        let session = match (&path, &scheme) {
            (None, None) => session,
            _ => plan_again(session, run, config, path).await?,
        };

        let watch = (self.on_progress.into_inner()).unwrap_or_else(PoisonError::into_inner);
        if let (Some(watch), Some(progress)) = (watch, session.progress(run)) {
            watch(progress);
        }
        let (sender, outputs) = mpsc::channel();
        let outcome = transpute_driver::run(session, run, link, self.driver, move |output| {
            // `send` does not fail, because the receiver lives until the run has ended.
            let _ = sender.send(output.bits);
        })
        .await?;

        // The path can be read only while the link exists. The counters are complete only after the
        // link is closed.
        let mut path = stats.snapshot();
        why.update(&*chooser, &path.path);
        outcome.closing.wait().await;
        path.bytes_sent = stats.bytes_sent();
        path.bytes_received = stats.bytes_received();
        Ok(Results {
            evaluations: Evaluation::all(&self.program, outputs.try_iter()),
            report: Report {
                role,
                reason: why.reason,
                selection: why.selection,
                scheme,
                link: info,
                path,
                session: outcome.report,
                and_gates: self.program.and_count(),
                xor_gates: self.program.xor_count(),
                batch,
            },
        })
    }
}

/// Plans the run again for the scheme and the path that are known now. Planning may compute for
/// milliseconds, so it runs on a thread for blocking work.
async fn plan_again(
    mut session: Session,
    run: RunId,
    config: Config,
    path: Option<KnownPath>,
) -> Result<Session, SessionError> {
    let planning = move || {
        session.prefer_scheme(run, config.scheme)?;
        if let Some(path) = path {
            session.set_path(run, path)?;
        }
        Ok(session)
    };
    let planned = spawn_blocking(planning).await;
    planned.unwrap_or(Err(SessionError::Cancelled))
}
