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
///   Data before it arrives even if both halves are dropped immediately, if the runtime lives and
///   the peer accepts some bytes every 10 s. `shutdown` is not an error after the peer has shut
///   down too and left, whether it has read everything or not.
/// - **Truncation.** On an encrypted link, an end without the peer's `shutdown` is the error
///   [`StreamError::Truncated`](crate::StreamError::Truncated). A plaintext link cannot distinguish
///   the two, so the protocol above must know when it is complete.
/// - **Dropping both halves** closes the connection without a shutdown. Dropping one half does not
///   close it.
/// - **Cancellation.** `read` and `write` (one call of `AsyncReadExt::read`,
///   `AsyncWriteExt::write`) lose no bytes when cancelled. `read_exact`, `write_all` and similar
///   functions do not report their progress. After cancelling one, the position in the stream is
///   unknown, and the link must be dropped.
/// - **Errors are final.** After one, drop the link.
///   [`TransportError::from_io`](crate::TransportError::from_io) returns its meaning.
/// - The halves may be used from different tasks.
pub struct Link {
    reader: LinkReader,
    writer: LinkWriter,
    info: LinkInfo,
    stats: LinkStats,
}

/// The description of a link.
#[derive(Clone, Debug)]
pub struct LinkInfo {
    /// Name of the transport.
    pub transport: &'static str,
    /// This side's address.
    pub local_address: String,
    /// The peer's address.
    pub peer_address: String,
    /// The pinned key that the peer proved to hold. `None` if the peer is not authenticated: in
    /// plaintext, and without pins.
    pub peer_fingerprint: Option<Fingerprint>,
    /// The link is encrypted. It is authenticated only with a
    /// [`peer_fingerprint`](Self::peer_fingerprint).
    pub encrypted: bool,
    /// The key agreement and cipher, for display. `None` in plaintext.
    pub cipher: Option<String>,
    /// The set-up times of the link.
    pub timings: LinkTimings,
}

/// The set-up times of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkTimings {
    /// Time from the start of name resolution to an open connection. Zero on the listening side.
    pub connect: Duration,
    /// Time from the open connection to an authenticated one. Nearly zero for a plaintext
    /// connector, which does not wait.
    pub handshake: Duration,
}

impl Link {
    /// Makes a link of two halves. For implementors of [`Transport`](crate::Transport).
    ///
    /// The halves must fulfil the contract of [`Link`]. Bytes are counted here. `probe` adds the
    /// transport's measurements of the path.
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

    /// Returns a handle on the link's live figures.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats.clone()
    }

    /// Returns the receiving half, to inspect the peer's first bytes.
    pub fn reader_mut(&mut self) -> &mut LinkReader {
        &mut self.reader
    }

    /// Puts back bytes that were read. They are read again first.
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

/// A connection that may become a link. The byte counts of the link start at the conversion.
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
    /// Converts it to a link.
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
