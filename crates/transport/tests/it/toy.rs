//! A transport through memory, written as a third party would write it, with optional faults.
//!
//! It only claims to encrypt. Identities are exchanged as claims, which is enough to test
//! rejections.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
    time::{Instant, Sleep},
};
use transpute_transport::{
    BindError, ConnectError, Fingerprint, HandshakeError, Link, LinkInfo, Listener, PathProbe,
    PathSample, Security, StreamError, Transport, TransportError,
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
    /// A block of bytes overtakes the previous one.
    SwapsTwoBlocks,
    /// At most eight links at a time.
    FewLinks,
    /// Buffered data is lost when its sender leaves.
    ForgetsOnDrop,
    /// A dropped writer looks like one that was shut down.
    DroppedWriterEnds,
    /// While one direction waits for its reader, the other one waits too.
    StallSpreads,
    /// A cut is reported only on a link that has carried nothing.
    HidesLateTruncation,
    /// Links without pins and with them connect.
    IgnoresPinning,
}

pub(crate) struct Toy {
    fault: Fault,
    /// One token per open link.
    open: Arc<()>,
    ports: Arc<Mutex<HashMap<String, mpsc::Sender<ConnectRequest>>>>,
}

impl Toy {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            open: Arc::default(),
            ports: Arc::default(),
        }
    }
}

/// The claims of a connector, and its end of the pipe for the listener.
struct ConnectRequest {
    claim: Option<Fingerprint>,
    kind: Kind,
    pipe: DuplexStream,
    ends: [Arc<End>; 2],
    token: Arc<()>,
    answer: oneshot::Sender<Result<Option<Fingerprint>, TransportError>>,
    /// Sent when the connector accepts the listener's claim.
    confirmed: oneshot::Receiver<()>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Pinned,
    Unpinned,
    Plaintext,
}

fn kind(security: &Security) -> Kind {
    match security {
        Security::Tls { .. } => Kind::Pinned,
        Security::Unpinned { .. } => Kind::Unpinned,
        _ => Kind::Plaintext,
    }
}

/// The part of one end that the other end can see.
#[derive(Default)]
struct End {
    completed: AtomicBool,
    gone: AtomicBool,
    stalled: AtomicBool,
}

fn claim(security: &Security) -> Option<Fingerprint> {
    match security {
        Security::Tls { identity, .. } => Some(identity.fingerprint()),
        _ => None,
    }
}

fn trusts(security: &Security, found: Fingerprint) -> Result<(), TransportError> {
    match security {
        Security::Tls { peers, .. } if !peers.contains(&found) => {
            Err(TransportError::Handshake(HandshakeError::WrongPeer {
                expected: peers.clone(),
                found,
            }))
        }
        _ => Ok(()),
    }
}

fn mismatch() -> TransportError {
    TransportError::Handshake(HandshakeError::SecurityMismatch {
        ours: "one thing",
        theirs: "another",
    })
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
        let (sender, requests) = mpsc::channel(16);
        let mut ports = self.ports.lock().unwrap();
        let address = format!("toy:{}", ports.len() + 1);
        ports.insert(address.clone(), sender);
        Ok(Box::new(ToyListener {
            fault: self.fault,
            address,
            requests,
            security: security.clone(),
        }))
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        let nobody = || {
            TransportError::Connect(ConnectError::Connect {
                address: address.into(),
                source: io::ErrorKind::ConnectionRefused.into(),
            })
        };
        let port = self.ports.lock().unwrap().get(address).cloned();
        let capacity = match self.fault {
            Fault::BuffersEverything => 64 << 20,
            _ => 64 << 10,
        };
        let (pipe, theirs) = tokio::io::duplex(capacity);
        let ends = [Arc::default(), Arc::default()];
        let token = Arc::clone(&self.open);
        // One token belongs to the transport, and each link has one on either side.
        if self.fault == Fault::FewLinks && Arc::strong_count(&token) > 2 * 8 + 2 {
            return Err(nobody());
        }
        let (answer, answered) = oneshot::channel();
        let (confirm, confirmed) = oneshot::channel();
        let request = ConnectRequest {
            claim: claim(security),
            kind: kind(security),
            pipe: theirs,
            ends: ends.clone(),
            token: Arc::clone(&token),
            answer,
            confirmed,
        };
        port.ok_or_else(nobody)?
            .send(request)
            .await
            .map_err(|_| nobody())?;
        let peer = answered.await.map_err(|_| nobody())??;
        if let Some(found) = peer
            && self.fault != Fault::ConnectorTrustsAnyone
        {
            trusts(security, found)?;
        }
        let _ = confirm.send(());
        let trust = (kind(security), peer);
        Ok(link(self.fault, pipe, ends, address, trust, token))
    }
}

struct ToyListener {
    fault: Fault,
    address: String,
    requests: mpsc::Receiver<ConnectRequest>,
    security: Security,
}

