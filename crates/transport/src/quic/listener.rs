//! The listening end: many strangers may knock at once, and none of them keeps a peer waiting.
//!
//! Handshakes run in their own tasks, a bounded number of them, each with a deadline. When half of the places are
//! taken, whoever knocks has to show first that it can be reached at the address it gives, so that forged addresses
//! take no places; so has whoever failed before. Knocks are taken up only while somebody waits in `accept`.

use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Instant};

use async_trait::async_trait;
use noq::{Connecting, Endpoint, Incoming, Runtime};

use super::{
    QuicOptions, config,
    explain::{self, During},
    handshake::{self, Context, Pinning},
    socket,
};
use crate::{
    Link, Listener, Security, TransportError, handshakes::Handshakes, tcp::address,
    throttle::Throttle,
};

pub(super) struct QuicListener {
    endpoint: Endpoint,
    local: SocketAddr,
    options: QuicOptions,
    pinning: Pinning,
    handshakes: Handshakes<Outcome>,
    /// Those whose handshake failed before they had shown that they can be reached, latest last. The library sends no
    /// word of the reason to such an address; when they knock again, they have to show it, and are told.
    untold: VecDeque<SocketAddr>,
    log: Throttle,
}

struct Outcome {
    peer: SocketAddr,
    reachable: bool,
    result: Result<Link, TransportError>,
}

/// How many of those that failed are remembered.
const MAX_UNTOLD: usize = 64;

impl QuicListener {
    pub(super) async fn bind(
        address: &str,
        security: &Security,
        options: QuicOptions,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, TransportError> {
        let config = config::server(&options, security)?;
        let addresses = address::resolve(address).await?;
        let listen_error = |source| TransportError::Listen {
            address: address.into(),
            source,
        };
        let mut bound = Err(io::ErrorKind::AddrNotAvailable.into());
        for candidate in addresses {
            bound = socket::listening(candidate, options.socket_buffer);
            if bound.is_ok() {
                break;
            }
        }
        let endpoint = bound
            .and_then(|socket| Endpoint::new(config::endpoint(), Some(config), socket, runtime))
            .map_err(listen_error)?;
        let local = endpoint.local_addr().map_err(listen_error)?;
        Ok(Self {
            endpoint,
            local,
            pinning: Pinning::of(security),
            handshakes: Handshakes::new(options.max_handshakes),
            options,
            untold: VecDeque::new(),
            log: Throttle::new(),
        })
    }

    fn begin(&mut self, incoming: Incoming) {
        let crowded = self.handshakes.len() >= self.options.max_handshakes.div_ceil(2);
        let peer = canonical(incoming.remote_address());
        let reachable = incoming.remote_address_validated();
        if (crowded || self.untold.contains(&peer)) && !reachable && incoming.may_retry() {
            // Cannot fail: it may.
            let _ = incoming.retry();
            return;
        }
        let local = match incoming.local_ip() {
            Some(ip) => SocketAddr::new(ip.to_canonical(), self.local.port()),
            None => self.local,
        };
        let context = Context {
            started: Instant::now(),
            local,
            peer,
            connect: None,
            timeout: self.options.handshake_timeout,
            streams: self.options.streams(),
            pinning: self.pinning,
        };
        let connecting = match incoming.accept() {
            Ok(connecting) => connecting,
            Err(error) => {
                self.turned_away(peer, &explain::connection(&error, During::Handshake));
                return;
            }
        };
        self.handshakes
            .begin(peer.ip(), authenticate(connecting, context, reachable));
    }

    fn finished(&mut self, outcome: Outcome) -> Option<Link> {
        let Outcome {
            peer,
            reachable,
            result,
        } = outcome;
        self.untold.retain(|known| *known != peer);
        match result {
            Ok(link) => {
                tracing::debug!(%peer, "accepted a link");
                Some(link)
            }
            Err(error) => {
                if !reachable {
                    self.untold.push_back(peer);
                    if self.untold.len() > MAX_UNTOLD {
                        self.untold.pop_front();
                    }
                }
                self.turned_away(peer, &error);
                None
            }
        }
    }

    fn turned_away(&mut self, peer: SocketAddr, error: &TransportError) {
        if let Some(not_shown) = self.log.admit(Instant::now()) {
            tracing::warn!(%peer, %error, not_shown, "turned a stranger away");
        }
    }
}

async fn authenticate(connecting: Connecting, context: Context, reachable: bool) -> Outcome {
    Outcome {
        peer: context.peer,
        reachable,
        result: handshake::authenticate(connecting, context).await,
    }
}

/// An IPv4 peer of a socket for both families.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[async_trait]
impl Listener for QuicListener {
    fn local_address(&self) -> String {
        address::reachable(self.local).to_string()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        loop {
            // Every branch is cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.next() => {
                    if let Some(link) = self.finished(outcome) {
                        return Ok(link);
                    }
                }
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.begin(incoming),
                    None => return Err(TransportError::Accept {
                        address: self.local.to_string(),
                        source: io::Error::new(io::ErrorKind::NotConnected, "the UDP socket broke"),
                    }),
                },
            }
        }
    }
}

impl Drop for QuicListener {
    fn drop(&mut self) {
        // The endpoint goes on for the links that were accepted, and answers nobody else.
        self.endpoint.set_server_config(None);
    }
}
