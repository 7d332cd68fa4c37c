//! Tunnels: handles, settings, and the set of live tunnels.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;
use transpute_transport::{Link, LinkInfo, LinkStats, TransportError};

use crate::{
    address::TunnelAddress,
    driver::{self, Shared},
    error::TunnelError,
    local::Local,
    pipe::{Pipe, TunnelStream},
    pump,
    sender::LinkSender,
    window,
};

/// The side of a link. The two sides use different identifiers for the streams that they open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TunnelSide {
    /// The side that connected.
    Connector,
    /// The side that listened.
    Listener,
}

impl TunnelSide {
    /// Returns the identifier of the first stream that this side opens.
    pub(crate) fn first_id(self) -> u32 {
        match self {
            Self::Connector => 1,
            Self::Listener => 2,
        }
    }

    /// Returns whether this side may open a stream with this identifier.
    pub(crate) fn owns(self, id: u32) -> bool {
        id % 2 == self.first_id() % 2
    }

    /// Returns the parity of the peer's identifiers.
    pub(crate) fn peer_parity(self) -> &'static str {
        match self {
            Self::Connector => "even",
            Self::Listener => "odd",
        }
    }
}

/// The settings of a tunnel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TunnelConfig {
    /// The targets that the peer may connect to. Default: none.
    pub allow: Vec<TunnelAddress>,
    /// Maximum number of streams on the link, in total of both sides. Default: 4,096.
    pub max_streams: usize,
    /// Maximum number of bytes by which all receive windows of this side together may exceed their
    /// initial 256 KiB each. Default: 256 MiB. This and `max_streams` bound the memory for queued
    /// bytes.
    pub window_growth: u64,
    /// Time without traffic after which this side sends a keep-alive. Default: 10 s.
    pub keep_alive: Duration,
    /// Time without received bytes after which the link is lost. It must be longer than the peer's
    /// `keep_alive`. Default: 30 s.
    pub idle_timeout: Duration,
    /// Maximum time for connecting to a target. Default: 30 s.
    pub connect_timeout: Duration,
}

impl Default for TunnelConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_streams: 4096,
            window_growth: window::POOL,
            keep_alive: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
        }
    }
}

/// The current load of a tunnel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TunnelStats {
    /// Number of open streams.
    pub streams: usize,
    /// Number of received bytes that wait for local programs.
    pub queued_bytes: usize,
    /// Number of bytes by which receive windows have grown.
    pub window_growth: u64,
}

/// A handle on a tunnel: many streams over one link. Clones use the same link.
#[derive(Clone)]
pub struct Tunnel {
    shared: Arc<Shared>,
    info: Arc<LinkInfo>,
    link_stats: LinkStats,
}

impl Tunnel {
    /// Starts a tunnel over a link. `side` states which side of the link this is. Returns a handle
    /// to open streams, and a task whose completion is the end of the tunnel.
    ///
    /// # Panics
    /// Panics if called outside a Tokio runtime with I/O and time enabled.
    #[must_use]
    pub fn start(link: Link, side: TunnelSide, config: TunnelConfig) -> (Self, TunnelTask) {
        let (info, link_stats) = (Arc::new(link.info().clone()), link.stats());
        let (reader, writer) = link.into_parts();
        let shared = Arc::new(Shared::new(LinkSender::new(writer), side, config));
        let (sender, done) = oneshot::channel();
        let running = Arc::clone(&shared);
        tokio::spawn(async move {
            // Sending fails if the task was dropped.
            let _ = sender.send(driver::run(running, reader).await);
        });
        let tunnel = Self {
            shared: Arc::clone(&shared),
            info,
            link_stats,
        };
        (tunnel, TunnelTask { done, shared })
    }

    /// Opens a stream to `target`, an address that the peer connects to. Bytes can be written
    /// before the peer has accepted the stream. If the peer refuses it, the stream is reset.
    ///
    /// # Panics
    /// Panics if called outside a Tokio runtime.
    #[must_use]
    pub fn open(&self, target: TunnelAddress) -> TunnelStream {
        let (stream, pipe) = Pipe::new();
        self.connect(Local::Pipe(pipe), target);
        stream
    }

    /// Forwards a local connection over a new stream to `target`, an address that the peer connects
    /// to.
    pub(crate) fn connect(&self, local: Local, target: TunnelAddress) {
        tokio::spawn(pump::open(Arc::clone(&self.shared), local, target));
    }

    /// Returns the description of the link.
    #[must_use]
    pub fn info(&self) -> &LinkInfo {
        &self.info
    }

    /// Returns a handle on the live statistics of the link.
    #[must_use]
    pub fn link_stats(&self) -> LinkStats {
        self.link_stats.clone()
    }

    /// Returns the current load.
    #[must_use]
    pub fn stats(&self) -> TunnelStats {
        let (streams, queued_bytes) = self.shared.load();
        TunnelStats {
            streams,
            queued_bytes,
            window_growth: self.shared.config.window_growth - self.shared.memory.pool.left(),
        }
    }

    /// Returns whether the tunnel has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !*self.shared.is_closed.borrow()
    }

    /// Ends the tunnel. All its connections are reset.
    pub fn close(&self) {
        self.shared.close.notify_one();
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("info", &self.info)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// A tunnel that runs in the background. Dropping this value ends the tunnel.
pub struct TunnelTask {
    done: oneshot::Receiver<Result<(), TunnelError>>,
    shared: Arc<Shared>,
}

impl TunnelTask {
    /// Waits for the end of the tunnel. Returns `Ok` if [`Tunnel::close`] ended it.
    ///
    /// # Errors
    /// Returns the reason for which the tunnel ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the tunnel.
    pub async fn wait(mut self) -> Result<(), TunnelError> {
        let lost = |_| Err(TransportError::from(transpute_transport::StreamError::Closed).into());
        (&mut self.done).await.unwrap_or_else(lost)
    }
}

impl Drop for TunnelTask {
    fn drop(&mut self) {
        self.shared.close.notify_one();
    }
}

impl fmt::Debug for TunnelTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelTask").finish_non_exhaustive()
    }
}

/// The open tunnels of a process. A forwarded connection uses the most recently added one. Clones
/// share the set.
#[derive(Clone, Debug, Default)]
pub struct TunnelSet(Arc<Mutex<Vec<Tunnel>>>);

impl TunnelSet {
    /// Adds a tunnel, and removes those that have ended.
    pub fn add(&self, tunnel: Tunnel) {
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.retain(Tunnel::is_open);
        tunnels.push(tunnel);
    }

    /// Returns the most recent tunnel that has not ended.
    #[must_use]
    pub fn newest(&self) -> Option<Tunnel> {
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.retain(Tunnel::is_open);
        tunnels.last().cloned()
    }

    /// Ends all tunnels of the set.
    pub fn close(&self) {
        let tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.iter().for_each(Tunnel::close);
    }
}
