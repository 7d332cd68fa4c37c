//! The transport `auto`: connects over several transports at once, and goes on with the one that the chooser wants.

mod kernel;
mod policy;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use transpute_select::{
    Candidate, Choice, Chooser, End, Kernel, PathEstimate, Rule, SelectError, Spec, Workload,
};
use transpute_transport::{
    Link, Listener, PathSample, Registry, Security, Throughput, Transport, TransportError,
    auto::{self, AutoListener, AutoOptions, Offer},
};

use self::policy::Chosen;

/// Bytes that are assumed to be transferred if nobody says.
const UNKNOWN_WORK: u64 = 1_000_000;

/// Returns the transports of this program. The library, the command, the testbed and the web UI take their lists from it: a transport
/// that is added here is found by its name everywhere, and `auto` chooses it if it has a [`Profile`](transpute_transport::Profile).
#[must_use]
pub fn registry() -> Registry {
    Registry::with_builtins()
}

/// Measures the path to a peer, chooses one of several transports for a workload, and connects with it.
///
/// As a [`Transport`] it is named `auto`. If both sides use it, the connecting side chooses, among what the listening side
/// [offers](Self::offer). If the other side uses one of these transports by its name, that one is used; this needs TLS.
#[derive(Clone, Debug)]
pub struct Auto {
    /// The chooser. Default: the [`Rule`].
    pub chooser: Arc<dyn Chooser>,
    /// The workload that the link is for.
    pub workload: Workload,
    /// When connecting, chooses among these only. Default: all of the registry that have a profile and repair losses. Those over the
    /// kernel's TCP also come with each of the congestion controls `cubic` and `bbr` that this machine has besides its default.
    pub candidates: Option<Vec<Spec>>,
    /// When listening, allows only these transports.
    pub offer: Offer,
    /// Times to wait when connecting.
    pub options: AutoOptions,
    /// The transports that may take part.
    pub registry: Registry,
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

impl Selection {
    /// Predicts the times again from what the link's set-up measured after the choice: reports on the trains of `rudp` may arrive
    /// some milliseconds later. The choice does not change.
    pub fn update(&mut self, chooser: &dyn Chooser, link: &PathSample) {
        for (known, train) in [
            (&mut self.path.up, link.sent_train),
            (&mut self.path.down, link.received_train),
        ] {
            if train.is_some() {
                *known = policy::direction(train);
            }
        }
        (self.choice).predict(chooser.model(), &self.path, &self.workload);
    }
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

    /// Connects to a listener that uses `auto` too, and tells how the transport was chosen.
    ///
    /// # Errors
    /// Those of [`Transport::connect`], of the last transport that was tried.
    pub async fn select(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<(Link, Selection), TransportError> {
        let kernel = kernel::of_this_machine();
        let specs = self.specs(&kernel);
        let chosen = Chosen {
            chooser: &*self.chooser,
            workload: &self.workload,
            specs: &specs,
            kernel: &kernel,
        };
        let registry = self.registry_of(&specs);
        let won = auto::race_among(address, security, self.options, &registry, &chosen).await?;
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
        let kernel = kernel::of_this_machine();
        let specs = self.specs(&kernel);
        let registry = self.registry_of(&specs);
        let progress = auto::probe_among(address, security, self.options, &registry).await?;
        Ok(Probed {
            path: policy::path(&progress, &kernel).ok_or_else(not_measured)?,
            candidates: policy::candidates(&specs, &progress),
            took: progress.elapsed,
        })
    }

    fn specs(&self, kernel: &Kernel) -> Vec<Spec> {
        (self.candidates.clone()).unwrap_or_else(|| usual(kernel, &self.registry))
    }

    /// Returns the transports of these candidates.
    fn registry_of(&self, specs: &[Spec]) -> Registry {
        let mut registry = self.registry.clone();
        registry.retain(|name| specs.iter().any(|spec| spec.name() == name));
        registry
    }
}

/// Returns the default candidates of `auto`: the transports of a registry. One that uses the kernel's TCP is listed once for each
/// usual congestion control.
fn usual(kernel: &Kernel, registry: &Registry) -> Vec<Spec> {
    let others = ["cubic", "bbr"].into_iter().filter(|&name| {
        let is_default = kernel.congestion_control.as_deref() == Some(name);
        !is_default && kernel.available.iter().any(|known| known == name)
    });
    let others: Vec<&str> = others.collect();
    let texts = registry.candidates().flat_map(|transport| {
        let name = transport.name();
        let throughput = transport.profile().map(|profile| profile.throughput);
        let controls = match throughput {
            Some(Throughput::Kernel(_)) => &others[..],
            _ => &[],
        };
        let with_controls = controls.iter().map(move |it| format!("{name}:cc={it}"));
        std::iter::once(name.to_owned()).chain(with_controls)
    });
    // A name that is no word with settings cannot be chosen.
    let specs = texts.filter_map(|text| Spec::in_registry(&text, registry).ok());
    specs.collect()
}

impl Default for Auto {
    /// For work of unknown size.
    fn default() -> Self {
        let registry = registry();
        Self {
            chooser: Arc::new(Rule),
            workload: Workload::transfer(End::Listener, UNKNOWN_WORK),
            candidates: None,
            offer: Offer::of_registry(&registry),
            options: AutoOptions::default(),
            registry,
        }
    }
}

#[async_trait]
impl Transport for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "the best transport for the path and the work; those over UDP need it on the port of TCP"
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let offer = self.offer.clone();
        let listener = AutoListener::bind_among(address, security, offer, &self.registry).await?;
        Ok(Box::new(listener))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let (link, _) = self.select(address, security).await?;
        Ok(link)
    }
}

fn not_measured() -> TransportError {
    TransportError::from_io(std::io::Error::other("no round trip was measured"))
}

/// Converts the error of a chooser that cannot choose.
fn no_choice(error: SelectError) -> TransportError {
    TransportError::from_io(std::io::Error::other(error))
}
