//! The plaintext handshake, and the detection of plaintext, TLS and other protocols by their first
//! bytes.
//!
//! Both sides of a plaintext link send a preamble immediately: [`PREAMBLE`] and the names of their
//! transports. The listening side reads the peer's preamble before it returns a link. A connecting
//! side with one transport returns the link without waiting, and checks the preamble at its first
//! read, so plaintext costs no round trip. A connector that never reads checks it at shutdown.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use self::message::Received;
pub(crate) use self::message::{End, Supported, read};
use crate::{HandshakeError, StreamError, TransportError};

mod message;

/// The first bytes that each side sends on a plaintext link: protocol name, version and security
/// mode. The names of the transports follow.
pub(crate) const PREAMBLE: [u8; 22] = *b"transpute/1 plaintext ";

/// The message that a side waits for, in timeout errors.
pub(crate) const WAITING_FOR: &str = "the peer's plaintext preamble";

/// The protocol that the first bytes of a peer indicate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Plaintext,
    Tls,
    Unknown,
}

impl Dialect {
    /// Classifies a peer by its first bytes. `first` must not be empty.
    pub(crate) fn of(first: &[u8]) -> Self {
        let compared = first.len().min(PREAMBLE.len());
        match first {
            [] => Self::Unknown,
            _ if first[..compared] == PREAMBLE[..compared] => Self::Plaintext,
            // A TLS record starts with its type (alert or handshake) and the major version 3 (RFC
            // 8446, section 5.1).
            [0x15 | 0x16] | [0x15 | 0x16, 3, ..] => Self::Tls,
            _ => Self::Unknown,
        }
    }
}

/// Returns the error for a peer whose first bytes are not the preamble.
pub(crate) fn not_plaintext(first: &[u8]) -> TransportError {
    match Dialect::of(first) {
        Dialect::Tls => TransportError::Handshake(HandshakeError::SecurityMismatch {
            ours: "plaintext",
            theirs: "TLS",
        }),
        _ => unknown(first),
    }
}

/// Returns the error for a failed TLS handshake, given the first bytes that the peer sent.
pub(crate) fn not_tls(first: &[u8], error: io::Error) -> TransportError {
    match Dialect::of(first) {
        Dialect::Plaintext => TransportError::Handshake(HandshakeError::SecurityMismatch {
            ours: "TLS",
            theirs: "plaintext",
        }),
        Dialect::Unknown if !first.is_empty() => unknown(first),
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
        }
        _ => TransportError::from_io(error),
    }
}

/// Returns the error for a peer that uses neither TLS nor the plaintext protocol. The error quotes
/// the received bytes, escaped and truncated to one line.
pub(crate) fn unknown(first: &[u8]) -> TransportError {
    let shown = &first[..first.len().min(PREAMBLE.len())];
    TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: format!("it sent \"{}\"", shown.escape_ascii()),
    })
}

/// Makes the halves of a connection whose peer must send its preamble within `after` from now. A
/// timeout error contains `address`.
pub(crate) fn checked<R, W>(
    reader: R,
    writer: W,
    ours: End,
    after: Duration,
    address: String,
) -> (CheckedReader<R>, CheckedWriter<W, R>) {
    let waiting = Waiting {
        received: Received::new(),
        ours,
        deadline: Box::pin(tokio::time::sleep(after)),
        limit: Limit { after, address },
    };
    halves(reader, writer, State::Waiting(Box::new(waiting)))
}

/// Makes the halves of a connection whose preamble was read and checked before.
pub(crate) fn unchecked<R, W>(reader: R, writer: W) -> (CheckedReader<R>, CheckedWriter<W, R>) {
    halves(reader, writer, State::Checked)
}

fn halves<R, W>(reader: R, writer: W, state: State) -> (CheckedReader<R>, CheckedWriter<W, R>) {
    let incoming = Arc::new(Mutex::new(Incoming {
        inner: reader,
        state,
        wakers: Arc::default(),
    }));
    let writer = CheckedWriter {
        inner: writer,
        incoming: Arc::clone(&incoming),
    };
    (CheckedReader { incoming }, writer)
}

/// The reading half. It checks the preamble before it returns the first byte.
pub(crate) struct CheckedReader<R> {
    incoming: Arc<Mutex<Incoming<R>>>,
}