#[async_trait]
impl Listener for ToyListener {
    fn local_address(&self) -> String {
        self.address.clone()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        loop {
            let request = self
                .requests
                .recv()
                .await
                .ok_or_else(|| BindError::Accept {
                    address: self.address.clone(),
                    source: io::ErrorKind::NotConnected.into(),
                })?;
            let own = claim(&self.security);
            let verdict = match request.claim {
                _ if request.kind != kind(&self.security) => match self.fault {
                    Fault::IgnoresMode => Ok(()),
                    Fault::IgnoresPinning
                        if ![request.kind, kind(&self.security)].contains(&Kind::Plaintext) =>
                    {
                        Ok(())
                    }
                    _ => Err(mismatch()),
                },
                Some(_) if self.fault == Fault::ListenerTrustsAnyone => Ok(()),
                Some(found) => trusts(&self.security, found).map_err(|_| {
                    TransportError::Handshake(HandshakeError::PeerRefusedUs {
                        alert: "not you".into(),
                    })
                }),
                None => Ok(()),
            };
            let welcome = verdict.is_ok();
            let _ = request.answer.send(verdict.map(|()| own));
            if welcome && request.confirmed.await.is_ok() {
                let [far, near] = request.ends;
                let (ends, trust) = ([near, far], (kind(&self.security), request.claim));
                let address = &self.address;
                return Ok(link(
                    self.fault,
                    request.pipe,
                    ends,
                    address,
                    trust,
                    request.token,
                ));
            }
        }
    }
}

fn link(
    fault: Fault,
    pipe: DuplexStream,
    [near, far]: [Arc<End>; 2],
    address: &str,
    (kind, peer): (Kind, Option<Fingerprint>),
    token: Arc<()>,
) -> Link {
    let encrypted = kind != Kind::Plaintext;
    let (reader, writer) = tokio::io::split(pipe);
    let held = Arc::new(Mutex::new(writer));
    let probe: Option<Arc<dyn PathProbe>> = (fault == Fault::StatisticsHoldTheLink)
        .then(|| Arc::new(Holding(Arc::clone(&held))) as Arc<dyn PathProbe>);
    let reader = ToyReader {
        reader,
        fault,
        far: Arc::clone(&far),
        detects_truncation: encrypted && fault != Fault::HidesTruncation,
        _token: Arc::clone(&token),
    };
    let writer = ToyWriter {
        writer: held,
        fault,
        near,
        far,
        position: 0,
        kept: Vec::new(),
        again: Box::pin(tokio::time::sleep(Duration::ZERO)),
        _token: token,
    };
    let mut info = LinkInfo::new("toy", address, address);
    info.peer_fingerprint = peer;
    info.encrypted = encrypted;
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
    fault: Fault,
    far: Arc<End>,
    detects_truncation: bool,
    _token: Arc<()>,
}

impl AsyncRead for ToyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let gone = self.far.gone.load(Ordering::SeqCst);
        let completed = self.far.completed.load(Ordering::SeqCst);
        if self.fault == Fault::ForgetsOnDrop && gone && completed {
            return Poll::Ready(Err(
                TransportError::Stream(StreamError::ConnectionReset).into_io()
            ));
        }
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        let ended = buf.filled().len() == before;
        if !ended && self.fault == Fault::HidesLateTruncation {
            self.detects_truncation = false;
        }
        if ended && self.detects_truncation && !self.far.completed.load(Ordering::SeqCst) {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Truncated).into_io()));
        }
        Poll::Ready(Ok(()))
    }
}

struct ToyWriter {
    writer: SharedWriter,
    fault: Fault,
    near: Arc<End>,
    far: Arc<End>,
    position: usize,
    kept: Vec<u8>,
    /// Time of the next check of a condition without an event.
    again: Pin<Box<Sleep>>,
    _token: Arc<()>,
}

impl Drop for ToyWriter {
    fn drop(&mut self) {
        self.near.gone.store(true, Ordering::SeqCst);
        if self.fault == Fault::DroppedWriterEnds {
            self.near.completed.store(true, Ordering::SeqCst);
            // The pipe never blocks here.
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = Pin::new(&mut *self.writer.lock().unwrap()).poll_shutdown(&mut cx);
        }
    }
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
        if this.fault == Fault::StallSpreads && this.far.stalled.load(Ordering::SeqCst) {
            this.again
                .as_mut()
                .reset(Instant::now() + Duration::from_millis(1));
            ready!(this.again.as_mut().poll(cx));
        }
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
        const BLOCK: usize = 64;
        if this.fault == Fault::SwapsTwoBlocks
            && (this.position..end).contains(&FLIPPED)
            && (this.position..end).contains(&(FLIPPED + 2 * BLOCK))
        {
            changed.extend_from_slice(buf);
            changed[FLIPPED - this.position..][..2 * BLOCK].rotate_left(BLOCK);
            out = &changed;
        }
        let written = Pin::new(&mut *writer).poll_write(cx, out);
        (this.near.stalled).store(written.is_pending(), Ordering::SeqCst);
        let written = ready!(written)?;
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
        self.near.completed.store(true, Ordering::SeqCst);
        Pin::new(&mut *self.writer.lock().unwrap()).poll_shutdown(cx)
    }
}
