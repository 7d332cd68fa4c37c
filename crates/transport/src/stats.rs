//! Live statistics of a link: transferred bytes, and measurements of the path.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
pub use transpute_rudp::TrainResult;

/// A handle on a link's statistics. It stays valid after the link is dropped and does not keep the
/// link open.
#[derive(Clone)]
pub struct LinkStats {
    counters: Arc<Counters>,
    probe: Option<Arc<dyn PathProbe>>,
}

/// The statistics of a link at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LinkSnapshot {
    /// Application bytes passed to the link's writer.
    pub bytes_sent: u64,
    /// Application bytes returned by the link's reader.
    pub bytes_received: u64,
    /// The path measurements of the transport, such as its round-trip time.
    pub path: PathSample,
}

/// A transport's measurements of the path. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PathSample {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    pub rtt_variation: Option<Duration>,
    /// Smallest round-trip time in a recent period, whose length the transport chooses.
    pub min_rtt: Option<Duration>,
    /// Latest measured delivery rate to the peer, in bytes per second.
    pub delivery_rate: Option<u64>,
    /// True if the sender had too little data to fill the path.
    /// [`delivery_rate`](Self::delivery_rate) is then only a lower bound of the path's rate.
    pub delivery_rate_app_limited: Option<bool>,
    /// Congestion window, in bytes.
    pub congestion_window: Option<u64>,
    /// Number of retransmitted packets since the connection was opened.
    pub retransmits: Option<u64>,
    /// Bytes sent as transport payload: application bytes, encryption overhead, handshake and
    /// retransmissions, without TCP, IP and link headers.
    pub wire_bytes_sent: Option<u64>,
    /// Bytes received as transport payload, without duplicates.
    pub wire_bytes_received: Option<u64>,
    /// The retransmitted part of [`wire_bytes_sent`](Self::wire_bytes_sent).
    pub wire_bytes_retransmitted: Option<u64>,
    /// The part of [`wire_bytes_sent`](Self::wire_bytes_sent) that is forward error correction.
    pub wire_bytes_parity: Option<u64>,
    /// Bytes of retransmissions and forward error correction, divided by the bytes of first
    /// transmissions. Zero before anything is sent.
    pub overhead: Option<f64>,
    /// Number of sent packets that the sender declared lost. It includes
    /// [`spurious_losses`](Self::spurious_losses).
    pub packets_lost: Option<u64>,
    /// Number of packets that were declared lost although they had arrived.
    pub spurious_losses: Option<u64>,
    /// Current maximum UDP payload of a sent datagram, in bytes. `None` for transports over TCP.
    pub largest_datagram: Option<u16>,
    /// Number of sent packets that carry data, including retransmissions.
    pub packets_sent: Option<u64>,
    /// Name of the congestion control in force, as read from the system.
    pub congestion_control: Option<String>,
    /// Time for which the sender was busy, and time for which each cause blocked it.
    pub send_times: Option<SendTimes>,
    /// The peer's measurement of the probe train that this end sent (`rudp` only). `None` until the
    /// peer has reported it.
    pub sent_train: Option<TrainResult>,
    /// This end's measurement of the probe train that the peer sent (`rudp` only). `None` until the
    /// train has ended, or if no train arrived.
    pub received_train: Option<TrainResult>,
}

impl PathSample {
    /// Returns [`min_rtt`](Self::min_rtt), or [`rtt`](Self::rtt) if the minimum is unknown.
    #[must_use]
    pub fn least_rtt(&self) -> Option<Duration> {
        self.min_rtt.or(self.rtt)
    }
}

/// Time for which a link's sender was busy, and time for which each cause blocked it, since the
/// link was opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SendTimes {
    /// Time since the link was opened.
    pub elapsed: Duration,
    /// Time during which the sender had unsent or unacknowledged data.
    pub busy: Duration,
    /// The part of `busy` during which the receive window of the peer blocked the sender.
    pub by_receiver: Duration,
    /// The part of `busy` during which the size of the send buffer blocked the sender.
    pub by_send_buffer: Duration,
}

