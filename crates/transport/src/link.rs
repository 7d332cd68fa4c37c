//! One connection between two parties: an ordered byte stream each way.

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

/// An ordered, reliable byte stream in each direction to one authenticated peer (or, in plaintext, to whoever it is).
///
/// # What the halves promise
///
/// - **Flushing is the writer's business.** Written bytes may stay in the link until the next `flush`; flush before
///   waiting for an answer. Flushing hands the bytes to the operating system, and waits while the peer does not read.
/// - **Back-pressure.** A write waits while the peer does not read; a link holds a bounded number of bytes.
/// - **Closing.** `shutdown` on the writer flushes and tells the peer that this direction is complete; the other
///   direction goes on. The reader then sees the end of the stream (a read of 0 bytes). What was written before arrives
///   even if both halves are dropped right after, as long as the runtime lives and the peer takes something every 10 s.
///   `shutdown` after the peer has done the same and left is no error, whether it has read everything or not.
/// - **Truncation.** On an encrypted link, an end without the peer's `shutdown` is an error,
///   [`StreamError::Truncated`](crate::StreamError::Truncated). A plaintext link cannot tell the two apart: the
///   protocol above must know when it is complete.
/// - **Dropping both halves** closes the connection without notice. Dropping one half alone does not close it.
/// - **Cancellation.** `read` and `write` (one call of `AsyncReadExt::read`, `AsyncWriteExt::write`) lose no bytes when
///   cancelled. `read_exact`, `write_all` and the like keep their progress to themselves: after cancelling one, the
///   position in the stream is unknown and the link must be dropped.
/// - **Errors are final.** After one, drop the link. [`TransportError::from_io`](crate::TransportError::from_io) says
///   what it means.
/// - The halves may be used from different tasks.
pub struct Link {
    reader: LinkReader,
    writer: LinkWriter,
    info: LinkInfo,
    stats: LinkStats,
}

/// What is known about a link once it is made.
#[derive(Clone, Debug)]
pub struct LinkInfo {
    /// Name of the transport.
    pub transport: &'static str,
    /// This side's address.
    pub local_address: String,
    /// The peer's address.
    pub peer_address: String,
    /// The pinned key that the peer proved to hold; `None` if nobody was authenticated: in plaintext, and without pins.
    pub peer_fingerprint: Option<Fingerprint>,
    /// Whether the link is encrypted; it is authenticated only with a [`peer_fingerprint`](Self::peer_fingerprint).
    pub encrypted: bool,
    /// The key agreement and cipher, for people to read; `None` in plaintext.
    pub cipher: Option<String>,
    /// How long it took to make the link.
    pub timings: LinkTimings,
}

/// How long it took to make a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkTimings {
    /// From the start of name resolution to an open connection; zero on the side that listened.
    pub connect: Duration,
    /// From the open connection to an authenticated one. A plaintext connector does not wait: close to zero.
    pub handshake: Duration,
}

impl Link {
    /// Makes a link of two halves. For implementors of [`Transport`](crate::Transport).
    ///
    /// The halves must keep the promises listed at [`Link`]. Bytes are counted here; `probe` adds what the transport
    /// knows about the path.
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

    /// Returns what is known about the link.
    #[must_use]
    pub fn info(&self) -> &LinkInfo {
        &self.info
    }

    /// Returns a handle on the link's live figures.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats.clone()
    }

    /// Returns the receiving half, to look at what the peer says first.
    pub fn reader_mut(&mut self) -> &mut LinkReader {
        &mut self.reader
    }

    /// Returns both halves, to talk to the peer before the link is handed out.
    pub(crate) fn halves_mut(&mut self) -> (&mut LinkReader, &mut LinkWriter) {
        (&mut self.reader, &mut self.writer)
    }

    /// Puts bytes back that were read: they will be read again first.
    #[must_use]
    pub fn unread(self, bytes: Vec<u8>) -> Self {
        Self {
            reader: Box::new(Cursor::new(bytes).chain(self.reader)),
            ..self
        }
    }

    /// Takes the link apart into its two directions.
    #[must_use]
    pub fn into_parts(self) -> (LinkReader, LinkWriter) {
        (self.reader, self.writer)
    }
}

/// A connection that may become a link: whoever makes it may talk over it first, and that is not counted.
pub(crate) struct Bare<R, W> {
    pub(crate) reader: R,
    pub(crate) writer: W,
    pub(crate) info: LinkInfo,
    pub(crate) probe: Arc<dyn PathProbe>,
}

impl<R, W> Bare<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Makes a link of it.
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
