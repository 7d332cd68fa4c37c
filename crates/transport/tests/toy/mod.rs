//! A transport through memory, written as a third party would write one, with faults to order.
//!
//! It only claims to encrypt: identities are exchanged as claims, which is enough to check who is refused.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
};
use transpute_transport::{
    Fingerprint, Link, LinkInfo, LinkTimings, Listener, PathProbe, PathSample, Security, Transport,
    TransportError,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    None,
    FlipsABit,
    IgnoresFlush,
    IgnoresShutdown,
    BuffersEverything,
    HidesTruncation,
    ListenerTrustsAnyone,
    ConnectorTrustsAnyone,
    IgnoresMode,
    StatisticsHoldTheLink,
}

pub(crate) struct Toy {
    fault: Fault,
    ports: Arc<Mutex<HashMap<String, mpsc::Sender<Knock>>>>,
}

impl Toy {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            ports: Arc::default(),
        }
    }
}

/// What a connector says of itself, and its end of the pipe for the listener.
struct Knock {
    claim: Option<Fingerprint>,
    pipe: DuplexStream,
    closed: [Arc<AtomicBool>; 2],
    answer: oneshot::Sender<Result<Option<Fingerprint>, TransportError>>,
    /// Sent when the connector accepts the listener's claim.
    confirmed: oneshot::Receiver<()>,
}

fn claim(security: &Security) -> Option<Fingerprint> {
    match security {
        Security::Tls { identity, .. } => Some(identity.fingerprint()),
        _ => None,
    }
}

fn trusts(security: &Security, found: Fingerprint) -> Result<(), TransportError> {
    match security {
        Security::Tls { peers, .. } if !peers.contains(&found) => Err(TransportError::WrongPeer {
            expected: peers.clone(),
            found,
        }),
        _ => Ok(()),
    }
}

fn mismatch() -> TransportError {
    TransportError::SecurityMismatch {
        ours: "one thing",
        theirs: "another",
    }
}

#[async_trait]
impl Transport for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn describe(&self) -> &'static str {
        "through memory"
    }

    async fn listen(
        &self,
        _: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        let (sender, knocks) = mpsc::channel(16);
        let mut ports = self.ports.lock().unwrap();
        let address = format!("toy:{}", ports.len() + 1);
        ports.insert(address.clone(), sender);
        Ok(Box::new(ToyListener {
            fault: self.fault,
            address,
            knocks,
            security: security.clone(),
        }))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let nobody = || TransportError::Connect {
            address: address.into(),
            source: io::ErrorKind::ConnectionRefused.into(),
        };
        let port = self.ports.lock().unwrap().get(address).cloned();
        let capacity = match self.fault {
            Fault::BuffersEverything => 64 << 20,
            _ => 64 << 10,
        };
        let (pipe, theirs) = tokio::io::duplex(capacity);
        let closed = [Arc::default(), Arc::default()];
        let (answer, answered) = oneshot::channel();
        let (confirm, confirmed) = oneshot::channel();
        let knock = Knock {
            claim: claim(security),
            pipe: theirs,
            closed: closed.clone(),
            answer,
            confirmed,
        };
        port.ok_or_else(nobody)?
            .send(knock)
            .await
            .map_err(|_| nobody())?;
        let peer = answered.await.map_err(|_| nobody())??;
        if let Some(found) = peer
            && self.fault != Fault::ConnectorTrustsAnyone
        {
            trusts(security, found)?;
        }
        let _ = confirm.send(());
        let [near, far] = closed;
        Ok(link(self.fault, pipe, near, far, address, peer))
    }
}

struct ToyListener {
    fault: Fault,
    address: String,
    knocks: mpsc::Receiver<Knock>,
    security: Security,
}

