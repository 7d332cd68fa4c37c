//! The transport `auto`: connects over several transports at once, looks at the path, and goes on with the best one.
//!
//! | module | idea |
//! | --- | --- |
//! | `known` | what has come up so far, as an estimate of the path and candidates with what is left of their set-up |
//! | `decide` | the next report is waited for only as long as it could change the choice by more than it costs |
//! | `kernel` | what TCP may do on this machine |
//! | `work` | what the link is for, as far as that depends on what the listener says of itself |
//!
//! Each candidate that comes up tells something about the path: QUIC after one round trip that UDP passes, the control
//! connection after two the kernel's view, reliable UDP after three the rates and the loss of both directions. Whether to
//! wait for more is asked of the [`Chooser`] with everything that is known ([`Chooser::settlement`]), so that small work goes
//! over what is up first. A choice costs no round trip: the session begins right behind it.

mod decide;
mod kernel;
mod known;
mod work;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde::Serialize;
use transpute_transport::{
    Link, Listener, Security, Transport, TransportError,
    auto::{AutoListener, AutoOptions, Offer},
};

use self::work::Work;
use crate::{
    Cache, Choice, Chooser, End, ModelChooser, PathEstimate, SelectError, Settlement, Spec,
    Workload,
};

/// What is taken on if nobody says what the link is for: a megabyte each way would be no reason to probe for long.
const UNKNOWN_WORK: u64 = 1_000_000;

/// Measures the path to a peer, chooses one of several transports for a workload, and connects with it.
///
/// As a [`Transport`] it is named `auto`. If both sides use it, the connecting side chooses, among what the listening side
/// [offers](Self::offering). If the other side uses one of these transports by its name, that one is used; this needs TLS.
#[derive(Clone)]
pub struct Auto {
    chooser: Arc<dyn Chooser>,
    work: Work,
    candidates: Option<Vec<Spec>>,
    offer: Offer,
    options: AutoOptions,
    paths: Arc<Paths>,
}

/// Paths measured before.
#[derive(Default)]
struct Paths {
    cache: Mutex<Cache>,
    file: Option<PathBuf>,
}

/// How a transport was chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Selection {
    /// What was known of the path.
    pub path: PathEstimate,
    /// What the link was taken to be for.
    pub workload: Workload,
    /// The choice, with the predictions for all candidates.
    pub choice: Choice,
    /// What knowing more could have brought.
    pub settlement: Settlement,
    /// Transports that were chosen before and failed, and how.
    pub failed: Vec<(Spec, String)>,
    /// From the start of connecting to the choice, in seconds: the part of it that the transport chosen did not need
    /// for itself is the price of probing.
    pub decided_after_s: f64,
}

impl Auto {
    /// The name by which the registry knows this transport.
    pub const NAME: &'static str = "auto";

    /// Chooses by the shipped model for a workload.
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        Self {
            chooser: Arc::new(ModelChooser::default()),
            work: Work::of(workload),
            candidates: None,
            offer: Offer::all(),
            options: AutoOptions::default(),
            paths: Arc::default(),
        }
    }

    /// Says what the link is for.
    #[must_use]
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.work = Work::of(workload);
        self
    }

    /// Connecting, says again what the link is for when the listener's message is there: the words of its
    /// [offer](Offer::blob), such as how fast its machine is. They may be any of at most 1,024 bytes; what `adapt` makes nothing of,
    /// by `None`, leaves the workload as it was. A listener that says nothing is not asked about.
    ///
    /// [`with_workload`](Self::with_workload) takes this back.
    #[must_use]
    pub fn adapting(
        mut self,
        adapt: impl Fn(&[u8]) -> Option<Workload> + Send + Sync + 'static,
    ) -> Self {
        self.work = self.work.adapting(Arc::new(adapt));
        self
    }

    /// Chooses by something else.
    #[must_use]
    pub fn with_chooser(mut self, chooser: Arc<dyn Chooser>) -> Self {
        self.chooser = chooser;
        self
    }

    /// Connecting, chooses among these only; in their order where nothing else decides. By default: what this machine has of
    /// `tcp`, `rudp`, `quic`, `tcp-striped`, and the first and the last with congestion control `cubic` and `bbr`, if that is
    /// not what they have anyway.
    #[must_use]
    pub fn among(mut self, candidates: Vec<Spec>) -> Self {
        self.candidates = Some(candidates);
        self
    }

    /// Listening, allows only what is in the offer.
    #[must_use]
    pub fn offering(mut self, offer: Offer) -> Self {
        self.offer = offer;
        self
    }

    /// Listening, says this to whoever connects, unless the offer says something already: see [`Offer::saying`].
    ///
    /// # Errors
    /// [`TransportError::TooLong`] if it has more than 1,024 bytes.
    pub fn saying(mut self, words: impl Into<Vec<u8>>) -> Result<Self, TransportError> {
        if self.offer.blob().is_empty() {
            self.offer = self.offer.saying(words)?;
        }
        Ok(self)
    }

    /// Sets how the candidates are connected.
    #[must_use]
    pub fn with_options(mut self, options: AutoOptions) -> Self {
        self.options = options;
        self
    }

    /// Keeps what was measured in this file, for the next process. A file that cannot be used is passed over with a warning.
    #[must_use]
    pub fn remembering(mut self, file: PathBuf) -> Self {
        self.paths = Arc::new(Paths {
            cache: Mutex::new(Cache::load(&file)),
            file: Some(file),
        });
        self
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
        decide::connect(self, address, security).await
    }

    /// Measures the path as far as the set-up of the candidates does, and chooses for nothing: the link is dropped.
    ///
    /// # Errors
    /// Those of [`Transport::connect`] if nothing came up.
    pub async fn probe(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Probed, TransportError> {
        decide::probe(self, address, security).await
    }
}

/// A path and what could be used on it.
#[derive(Clone, Debug, Serialize)]
pub struct Probed {
    /// The path.
    pub path: PathEstimate,
    /// What may be chosen, with all of its set-up to come, and what cannot be used and why.
    #[serde(skip)]
    pub candidates: Vec<crate::Candidate>,
    /// What the listener said to the layer above.
    #[serde(skip)]
    pub said: Vec<u8>,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

impl Default for Auto {
    /// For work of unknown size.
    fn default() -> Self {
        // Within the bounds of a workload.
        let workload = Workload::transfer(End::Listener, UNKNOWN_WORK);
        Self::new(workload.unwrap_or_else(|_| unreachable!()))
    }
}

impl Paths {
    fn get(&self, peer: &str, address: &str, rtt_s: f64, now_unix_ms: u64) -> Option<PathEstimate> {
        self.lock().get(peer, address, rtt_s, now_unix_ms)
    }

    fn put(&self, peer: &str, address: &str, path: &PathEstimate) {
        let mut cache = self.lock();
        cache.put(peer, address, path);
        let saved = match &self.file {
            Some(file) => cache.save(file),
            None => Ok(()),
        };
        if let Err(error) = saved {
            tracing::warn!(%error, "cannot keep what was measured of the path");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        // A cache is as good as ever after a panic between two of its changes.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "whichever of tcp, tcp-striped, quic and rudp is predicted to be fastest on the path; needs TCP, and UDP on the \
         same port for the last two"
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
            .field("workload", &self.work.stated())
            .field("candidates", &self.candidates)
            .field("offer", &self.offer)
            .finish_non_exhaustive()
    }
}

/// A chooser that cannot choose leaves nothing to connect with.
fn no_choice(error: SelectError) -> TransportError {
    TransportError::from_io(std::io::Error::other(error))
}
