//! The listening end: a TCP port and a UDP port of the same number.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use async_trait::async_trait;

use super::{
    AutoOptions, NAME, Offer, Pick,
    control::{self, Doorman, Guest, Rules},
    words::Choice,
};
use crate::{
    Link, Listener, Quic, Rudp, Security, StripedOptions, TcpStriped, TransportError,
    quic::QuicListener,
    rudp::{Foreign, Listening, bind_on_both, ports},
    striped::{Founded, Gatherer, Groups, Host},
    tcp::{Acceptor, Port},
};

/// Listens for connectors that pick one of several transports.
///
/// As every [`Listener`] it takes up connections only while somebody waits for one (or a link of `tcp-striped` lacks
/// connections, for the time of a handshake at most), runs a bounded number of handshakes, and drops strangers and garbage.
pub struct AutoListener {
    control: Gatherer<ControlHost>,
    quic: Option<QuicListener<Doorman>>,
    /// Dropped last.
    _listening: Option<Listening>,
}

/// Makes links of control connections.
struct ControlHost {
    striped: TcpStriped,
}

/// A link, and what the connector said when it picked it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The link.
    pub link: Link,
    /// What was picked.
    pub pick: Pick,
    /// The connector's message to the layer above; at most 1,024 bytes.
    pub blob: Vec<u8>,
}

impl Accepted {
    pub(super) fn new(link: Link, choice: Choice) -> Self {
        Self {
            link,
            pick: choice.pick,
            blob: choice.blob,
        }
    }
}

impl AutoListener {
    /// Starts to listen on `host:port`; port 0 lets the system choose a number that is free on both.
    ///
    /// In plaintext `quic` is left out of the offer. A UDP port is opened only if something in the offer needs it.
    ///
    /// # Errors
    /// [`TransportError::InvalidAddress`], [`TransportError::Resolve`], [`TransportError::Listen`],
    /// [`TransportError::NoPinnedPeer`]; [`TransportError::NoPlaintext`] if only `quic` is offered and that in plaintext.
    pub async fn bind(
        address: &str,
        security: &Security,
        offer: Offer,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        let offer = offer.fit_for(security)?;
        let security = saying(security, &offer.encode())?;
        let named = offer.names().filter(|&name| name != Quic::NAME);
        let transports: Vec<_> = [NAME].into_iter().chain(named).collect();
        let acceptor = Acceptor::new(&security, &transports, offer.describe())?;
        bind_on_both(address, |candidate| {
            Self::bind_both(candidate, &security, &acceptor, &offer, options)
        })
        .await
    }

    async fn bind_both(
        candidate: SocketAddr,
        security: &Security,
        acceptor: &Acceptor,
        offer: &Offer,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        let listen_error = |source| TransportError::Listen {
            address: candidate.to_string(),
            source,
        };
        let (has_quic, has_rudp) = (offer.allows(Quic::NAME), offer.allows(Rudp::NAME));
        let foreign = has_quic.then(Arc::<Foreign>::default);
        let listening = if has_quic || has_rudp {
            let buffer = (options.rudp.socket_buffer).max(options.quic.socket_buffer);
            let listening = ports::listen(candidate, buffer, foreign.clone()).await;
            Some(listening.map_err(listen_error)?)
        } else {
            None
        };
        let door = (listening.as_ref()).map(|listening| Arc::clone(listening.door()));
        let local = door.as_ref().map_or(candidate, |door| door.local());
        let doorman = Doorman(Arc::new(Rules {
            acceptor: acceptor.clone(),
            offer: offer.clone(),
            door: door.clone().filter(|_| has_rudp),
            rudp: options.rudp,
        }));
        let control = Port::bind(&local.to_string(), doorman.clone(), options.tcp).await?;
        let quic = match (door, foreign) {
            (Some(door), Some(foreign)) => {
                let quic = QuicListener::beside(doorman, door, foreign, security, options.quic)?;
                Some(quic)
            }
            _ => None,
        };
        let striped = TcpStriped::new(StripedOptions {
            tcp: options.tcp,
            max_out_of_order: options.max_out_of_order,
            ..StripedOptions::default()
        });
        let groups = Groups::new(options.tcp.handshake_timeout);
        Ok(Self {
            control: Gatherer::new(control, groups, ControlHost { striped }),
            quic,
            _listening: listening,
        })
    }

    /// Waits for the next link that somebody has picked. Cancel-safe.
    ///
    /// # Errors
    /// [`TransportError::Accept`] if a listening socket itself is broken.
    pub async fn next(&mut self) -> Result<Accepted, TransportError> {
        loop {
            if let Some(accepted) = self.next_visit().await? {
                return Ok(accepted);
            }
        }
    }

    /// Waits for the next link that somebody has picked, or until somebody who was let in has gone from the control connection
    /// without picking it: `None`. He has only looked at the path, or has picked another connection, which is told apart. Cancel-safe.
    ///
    /// # Errors
    /// [`TransportError::Accept`] if a listening socket itself is broken.
    pub async fn next_visit(&mut self) -> Result<Option<Accepted>, TransportError> {
        // Both branches are cancel-safe.
        tokio::select! {
            visit = self.control.next() => Ok(visit?.map(|accepted| *accepted)),
            accepted = next_of(&mut self.quic) => Ok(Some(*accepted?)),
        }
    }
}

impl Host for ControlHost {
    type Greeter = Doorman;
    type Note = Option<Choice>;
    /// `None` if somebody has gone.
    type Visit = Option<Box<Accepted>>;

    fn receive(
        &self,
        guest: Guest,
        groups: &mut Groups<Option<Choice>>,
    ) -> Option<Option<Box<Accepted>>> {
        match guest {
            Guest::Link(accepted) => Some(Some(accepted)),
            Guest::Nobody => Some(None),
            Guest::Stranger => None,
            Guest::Stripe(stripe) => groups.add(*stripe, Instant::now(), |first, count, choice| {
                // The first of several always has one.
                let choice = choice?;
                control::apply(&first, &choice.pick);
                let (link, growth) = self.striped.begin(first, count, |first| first);
                Some(Founded {
                    growth,
                    congestion_control: choice.pick.congestion_control(),
                    visit: Some(Box::new(Accepted::new(link, choice))),
                })
            }),
        }
    }
}

async fn next_of(
    quic: &mut Option<QuicListener<Doorman>>,
) -> Result<Box<Accepted>, TransportError> {
    match quic {
        Some(quic) => quic.next().await,
        None => std::future::pending().await,
    }
}

/// Puts the offer into our certificate.
fn saying(security: &Security, offer: &[u8]) -> Result<Security, TransportError> {
    let said = |identity: &crate::Identity| {
        let identity = identity
            .saying(offer)
            .map_err(|error| TransportError::Tls {
                detail: error.to_string(),
            })?;
        Ok::<_, TransportError>(Arc::new(identity))
    };
    Ok(match security {
        Security::Tls { identity, peers } => Security::Tls {
            identity: said(identity)?,
            peers: peers.clone(),
        },
        Security::Unpinned { identity } => Security::Unpinned {
            identity: said(identity)?,
        },
        Security::Plaintext => Security::Plaintext,
    })
}

#[async_trait]
impl Listener for AutoListener {
    fn local_address(&self) -> String {
        self.control.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        Ok(self.next().await?.link)
    }
}