#[async_trait]
impl Listener for ToyListener {
    fn local_address(&self) -> String {
        self.address.clone()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        loop {
            let knock = self
                .knocks
                .recv()
                .await
                .ok_or_else(|| TransportError::Accept {
                    address: self.address.clone(),
                    source: io::ErrorKind::NotConnected.into(),
                })?;
            let own = claim(&self.security);
            let verdict = match knock.claim {
                claim if claim.is_some() != own.is_some() => match self.fault {
                    Fault::IgnoresMode => Ok(()),
                    _ => Err(mismatch()),
                },
                Some(_) if self.fault == Fault::ListenerTrustsAnyone => Ok(()),
                Some(found) => {
                    trusts(&self.security, found).map_err(|_| TransportError::PeerRefusedUs {
                        alert: "not you".into(),
                    })
                }
                None => Ok(()),
            };
            let welcome = verdict.is_ok();
            let _ = knock.answer.send(verdict.map(|()| own));
            if welcome && knock.confirmed.await.is_ok() {
                let [far, near] = knock.closed;
                let address = &self.address;
                return Ok(link(
                    self.fault,
                    knock.pipe,
                    near,
                    far,
                    address,
                    knock.claim,
                ));
            }
        }
    }
}

fn link(
    fault: Fault,
    pipe: DuplexStream,
    near: Arc<AtomicBool>,
    far: Arc<AtomicBool>,
    address: &str,
    peer: Option<Fingerprint>,
) -> Link {
    let (reader, writer) = tokio::io::split(pipe);
    let held = Arc::new(Mutex::new(writer));
    let probe: Option<Arc<dyn PathProbe>> = (fault == Fault::StatisticsHoldTheLink)
        .then(|| Arc::new(Holding(Arc::clone(&held))) as Arc<dyn PathProbe>);
    let reader = ToyReader {
        reader,
        completed: far,
        detects_truncation: peer.is_some() && fault != Fault::HidesTruncation,
    };
    let writer = ToyWriter {
        writer: held,
        fault,
        completed: near,
        position: 0,
        kept: Vec::new(),
    };
    let info = LinkInfo {
        transport: "toy",
        local_address: address.into(),
        peer_address: address.into(),
        peer_fingerprint: peer,
        encrypted: peer.is_some(),
        cipher: None,
        timings: LinkTimings::default(),
    };
    Link::new(reader, writer, info, probe)
}

type SharedWriter = Arc<Mutex<WriteHalf<DuplexStream>>>;

struct Holding(SharedWriter);

impl PathProbe for Holding {
    fn sample(&self) -> PathSample {
        let _ = &self.0;
        PathSample::default()
    }
}

struct ToyReader {
    reader: ReadHalf<DuplexStream>,
    completed: Arc<AtomicBool>,
    detects_truncation: bool,
}

impl AsyncRead for ToyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        let ended = buf.filled().len() == before;
        if ended && self.detects_truncation && !self.completed.load(Ordering::SeqCst) {
            return Poll::Ready(Err(TransportError::Truncated.into_io()));
        }
        Poll::Ready(Ok(()))
    }
}

struct ToyWriter {
    writer: SharedWriter,
    fault: Fault,
    completed: Arc<AtomicBool>,
    position: usize,
    kept: Vec<u8>,
}

impl AsyncWrite for ToyWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        const KEPT: usize = 4096;
        const FLIPPED: usize = 100_000;
        if self.fault == Fault::IgnoresFlush && self.kept.len() + buf.len() <= KEPT {
            self.kept.extend_from_slice(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        let this = &mut *self;
        let mut writer = this.writer.lock().unwrap();
        while !this.kept.is_empty() {
            let written = ready!(Pin::new(&mut *writer).poll_write(cx, &this.kept))?;
            this.kept.drain(..written);
        }
        let mut changed = Vec::new();
        let end = this.position + buf.len();
        let mut out = buf;
        if this.fault == Fault::FlipsABit && (this.position..end).contains(&FLIPPED) {
            changed.extend_from_slice(buf);
            changed[FLIPPED - this.position] ^= 0x10;
            out = &changed;
        }
        let written = ready!(Pin::new(&mut *writer).poll_write(cx, out))?;
        this.position += written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.fault == Fault::IgnoresShutdown {
            return Poll::Ready(Ok(()));
        }
        self.completed.store(true, Ordering::SeqCst);
        Pin::new(&mut *self.writer.lock().unwrap()).poll_shutdown(cx)
    }
}
