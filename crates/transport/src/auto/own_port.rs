//! Transports that do not share the ports of `auto`: each listens on a port of its own, which the
//! offer states.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{
    NAME,
    candidate::{
        self, AcceptResult, Candidate, Established, Place, Port, PortListener, Target, Updates,
    },
    pick::Accepted,
};
use crate::{
    HandshakeError, Link, LinkReader, LinkStats, LinkWriter, Listener, PathProbe, PathSample,
    Transport, TransportError, link::LinkHalves, security::Security,
};

/// Maximum number of links that wait for a choice, like handshakes of the TCP transport.
const MAX_CHOOSING: usize = 64;

/// Time for a peer to choose a link, like a handshake of the TCP transport.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(5);

/// A transport with a port of its own.
pub(super) struct OwnPort(pub(super) Arc<dyn Transport>);

#[async_trait]
impl Candidate for OwnPort {
    fn transports(&self) -> Vec<&'static str> {
        vec![self.0.name()]
    }

    fn port(&self) -> Port {
        Port::Own
    }

    async fn open(&self, target: Target, updates: &Updates) -> Result<(), TransportError> {
        let link = self.0.connect(&target.address, &target.security).await?;
        check(&link, &target.security)?;
        let path = link.stats().snapshot().path;
        let connection = Established::new(bare(link), self.0.name(), NAME);
        updates.up(connection, path, None, true);
        Ok(())
    }

    async fn listen(&self, place: Place) -> Result<Box<dyn PortListener>, TransportError> {
        let listener = self.0.listen(&place.address, &place.security).await?;
        Ok(Box::new(OwnPortListener {
            name: self.0.name(),
            listener,
            is_broken: false,
            choosing: JoinSet::new(),
            security: place.security,
        }))
    }
}

/// The listener of a transport, and links whose peers have not chosen yet.
struct OwnPortListener {
    name: &'static str,
    listener: Box<dyn Listener>,
    is_broken: bool,
    choosing: JoinSet<Result<Option<Accepted>, TransportError>>,
    security: Security,
}

#[async_trait]
impl PortListener for OwnPortListener {
    fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// It never returns if the listener has failed, so that the others continue.
    async fn next(&mut self) -> Result<AcceptResult, TransportError> {
        loop {
            let accepts = !self.is_broken && self.choosing.len() < MAX_CHOOSING;
            tokio::select! {
                Some(chosen) = self.choosing.join_next() => match chosen {
                    Ok(Ok(None)) | Err(_) => {}
                    Ok(Ok(accepted)) => return Ok(accepted),
                    Ok(Err(error)) => self.reject(&error),
                },
                link = self.listener.accept(), if accepts => match link {
                    Ok(link) => match check(&link, &self.security) {
                        Ok(()) => {
                            let name = self.name;
                            let bare = bare(link);
                            self.choosing.spawn(async move {
                                candidate::picked(bare, name, NAME, CHOICE_TIMEOUT).await
                            });
                        }
                        Err(error) => self.reject(&error),
                    },
                    Err(error) => {
                        tracing::warn!(name = self.name, %error, "a transport has stopped listening");
                        self.is_broken = true;
                    }
                },
                else => std::future::pending().await,
            }
        }
    }
}

impl OwnPortListener {
    fn reject(&self, error: &TransportError) {
        tracing::warn!(name = self.name, %error, "rejected a link");
    }
}

/// Checks that a link has the requested protection, which a transport of another crate must not
/// weaken.
///
/// # Errors
/// [`HandshakeError::NotTranspute`](crate::HandshakeError::NotTranspute).
fn check(link: &Link, security: &Security) -> Result<(), TransportError> {
    let info = link.info();
    let is_protected = match security {
        Security::Tls { peers, .. } => {
            info.encrypted && info.peer_fingerprint.is_some_and(|it| peers.contains(&it))
        }
        Security::Unpinned { .. } => info.encrypted,
        Security::Plaintext => true,
    };
    match is_protected {
        true => Ok(()),
        false => Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: format!(
                "its link of {} is not protected as this side asks",
                info.transport
            ),
        })),
    }
}

/// Splits a link, to exchange messages with the peer before it is returned to the user.
fn bare(link: Link) -> LinkHalves<LinkReader, LinkWriter> {
    let (info, probe) = (link.info().clone(), Arc::new(Counted(link.stats())));
    let (reader, writer) = link.into_parts();
    LinkHalves {
        reader,
        writer,
        info,
        probe,
    }
}

/// The path of a link, as its own statistics report it.
struct Counted(LinkStats);

impl PathProbe for Counted {
    fn sample(&self) -> PathSample {
        self.0.snapshot().path
    }
}
