//! Links: connections between two parties, with an ordered byte stream in each direction.

use std::{fmt, io::Cursor, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::{
    Fingerprint,
    stats::{LinkStats, PathProbe},
};

/// The receiving half of a link.
pub type LinkReader = Box<dyn AsyncRead + Send + Unpin>;

/// The sending half of a link.
pub type LinkWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// An ordered, reliable byte stream in each direction to one authenticated peer, or to an
/// unauthenticated one in plaintext.
///
/// # Contract of the halves
///
/// - **Flushing.** Written bytes may stay in the link until the next `flush`. Flush before waiting
///   for an answer. Flushing passes the bytes to the operating system, and waits while the peer
///   does not read.
/// - **Back-pressure.** A write waits while the peer does not read. A link buffers a bounded number
///   of bytes.
/// - **Closing.** `shutdown` on the writer flushes and completes this direction; the other
///   direction continues. The peer's reader then returns the end of the stream (a read of 0 bytes).
///   Data written before `shutdown` arrives even if both halves are dropped immediately, provided
///   that the runtime keeps running and the peer accepts some bytes every 10 s. `shutdown` succeeds
///   if the peer has already shut down its own direction and closed the connection, even with
///   unread data.
/// - **Truncation.** On an encrypted link, an end without the peer's `shutdown` is the error
///   [`StreamError::Truncated`](crate::StreamError::Truncated). A plaintext link cannot distinguish
///   such an end from a `shutdown`, so the protocol on the link must know when its data is
///   complete.
/// - **Dropping both halves** closes the connection without a shutdown. Dropping one half does not
///   close it.
/// - **Cancellation.** `read` and `write` (one call of `AsyncReadExt::read`,
///   `AsyncWriteExt::write`) lose no bytes when they are cancelled. `read_exact`, `write_all` and
///   similar functions do not report their progress. After cancelling one, the position in the
///   stream is unknown, and the link must be dropped.
/// - **Errors are final.** After an error, drop the link.
///   [`TransportError::from_io`](crate::TransportError::from_io) converts the error to a
///   [`TransportError`](crate::TransportError).
/// - The halves may be used from different tasks.
pub struct Link {
    reader: LinkReader,
    writer: LinkWriter,
    info: LinkInfo,
    stats: LinkStats,
}

/// The description of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkInfo {
    /// Name of the transport.
    pub transport: &'static str,
    /// This side's address.
    pub local_address: String,
    /// The peer's address.
    pub peer_address: String,
    /// The fingerprint of the pinned key that the peer proved to hold. `None` if the peer is not
    /// authenticated, because the link uses plaintext or TLS without pinned keys.
    pub peer_fingerprint: Option<Fingerprint>,
    /// True if the link is encrypted. The peer is authenticated only if
    /// [`peer_fingerprint`](Self::peer_fingerprint) is `Some`.
    pub encrypted: bool,
    /// The key agreement and cipher, for display. `None` in plaintext.
    pub cipher: Option<String>,
    /// The set-up times of the link.
    pub timings: LinkTimings,
}

impl LinkInfo {
    /// Returns the description of a plaintext link to an unauthenticated peer, whose set-up took no
    /// time. Implementors of [`Transport`](crate::Transport) change the fields that differ.
    #[must_use]
    pub fn new(
        transport: &'static str,
        local_address: impl Into<String>,
        peer_address: impl Into<String>,
    ) -> Self {
        Self {
            transport,
            local_address: local_address.into(),
            peer_address: peer_address.into(),
            peer_fingerprint: None,
            encrypted: false,
            cipher: None,
            timings: LinkTimings::default(),
        }
    }
}

/// The set-up times of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LinkTimings {
    /// Time from the start of name resolution until the connection is open. Zero on the listening
    /// side.
    pub connect: Duration,
    /// Time from the start to the end of the TLS or plaintext handshake. It is nearly zero for a
    /// connector in plaintext, because a connector does not wait for the peer's preamble.
    pub handshake: Duration,
}

impl Link {
    /// Makes a link from a reader and a writer. Only implementors of
    /// [`Transport`](crate::Transport) need this function.
    ///
    /// The halves must fulfil the contract of [`Link`]. The link counts the bytes that pass through
    /// them. `probe` provides the transport's measurements of the path for [`stats`](Self::stats).
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        info: LinkInfo,
        probe: Option<Arc<dyn PathProbe>>,
    ) -> Self {
        let stats = LinkStats::new(probe);
        Self {
            reader: Box::new(stats.count_reads(reader)),
            writer: Box::new(stats.count_writes(writer)),
            info,
            stats,
        }
    }

    /// Returns the description of the link.
    #[must_use]
    pub fn info(&self) -> &LinkInfo {
        &self.info
    }

    /// Returns a handle on the link's live statistics.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats.clone()
    }

    /// Returns the receiving half, for example to inspect the peer's first bytes and then
    /// [`unread`](Self::unread) them.
    pub fn reader_mut(&mut self) -> &mut LinkReader {
        &mut self.reader
    }

    /// Returns a link whose next reads return `bytes` before any further bytes from the peer.
    #[must_use]
    pub fn unread(self, bytes: Vec<u8>) -> Self {
        Self {
            reader: Box::new(Cursor::new(bytes).chain(self.reader)),
            ..self
        }
    }

    /// Splits the link into its two directions.
    #[must_use]
    pub fn into_parts(self) -> (LinkReader, LinkWriter) {
        (self.reader, self.writer)
    }
}

/// The parts from which a [`Link`] can be made later. The statistics of this link do not count the
/// bytes that pass before the conversion.
pub(crate) struct LinkHalves<R, W> {
    pub(crate) reader: R,
    pub(crate) writer: W,
    pub(crate) info: LinkInfo,
    pub(crate) probe: Arc<dyn PathProbe>,
}

impl<R, W> LinkHalves<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Converts the parts to a link.
    pub(crate) fn link(self) -> Link {
        Link::new(self.reader, self.writer, self.info, Some(self.probe))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("info", &self.info)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
