//! Candidates of transports that do not share the ports of `auto`. Each of these transports listens
//! on its own port. The offer of the listening side contains the port number.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{
    NAME,
    candidate::{
        self, AcceptResult, Candidate, CandidateListener, Established, Place, Port, Target, Updates,
    },
    pick::Accepted,
};
use crate::{
    HandshakeError, Link, LinkReader, LinkStats, LinkWriter, Listener, PathProbe, PathSample,
    Transport, TransportError, link::LinkHalves, listening::PortListener, security::Security,
};

/// Maximum number of accepted links whose peers have not yet chosen a link. At this number, the
/// listener accepts no further link. The value equals the handshake limit of the TCP transport.
const MAX_CHOOSING: usize = 64;

/// Time within which the peer must choose an accepted link. After it, the listener closes the link.
/// The value equals the handshake timeout of the TCP transport.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(5);

/// The candidate of a transport with a separate port.
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

    async fn listen(&self, place: Place) -> Result<CandidateListener, TransportError> {
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

/// The listener of a transport, with the accepted links whose peers have not chosen yet.
struct OwnPortListener {
    name: &'static str,
    listener: Box<dyn Listener>,
    is_broken: bool,
    choosing: JoinSet<Result<Option<Accepted>, TransportError>>,
    security: Security,
}

#[async_trait]
impl PortListener<AcceptResult> for OwnPortListener {
    fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// Returns the next link that its peer has chosen. Never returns an error. After the listener
    /// has failed, it still returns links that were accepted before, and then waits forever. So the
    /// other transports of `auto` keep listening.
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

/// Checks that a link is encrypted and authenticated as requested. A transport of another crate
/// might ignore the request.
///
/// # Errors
/// Returns [`HandshakeError::NotTranspute`](crate::HandshakeError::NotTranspute).
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

/// Splits a link into its parts, so that the parties can exchange the choice of the link on them.
/// The parts of the chosen link are then joined into the link that the user gets.
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

/// Path measurements that come from the statistics of the underlying link.
struct Counted(LinkStats);

impl PathProbe for Counted {
    fn sample(&self) -> PathSample {
        self.0.snapshot().path
    }
}
