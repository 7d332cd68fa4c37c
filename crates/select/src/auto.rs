//! The transport `auto`: connects over several transports at once, and goes on with the one that the chooser wants.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use transpute_transport::{
    Link, Listener, Security, Transport, TransportError,
    auto::{self, AutoListener, AutoOptions, Connections, Offer},
};

use crate::{
    Candidate, Choice, Chooser, End, Kernel, PathEstimate, Rule, SelectError, Spec, Workload,
    observe,
    policy::{self, Chosen},
};

/// Bytes that are assumed to be transferred if nobody says.
const UNKNOWN_WORK: u64 = 1_000_000;

/// Measures the path to a peer, chooses one of several transports for a workload, and connects with it.
///
/// As a [`Transport`] it is named `auto`. If both sides use it, the connecting side chooses, among what the listening side
/// [offers](Self::offering). If the other side uses one of these transports by its name, that one is used; this needs TLS.
#[derive(Clone)]
pub struct Auto {
    chooser: Arc<dyn Chooser>,
    workload: Workload,
    candidates: Option<Vec<Spec>>,
    offer: Offer,
    options: AutoOptions,
}

/// How a transport was chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Selection {
    /// The path as it was measured.
    pub path: PathEstimate,
    /// The workload that the link was assumed to be for.
    pub workload: Workload,
    /// The choice, with the predictions for all candidates.
    pub choice: Choice,
    /// Transports that were chosen before and failed, and how.
    pub failed: Vec<(Spec, String)>,
    /// From the start of connecting to the choice, in seconds.
    pub decided_after_s: f64,
}

/// A path and the transports that could be used on it.
#[derive(Clone, Debug, Serialize)]
pub struct Probed {
    /// The path.
    pub path: PathEstimate,
    /// All candidates, and why some cannot be used.
    #[serde(skip)]
    pub candidates: Vec<Candidate>,
    /// Duration of the measurement.
    #[serde(skip)]
    pub took: Duration,
}

impl Auto {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "auto";

