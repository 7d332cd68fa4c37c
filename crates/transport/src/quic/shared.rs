//! A UDP socket that other protocols share, with the interface of the QUIC library's sockets.

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{self, RecvMeta, Transmit},
};
use tokio::{net::UdpSocket, runtime::Handle};

use super::socket::Writable;
use crate::rudp::{Batch, EndpointHandle, ForeignQueue};

/// The QUIC side of a shared socket. The thread of reliable UDP receives the datagrams. The thread
/// that drives QUIC sends directly.
pub(super) struct SharedSocket {
    handle: Arc<EndpointHandle>,
    foreign: Arc<ForeignQueue>,
    /// Received batches whose datagrams were not all passed to the library yet.
    rest: Mutex<Vec<Batch>>,
    runtime: Handle,
}

/// Maximum number of datagrams in a batch of Linux.
const BATCH: usize = 64;

impl SharedSocket {
    pub(super) fn new(
        handle: Arc<EndpointHandle>,
        foreign: Arc<ForeignQueue>,
        runtime: Handle,
    ) -> Self {
        Self {
            handle,
            foreign,
            rest: Mutex::default(),
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
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller {
            socket: self,
            writable: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // Reliable UDP uses a later version of the socket library.
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: None,
            contents: transmit.contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.handle.send_foreign(&transmit) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                // Treat the packet as lost: it is too long for the path, or the port is closed.
                tracing::trace!(%error, "a QUIC packet could not be sent");
                Ok(())
            }
            sent => sent,
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let most = bufs.len().min(metas.len());
        // Only the task that drives the endpoint calls this, so it never waits for the lock.
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest.is_empty() {
            ready!(self.foreign.poll_take(cx, most, |batch| rest.push(batch)));
            // The loop below takes batches from the end.
            rest.reverse();
        }
        let mut filled = 0;
        while filled < most
            && let Some(mut batch) = rest.pop()
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
                rest.push(batch);
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

    fn max_transmit_segments(&self) -> usize {
        self.handle.max_segments()
    }

    fn max_receive_segments(&self) -> usize {
        BATCH
    }

    fn may_fragment(&self) -> bool {
        // The socket forbids fragmentation, as the other protocol requires.
        false
    }
}

/// Waits for one task of the library until the socket is writable.
struct Poller {
    socket: Arc<SharedSocket>,
    writable: Option<Writable>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poller")
    }
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, writable } = &mut *self;
        let waiting = match writable {
            Some(waiting) => waiting,
            None => {
                let _runtime = socket.runtime.enter();
                // Register the socket with the runtime only for this wait. Otherwise, every
                // received packet would wake this thread.
                let own = UdpSocket::from_std(socket.handle.duplicate()?)?;
                writable.insert(Box::pin(async move { own.writable().await }))
            }
        };
        let waited = ready!(waiting.as_mut().poll(cx));
        *writable = None;
        Poll::Ready(waited)
    }
}