/// The cause that limits the rate of a link's sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Bottleneck {
    /// The program: it gives the link nothing to send for most of the time.
    Application,
    /// The receive window of the peer: the peer reads too slowly, or its receive buffer is too
    /// small for the path.
    Receiver,
    /// The send buffer, which is too small for the path.
    SendBuffer,
    /// The capacity of the path, or the congestion window.
    Path,
}

impl SendTimes {
    /// Returns the cause that limited the sender for most of the time. Returns `None` if the link
    /// is younger than 0.1 s, because Linux counts these times in ticks of up to 10 ms.
    #[must_use]
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        if self.elapsed < Duration::from_millis(100) {
            return None;
        }
        Some(if self.busy < self.elapsed / 2 {
            Bottleneck::Application
        } else if self.by_receiver > self.busy / 2 {
            Bottleneck::Receiver
        } else if self.by_send_buffer > self.busy / 2 {
            Bottleneck::SendBuffer
        } else {
            Bottleneck::Path
        })
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Application => "application",
            Self::Receiver => "receiver",
            Self::SendBuffer => "send buffer",
            Self::Path => "path",
        })
    }
}

/// Reads a transport's measurements of a link's path. Implemented by transports.
///
/// A probe must not keep the link open. After the link has ended, [`sample`](Self::sample) returns
/// the last measurements.
pub trait PathProbe: Send + Sync {
    /// Returns the current measurements. It must not block. The caller calls it at most about once
    /// per second.
    fn sample(&self) -> PathSample;
}

impl LinkStats {
    pub(crate) fn new(probe: Option<Arc<dyn PathProbe>>) -> Self {
        Self {
            counters: Arc::new(Counters::default()),
            probe,
        }
    }

    /// Returns the number of application bytes passed to the link's writer so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of application bytes returned by the link's reader so far.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.counters.received.load(Ordering::Relaxed)
    }

    /// Returns the transport's measurements of the path. On TCP, each call makes a system call.
    #[must_use]
    pub fn path(&self) -> PathSample {
        self.probe
            .as_ref()
            .map(|probe| probe.sample())
            .unwrap_or_default()
    }

    /// Returns the byte counts and the path measurements.
    #[must_use]
    pub fn snapshot(&self) -> LinkSnapshot {
        LinkSnapshot {
            bytes_sent: self.bytes_sent(),
            bytes_received: self.bytes_received(),
            path: self.path(),
        }
    }

    pub(crate) fn count_reads<R>(&self, inner: R) -> CountingReader<R> {
        CountingReader {
            inner,
            counters: Arc::clone(&self.counters),
        }
    }

    pub(crate) fn count_writes<W>(&self, inner: W) -> CountingWriter<W> {
        CountingWriter {
            inner,
            counters: Arc::clone(&self.counters),
        }
    }
}

impl fmt::Debug for LinkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkStats")
            .field("bytes_sent", &self.bytes_sent())
            .field("bytes_received", &self.bytes_received())
            .finish_non_exhaustive()
    }
}

/// Byte counts of a link. They use relaxed atomic operations, because no other memory depends on
/// them.
#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

pub(crate) struct CountingReader<R> {
    inner: R,
    counters: Arc<Counters>,
}

impl<R: AsyncRead + Unpin> AsyncRead for CountingReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = buf.filled().len().saturating_sub(before) as u64;
        self.counters.received.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

pub(crate) struct CountingWriter<W> {
    inner: W,
    counters: Arc<Counters>,
}

impl<W> CountingWriter<W> {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counters
                .sent
                .fetch_add(bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for CountingWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottleneck_is_what_takes_most_of_the_time() {
        let times = |busy, by_receiver, by_send_buffer| SendTimes {
            elapsed: Duration::from_secs(10),
            busy: Duration::from_secs(busy),
            by_receiver: Duration::from_secs(by_receiver),
            by_send_buffer: Duration::from_secs(by_send_buffer),
        };
        for (times, bottleneck) in [
            (times(4, 4, 0), Bottleneck::Application),
            (times(9, 5, 4), Bottleneck::Receiver),
            (times(9, 4, 5), Bottleneck::SendBuffer),
            (times(9, 4, 4), Bottleneck::Path),
        ] {
            assert_eq!(times.bottleneck(), Some(bottleneck), "{times:?}");
        }
        assert_eq!(SendTimes::default().bottleneck(), None);
    }
}