    /// Chooses by the [rule](Rule) for a workload.
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        Self {
            chooser: Arc::new(Rule),
            workload,
            candidates: None,
            offer: Offer::all(),
            options: AutoOptions::default(),
        }
    }

    /// Sets the workload that the link is for.
    #[must_use]
    pub fn with_workload(self, workload: Workload) -> Self {
        Self { workload, ..self }
    }

    /// Sets the chooser.
    #[must_use]
    pub fn with_chooser(self, chooser: Arc<dyn Chooser>) -> Self {
        Self { chooser, ..self }
    }

    /// When connecting, chooses among these only. Default: `tcp`, `rudp`, `quic`, `tcp-striped`, and the first and the last with
    /// each of the congestion controls `cubic` and `bbr` that this machine has besides its default.
    #[must_use]
    pub fn among(self, candidates: Vec<Spec>) -> Self {
        Self {
            candidates: Some(candidates),
            ..self
        }
    }

    /// When listening, allows only these transports.
    #[must_use]
    pub fn offering(self, offer: Offer) -> Self {
        Self { offer, ..self }
    }

    /// Sets the options of the connections.
    #[must_use]
    pub fn with_options(self, options: AutoOptions) -> Self {
        Self { options, ..self }
    }

    /// Connects to a listener that uses `auto` too, and tells how the transport was chosen.
    ///
    /// # Errors
    /// Those of [`Transport::connect`], of the last transport that was tried.
    pub async fn select(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<(Link, Selection), TransportError> {
        let kernel = Kernel::of_this_machine();
        let specs = self.specs(&kernel);
        let chosen = Chosen {
            chooser: &*self.chooser,
            workload: &self.workload,
            specs: &specs,
            kernel: &kernel,
        };
        let won = auto::race(address, security, self.options(&specs), &chosen).await?;
        // What is up has made a round trip.
        let (path, choice) = (chosen.choose(&won.progress)).ok_or_else(not_measured)?;
        let selection = Selection {
            path,
            workload: self.workload,
            choice: choice.map_err(no_choice)?,
            failed: (won.failed.iter())
                .filter_map(|(pick, why)| Some((pick.to_string().parse().ok()?, why.clone())))
                .collect(),
            decided_after_s: won.progress.elapsed.as_secs_f64(),
        };
        tracing::info!(
            transport = %won.pick,
            reason = selection.choice.reason,
            path = %selection.path,
            after = ?won.progress.elapsed,
            "chose a transport"
        );
        Ok((won.link, selection))
    }

    /// Measures the path as far as the set-up of the candidates does; the connections are dropped.
    ///
    /// # Errors
    /// Those of [`Transport::connect`] if nothing came up.
    pub async fn probe(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Probed, TransportError> {
        let kernel = Kernel::of_this_machine();
        let specs = self.specs(&kernel);
        let progress = auto::probe(address, security, self.options(&specs)).await?;
        Ok(Probed {
            path: observe::path(&progress, &kernel).ok_or_else(not_measured)?,
            candidates: (policy::candidates(&specs, &progress).into_iter())
                // As for a run to come: its connections are not up yet.
                .map(|candidate| Candidate {
                    is_up: false,
                    ..candidate
                })
                .collect(),
            took: progress.elapsed,
        })
    }

    fn specs(&self, kernel: &Kernel) -> Vec<Spec> {
        (self.candidates.clone()).unwrap_or_else(|| usual(kernel))
    }

    fn options(&self, specs: &[Spec]) -> AutoOptions {
        let wants = |name: &str| specs.iter().any(|spec| spec.name() == name);
        let mut options = self.options;
        options.connections = Connections {
            tcp: wants("tcp") || wants("tcp-striped"),
            quic: wants("quic"),
            rudp: wants("rudp"),
        };
        options
    }
}

/// Returns the candidates of `auto` if nobody names any.
fn usual(kernel: &Kernel) -> Vec<Spec> {
    let others: Vec<&str> = ["cubic", "bbr"]
        .into_iter()
        .filter(|name| kernel.congestion_control.as_deref() != Some(name))
        .filter(|name| kernel.available.iter().any(|known| known == name))
        .collect();
    let with = |transport: &str| -> Vec<String> {
        (others.iter().map(|name| format!("{transport}:cc={name}"))).collect()
    };
    let names = [
        ["tcp", "rudp", "quic"].map(str::to_owned).to_vec(),
        with("tcp"),
        vec!["tcp-striped".to_owned()],
        with("tcp-striped"),
    ];
    // All of them are well-formed.
    (names.iter().flatten())
        .filter_map(|name| name.parse().ok())
        .collect()
}

impl Default for Auto {
    /// For work of unknown size.
    fn default() -> Self {
        // Within the bounds of a workload.
        let workload = Workload::transfer(End::Listener, UNKNOWN_WORK);
        Self::new(workload.unwrap_or_else(|_| unreachable!()))
    }
}

#[async_trait]
impl Transport for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "the best of tcp, tcp-striped, quic and rudp for the path and the work; the last two need UDP on the port of TCP"
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let offer = self.offer.clone();
        let listener = AutoListener::bind(address, security, offer, self.options).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let (link, _) = self.select(address, security).await?;
        Ok(link)
    }
}

impl fmt::Debug for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auto")
            .field("chooser", &self.chooser.name())
            .field("workload", &self.workload)
            .field("candidates", &self.candidates)
            .field("offer", &self.offer)
            .finish_non_exhaustive()
    }
}

fn not_measured() -> TransportError {
    TransportError::from_io(std::io::Error::other("no round trip was measured"))
}

/// Converts the error of a chooser that cannot choose.
fn no_choice(error: SelectError) -> TransportError {
    TransportError::from_io(std::io::Error::other(error))
}
