//! A UDP socket that other protocols share, with the interface of the QUIC library's sockets.

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::SocketAddr,
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use noq::{
    AsyncUdpSocket, UdpSender,
    udp::{self, RecvMeta, Transmit},
};
use tokio::{net::UdpSocket, runtime::Handle};

use crate::rudp::{Batch, EndpointHandle, ForeignQueue};

/// The QUIC side of a shared socket. The thread of reliable UDP receives the datagrams. The thread
/// that drives QUIC sends directly.
pub(super) struct SharedSocket {
    handle: Arc<EndpointHandle>,
    foreign: Arc<ForeignQueue>,
    /// Received batches whose datagrams were not all passed to the library yet.
    rest: Vec<Batch>,
    runtime: Handle,
}

/// Maximum number of datagrams in a batch of Linux.
const BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

impl SharedSocket {
    pub(super) fn new(
        handle: Arc<EndpointHandle>,
        foreign: Arc<ForeignQueue>,
        runtime: Handle,
    ) -> Self {
        Self {
            handle,
            foreign,
            rest: Vec::new(),
            runtime,
        }
    }
}

impl fmt::Debug for SharedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSocket")
    }
}

impl AsyncUdpSocket for SharedSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender {
            handle: Arc::clone(&self.handle),
            runtime: self.runtime.clone(),
            room: None,
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let most = bufs.len().min(metas.len());
        if self.rest.is_empty() {
            let rest = &mut self.rest;
            ready!(self.foreign.poll_take(cx, most, |batch| rest.push(batch)));
            // The loop below takes batches from the end.
            self.rest.reverse();
        }
        let mut filled = 0;
        while filled < most
            && let Some(mut batch) = self.rest.pop()
        {
            let buffer = &mut bufs[filled];
            let stride = batch.stride.min(batch.bytes.len());
            // Return only whole datagrams that fit into the library's buffer.
            let taken = batch.bytes.len().min(buffer.len() / stride * stride);
            if taken == 0 {
                continue;
            }
            buffer[..taken].copy_from_slice(&batch.bytes[..taken]);
            let meta = &mut metas[filled];
            *meta = RecvMeta::default();
            meta.addr = batch.from;
            meta.len = taken;
            meta.stride = stride;
            meta.dst_ip = batch.to;
            meta.ecn = (batch.ecn).and_then(|ecn| udp::EcnCodepoint::from_bits(ecn as u8));
            filled += 1;
            if taken < batch.bytes.len() {
                batch.bytes.drain(..taken);
                self.rest.push(batch);
            }
        }
        if filled == 0 {
            // All datagrams were too long. There may be more.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(filled))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.local())
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        BATCH
    }

    fn may_fragment(&self) -> bool {
        // The socket forbids fragmentation, as the other protocol requires.
        false
    }
}

/// The sender that the library creates for each of its tasks.
struct Sender {
    handle: Arc<EndpointHandle>,
    runtime: Handle,
    room: Option<Room>,
}

type Room = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl UdpSender for Sender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: (transmit.ecn).and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: transmit.contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        loop {
            if let Some(room) = &mut this.room {
                let waited = ready!(room.as_mut().poll(cx));
                this.room = None;
                waited?;
            }
            match this.handle.send_foreign(&transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let _runtime = this.runtime.enter();
                    let socket = std::net::UdpSocket::from(this.handle.duplicate()?);
                    // Register the socket with the runtime only for this wait. Otherwise, every
                    // received packet would wake this thread.
                    let socket = UdpSocket::from_std(socket)?;
                    this.room = Some(Box::pin(async move { socket.writable().await }));
                }
                Err(error) => {
                    // Treat the packet as lost: it is too long for the path, or the port is closed.
                    tracing::trace!(%error, "a QUIC packet could not be sent");
                    return Poll::Ready(Ok(()));
                }
                Ok(()) => return Poll::Ready(Ok(())),
            }
        }
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.handle.max_segments()).unwrap_or(NonZeroUsize::MIN)
    }
}
