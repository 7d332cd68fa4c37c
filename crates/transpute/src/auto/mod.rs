//! The transport `auto`: connects over several transports at once, and keeps the one that its
//! chooser prefers.

mod kernel;
mod policy;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
#[cfg(feature = "serde")]
use serde::Serialize;
use transpute_select::{
    Candidate, Chooser, End, Kernel, PathEstimate, Rule, SelectError, Spec, Workload,
};
use transpute_transport::{
    Link, Listener, Registry, Security, Throughput, Transport, TransportError,
    auto::{self, AutoListener, AutoOptions, Offer},
};

use self::policy::Chosen;
pub use crate::{choice::registry, selection::Selection};

/// Number of transferred bytes that [`Auto::default`] assumes for its workload.
const UNKNOWN_WORK: u64 = 1_000_000;

/// The transport `auto`: measures the path to a peer, chooses one of several transports for a
/// workload, and connects with it.
///
/// If both sides use `auto`, the connecting side chooses among the transports that the listening
/// side [offers](Self::offer). If the other side uses one of these transports by its name, that
/// transport is used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Auto {
    /// The chooser. Default: the [`Rule`].
    pub chooser: Arc<dyn Chooser>,
    /// The expected workload of the link, for the chooser.
    pub workload: Workload,
    /// The transports to choose from when connecting. Default: all transports of the registry that
    /// have a profile and repair losses. Transports over the kernel's TCP are candidates several
    /// times: with the kernel's default congestion control, and with `cubic` and `bbr` if they are
    /// available and not the default.
    pub candidates: Option<Vec<Spec>>,
    /// The transports that this side allows when listening.
    pub offer: Offer,
    /// The time limits of connecting.
    pub options: AutoOptions,
    /// The registry that contains the transports of `candidates` and `offer`.
    pub registry: Registry,
}

/// The result of [`Auto::probe`]: a measured path, and the transports that can be used on it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Probed {
    /// The measured path.
    pub path: PathEstimate,
    /// All candidates. Each that cannot be used has a reason.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub candidates: Vec<Candidate>,
    /// Duration of the measurement.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub took: Duration,
}

impl Auto {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = crate::choice::AUTO;

    /// Connects to a listener that also uses `auto`. Returns the link and the choice.
    ///
    /// # Errors
    /// The errors of [`Transport::connect`], for the transport that was tried last.
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
        // A connection is established, so a round trip was measured.
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

    /// Measures the path: connects with each candidate, and drops the connections.
    ///
    /// # Errors
    /// The errors of [`Transport::connect`] if no connection was established.
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

    /// Returns the registry, reduced to the transports of these candidates.
    fn registry_of(&self, specs: &[Spec]) -> Registry {
        let mut registry = self.registry.clone();
        registry.retain(|name| specs.iter().any(|spec| spec.name() == name));
        registry
    }
}

/// Returns the default candidates of `auto`: the transports of a registry. See
/// [`Auto::candidates`].
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
    // A transport is left out if its name is not valid in a `Spec`, which is a name with settings.
    let specs = texts.filter_map(|text| Spec::in_registry(&text, registry).ok());
    specs.collect()
}

impl Default for Auto {
    /// Returns `auto` with all transports of [`registry`], for a transfer of 1 MB.
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