/// The writing half. At shutdown, it reads and checks the preamble unless the reading half has done
/// so. If a connection is closed while received bytes are unread, the kernel resets it and discards
/// unsent data.
pub(crate) struct CheckedWriter<W, R> {
    inner: W,
    incoming: Arc<Mutex<Incoming<R>>>,
}

/// The receiving direction, which both halves share. The half that needs the preamble first reads
/// and checks it.
struct Incoming<R> {
    inner: R,
    state: State,
    wakers: Arc<Wakers>,
}

enum State {
    Waiting(Box<Waiting>),
    Checked,
    Failed,
}

struct Waiting {
    received: Received,
    ours: End,
    deadline: Pin<Box<Sleep>>,
    limit: Limit,
}

struct Limit {
    after: Duration,
    address: String,
}

/// The wakers of the tasks of both halves, indexed by [`Half`]. Both tasks may wait for the
/// preamble, but the connection stores only one waker. So it stores this one, which wakes both.
#[derive(Default)]
struct Wakers(Mutex<[Option<Waker>; 2]>);

#[derive(Clone, Copy)]
enum Half {
    Reader,
    Writer,
}

impl Wakers {
    fn put(&self, half: Half, waker: &Waker) {
        lock(&self.0)[half as usize] = Some(waker.clone());
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *lock(&self.0));
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Waits for the preamble on behalf of `half`. Only the first failing call returns the reason.
    /// Later calls return [`StreamError::Closed`].
    fn poll_check(&mut self, cx: &Context<'_>, half: Half) -> Poll<Result<(), TransportError>> {
        match self.state {
            State::Checked => return Poll::Ready(Ok(())),
            State::Failed => return Poll::Ready(Err(TransportError::Stream(StreamError::Closed))),
            State::Waiting(_) => {}
        }
        self.wakers.put(half, cx.waker());
        let waker = Waker::from(Arc::clone(&self.wakers));
        let result = ready!(self.poll_wait(&mut Context::from_waker(&waker)));
        self.state = match result {
            Ok(()) => State::Checked,
            Err(_) => State::Failed,
        };
        // Wake the other half, which may also wait for the preamble.
        lock(&self.wakers.0)[half as usize] = None;
        waker.wake();
        Poll::Ready(result)
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let State::Waiting(waiting) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let Waiting {
            received,
            ours,
            deadline,
            limit,
        } = &mut **waiting;
        while !received.missing().is_empty() {
            let mut buf = ReadBuf::new(received.missing());
            match Pin::new(&mut self.inner).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(TransportError::from_io(error))),
                Poll::Pending => {
                    ready!(deadline.as_mut().poll(cx));
                    return Poll::Ready(Err(TransportError::Handshake(HandshakeError::Timeout {
                        waiting_for: WAITING_FOR,
                        address: limit.address.clone(),
                        after: limit.after,
                    })));
                }
            }
            let read = buf.filled().len();
            received.add(read)?;
        }
        Poll::Ready(received.agree(ours).map(drop))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CheckedReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut incoming = lock(&self.incoming);
        ready!(incoming.poll_check(cx, Half::Reader)).map_err(TransportError::into_io)?;
        Pin::new(&mut incoming.inner).poll_read(cx, buf)
    }
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> AsyncWrite for CheckedWriter<W, R> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Shut down before the check, because a peer that waits for the end of this direction might
        // otherwise wait for this side while this side waits for the preamble.
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        (lock(&self.incoming).poll_check(cx, Half::Writer)).map_err(TransportError::into_io)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn tcp() -> Supported {
        Supported::new(&["tcp"], "tcp")
    }

    /// Returns the halves of a connection to a peer that has 5 s to send its preamble.
    fn waiting<R, W>(reader: R, writer: W) -> (CheckedReader<R>, CheckedWriter<W, R>) {
        let ours = End {
            supported: tcp(),
            listens: false,
        };
        checked(reader, writer, ours, Duration::from_secs(5), "here".into())
    }

    #[test]
    fn tells_dialects_apart() {
        for length in 1..=PREAMBLE.len() {
            assert_eq!(Dialect::of(&PREAMBLE[..length]), Dialect::Plaintext);
        }
        for (first, dialect) in [
            (&b"\x16\x03\x01\x02\x00"[..], Dialect::Tls),
            (b"\x15", Dialect::Tls),
            (b"\x16\x16", Dialect::Unknown),
            (b"transpute/2 plaintext\n", Dialect::Unknown),
            (b"GET / HTTP/1.1\r\n", Dialect::Unknown),
            (b"", Dialect::Unknown),
        ] {
            assert_eq!(Dialect::of(first), dialect, "{first:?}");
        }
        assert_eq!(
            unknown(b"SSH-2.0-OpenSSH_9.9 and a long tail\r\n").to_string(),
            "the peer does not speak transpute/1: it sent \"SSH-2.0-OpenSSH_9.9 an\""
        );
    }

    #[tokio::test]
    async fn the_first_byte_comes_after_the_check() {
        let stream = [&tcp().encode()[..], b"payload"].concat();
        // Send pieces of every size, so that the preamble is split at every position.
        for size in 1..stream.len() {
            let (mut tx, rx) = tokio::io::duplex(size);
            let (mut reader, _writer) = waiting(rx, tokio::io::sink());
            let mut got = String::new();
            let (sent, read) = tokio::join!(
                async {
                    tx.write_all(&stream).await?;
                    drop(tx);
                    io::Result::Ok(())
                },
                reader.read_to_string(&mut got)
            );
            sent.unwrap();
            read.unwrap();
            assert_eq!(got, "payload");
        }
    }

    #[tokio::test]
    async fn a_wrong_preamble_is_a_typed_error_and_stays_one() {
        let (mut reader, mut writer) = waiting(
            &b"\x15\x03\x03\x00\x02\x02\x28 and more"[..],
            tokio::io::sink(),
        );
        let mut buf = [0; 8];
        let error = reader.read(&mut buf).await.unwrap_err();
        assert!(matches!(
            TransportError::from_io(error),
            TransportError::Handshake(HandshakeError::SecurityMismatch {
                ours: "plaintext",
                theirs: "TLS"
            })
        ));
        for again in [
            reader.read(&mut buf).await.err(),
            writer.shutdown().await.err(),
        ] {
            assert!(matches!(
                TransportError::from_io(again.unwrap()),
                TransportError::Stream(StreamError::Closed)
            ));
        }
    }

    #[tokio::test]
    async fn whoever_reads_nothing_has_heard_the_preamble_when_it_is_shut_down() {
        let (mut peer, near) = tokio::io::duplex(64);
        let (near_reader, near_writer) = tokio::io::split(near);
        let (reader, mut writer) = waiting(near_reader, near_writer);
        drop(reader);
        let shutdown = tokio::spawn(async move {
            writer.write_all(b"all").await?;
            writer.shutdown().await
        });
        // `shutdown` sends the end of the stream before it waits for the peer's preamble.
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"all");
        assert!(!shutdown.is_finished());
        peer.write_all(&tcp().encode()).await.unwrap();
        shutdown.await.unwrap().unwrap();
    }

    /// The arrival of the preamble wakes both halves, whichever half was polled last.
    #[tokio::test]
    async fn both_halves_may_wait_for_the_preamble() {
        for reader_first in [true, false] {
            let (mut peer, near) = tokio::io::duplex(64);
            let (near_reader, near_writer) = tokio::io::split(near);
            let (mut reader, mut writer) = waiting(near_reader, near_writer);
            let read = async move { reader.read_u8().await };
            let shutdown = async move { writer.shutdown().await };
            // Tasks of one thread start in the order in which they are spawned.
            let (read, shutdown) = if reader_first {
                let read = tokio::spawn(read);
                (read, tokio::spawn(shutdown))
            } else {
                let shutdown = tokio::spawn(shutdown);
                (tokio::spawn(read), shutdown)
            };
            tokio::task::yield_now().await;
            peer.write_all(&[&tcp().encode()[..], b"!"].concat())
                .await
                .unwrap();
            assert_eq!(read.await.unwrap().unwrap(), b'!');
            shutdown.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_not_waited_for_forever() {
        let (_held, rx) = tokio::io::duplex(64);
        let (mut reader, mut writer) = waiting(rx, tokio::io::sink());
        let mut buf = [0; 1];
        let (read, shut) = tokio::join!(reader.read(&mut buf), writer.shutdown());
        let errors = [read.unwrap_err(), shut.unwrap_err()].map(TransportError::from_io);
        // The half that is polled first reports the error.
        assert!(
            matches!(
                errors,
                [
                    TransportError::Handshake(HandshakeError::Timeout { .. }),
                    TransportError::Stream(StreamError::Closed)
                ] | [
                    TransportError::Stream(StreamError::Closed),
                    TransportError::Handshake(HandshakeError::Timeout { .. })
                ]
            ),
            "{errors:?}"
        );
    }
}
