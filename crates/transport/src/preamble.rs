//! The plaintext handshake, and telling plaintext, TLS and strangers apart by their first bytes.
//!
//! Both sides of a plaintext link send [`PREAMBLE`] at once. The listening side reads it before it reports a link; the
//! connecting side goes on and checks it in front of the first byte it reads, so that plaintext costs no round trip.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    time::Sleep,
};

use crate::TransportError;

/// What each side of a plaintext link sends first: protocol name, version, and that nothing is encrypted.
pub(crate) const PREAMBLE: [u8; 22] = *b"transpute/1 plaintext\n";

/// What the first bytes from a peer reveal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Plaintext,
    Tls,
    Unknown,
}

impl Dialect {
    /// Judges by at least one byte.
    pub(crate) fn of(first: &[u8]) -> Self {
        let compared = first.len().min(PREAMBLE.len());
        match first {
            [] => Self::Unknown,
            _ if first[..compared] == PREAMBLE[..compared] => Self::Plaintext,
            // A TLS record starts with its type (alert or handshake) and the major version 3 (RFC 8446 section 5.1).
            [0x15 | 0x16] | [0x15 | 0x16, 3, ..] => Self::Tls,
            _ => Self::Unknown,
        }
    }
}

/// Says what is wrong with a peer whose first bytes are not the preamble.
pub(crate) fn not_plaintext(first: &[u8]) -> TransportError {
    match Dialect::of(first) {
        Dialect::Tls => TransportError::SecurityMismatch {
            ours: "plaintext",
            theirs: "TLS",
        },
        _ => unknown(first),
    }
}

/// Describes a peer that speaks neither dialect; quotes what it sent, escaped and cut to a line.
pub(crate) fn unknown(first: &[u8]) -> TransportError {
    let shown = &first[..first.len().min(PREAMBLE.len())];
    TransportError::NotTranspute {
        evidence: format!("it sent \"{}\"", shown.escape_ascii()),
    }
}

/// Reads the peer's preamble and nothing after it.
pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<(), TransportError> {
    let mut got = [0; PREAMBLE.len()];
    let mut length = 0;
    while length < got.len() {
        let read = reader
            .read(&mut got[length..])
            .await
            .map_err(TransportError::from_io)?;
        if read == 0 {
            return Err(TransportError::ClosedDuringHandshake);
        }
        length += read;
        // Judged as it arrives: whoever sends something else shorter is not waited for.
        if got[..length] != PREAMBLE[..length] {
            return Err(not_plaintext(&got[..length]));
        }
    }
    Ok(())
}

/// A reader that checks the preamble in front of the first byte it hands out.
pub(crate) struct CheckedReader<R> {
    inner: R,
    state: State,
}

enum State {
    Waiting {
        got: [u8; PREAMBLE.len()],
        length: usize,
        deadline: Pin<Box<Sleep>>,
        limit: Limit,
    },
    Checked,
    Failed,
}

struct Limit {
    after: Duration,
    address: String,
}

impl<R> CheckedReader<R> {
    /// Wraps a reader whose peer has `after` to send the preamble, from now on; `address` is named in the error.
    pub(crate) fn new(inner: R, after: Duration, address: String) -> Self {
        Self {
            inner,
            state: State::Waiting {
                got: [0; PREAMBLE.len()],
                length: 0,
                deadline: Box::pin(tokio::time::sleep(after)),
                limit: Limit { after, address },
            },
        }
    }
}

impl<R> CheckedReader<R> {
    /// Wraps a reader whose peer has sent its preamble already.
    pub(crate) fn checked(inner: R) -> Self {
        Self {
            inner,
            state: State::Checked,
        }
    }
}

impl<R: AsyncRead + Unpin> CheckedReader<R> {
    fn poll_check(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let State::Waiting {
            got,
            length,
            deadline,
            limit,
        } = &mut self.state
        else {
            return Poll::Ready(match self.state {
                State::Failed => Err(TransportError::Closed),
                _ => Ok(()),
            });
        };
        while *length < got.len() {
            let mut buf = ReadBuf::new(&mut got[*length..]);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(TransportError::from_io(error))),
                Poll::Pending => {
                    ready!(deadline.as_mut().poll(cx));
                    return Poll::Ready(Err(TransportError::Timeout {
                        waiting_for: "the peer's plaintext preamble",
                        address: limit.address.clone(),
                        after: limit.after,
                    }));
                }
            }
            let read = buf.filled().len();
            if read == 0 {
                return Poll::Ready(Err(TransportError::ClosedDuringHandshake));
            }
            *length += read;
            if got[..*length] != PREAMBLE[..*length] {
                return Poll::Ready(Err(not_plaintext(&got[..*length])));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CheckedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !matches!(self.state, State::Checked) {
            match ready!(self.poll_check(cx)) {
                Ok(()) => self.state = State::Checked,
                Err(error) => {
                    self.state = State::Failed;
                    return Poll::Ready(Err(error.into_io()));
                }
            }
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let stream = [&PREAMBLE[..], b"payload"].concat();
        // In pieces of every size, so that the preamble is split everywhere.
        for size in 1..stream.len() {
            let (mut tx, rx) = tokio::io::duplex(size);
            let mut reader = CheckedReader::new(rx, Duration::from_secs(5), "here".into());
            let mut got = String::new();
            let (sent, read) = tokio::join!(
                async {
                    tokio::io::AsyncWriteExt::write_all(&mut tx, &stream).await?;
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
        let mut reader = CheckedReader::new(
            &b"\x15\x03\x03\x00\x02\x02\x28 and more"[..],
            Duration::from_secs(5),
            "here".into(),
        );
        let mut buf = [0; 8];
        let error = reader.read(&mut buf).await.unwrap_err();
        assert!(matches!(
            TransportError::from_io(error),
            TransportError::SecurityMismatch {
                ours: "plaintext",
                theirs: "TLS"
            }
        ));
        let again = reader.read(&mut buf).await.unwrap_err();
        assert!(matches!(
            TransportError::from_io(again),
            TransportError::Closed
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_not_waited_for_forever() {
        let (_held, rx) = tokio::io::duplex(64);
        let mut reader = CheckedReader::new(rx, Duration::from_secs(5), "here".into());
        let error = reader.read(&mut [0; 8]).await.unwrap_err();
        assert!(matches!(
            TransportError::from_io(error),
            TransportError::Timeout { .. }
        ));
    }
}
