//! Messages between the two ends of `auto`, other than the offer.
//!
//! The connector's first message on its chosen connection is the choice. The listener accepts or
//! refuses it with one byte before it sends any other data. docs/protocol.md, "Choice" and
//! "Answer", specifies the bytes. On a TCP connection, the first message may instead be a join
//! message, with which the connection joins an existing `tcp-striped` link.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::pick::Pick;
use crate::{ConnectError, HandshakeError, StreamError, TransportError};

pub(super) const MAGIC: [u8; 8] = *b"tpchose2";

const TAKEN: u8 = 0;
const REFUSED: u8 = 1;

/// Time limit for sending a choice. The connection is idle and its buffers are empty, so sending
/// takes this long only if the connection is broken.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The first message of a connector on a connection.
#[derive(Debug)]
pub(crate) enum Message {
    /// The connector chooses this connection: it becomes the link.
    Choice(Pick),
    /// The connection becomes a further stripe of an existing link. The value is the whole join
    /// message.
    Join(Vec<u8>),
}

/// The format of the message with which a connection joins an existing link.
#[derive(Clone, Copy)]
pub(crate) struct JoinFormat {
    /// The first bytes of the message, which identify it.
    pub(crate) magic: [u8; 8],
    /// Length of the message in bytes, including `magic`.
    pub(crate) length: usize,
    /// False if the listener does not allow `tcp-striped`. Join messages are then refused.
    pub(crate) is_allowed: bool,
}

/// Encodes the choice.
fn encode(choice: &str) -> Vec<u8> {
    // The cast is exact, because a name with its settings is at most 255 bytes long.
    [&MAGIC[..], &[choice.len() as u8], choice.as_bytes()].concat()
}

/// Sends the choice. If sending fails, reads from the connection, because the listener may have
/// sent the reason, such as a rejection of this end's identity.
pub(crate) async fn send(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    choice: &str,
) -> Result<(), TransportError> {
    let choice = encode(choice);
    let sent = async {
        writer.write_all(&choice).await?;
        writer.flush().await
    };
    let Err(error) = tokio::time::timeout(SEND_TIMEOUT, sent)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    else {
        return Ok(());
    };
    let told = tokio::time::timeout(Duration::ZERO, reader.read(&mut [0])).await;
    let told = told.ok().and_then(Result::err);
    Err(TransportError::from_io(told.unwrap_or(error)))
}

/// Closes a stream without a choice, and waits until the peer has closed its side. Returns an error
/// only if the peer has rejected this end's identity.
pub(crate) async fn close(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<(), TransportError> {
    let _ = stream.shutdown().await;
    match stream.read(&mut [0]).await.map_err(TransportError::from_io) {
        Err(refusal @ TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })) => {
            Err(refusal)
        }
        _ => Ok(()),
    }
}

/// Reads the first message on a connection, and no byte after it. If the message is a choice, sends
/// the answer: accepted or refused. Returns `None` if the connection ends before a whole message
/// has arrived.
///
/// `allows` returns whether a transport may be chosen on this connection. `join` is the format of
/// the join message that may arrive instead of a choice.
///
/// # Errors
/// Returns [`HandshakeError::NotTranspute`](crate::HandshakeError::NotTranspute) if the message is
/// invalid or the choice is not allowed. If the choice is not allowed, sends the refusal before.
pub(crate) async fn hear(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    allows: impl Fn(&Pick) -> bool,
    join: Option<JoinFormat>,
) -> Result<Option<Message>, TransportError> {
    let (magic, body) = match read(reader, join).await {
        Ok(message) => message,
        Err(error) => {
            tracing::trace!(%error, "a connection ended that was not picked");
            return Ok(None);
        }
    };
    let join = join.filter(|join| join.magic == magic);
    if join.is_some_and(|join| join.is_allowed) {
        return Ok(Some(Message::Join([&magic[..], &body].concat())));
    }
    if magic != MAGIC && join.is_none() {
        let (sent, expected) = (magic.escape_ascii(), MAGIC.escape_ascii());
        return Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: format!(
                "it sent \"{sent}\", expected a choice (\"{expected}\"); give the same --transport on both sides"
            ),
        }));
    }
    let pick = (str::from_utf8(&body).ok()).map(Pick::from);
    let pick = pick.filter(|pick| join.is_none() && allows(pick));
    let answer = pick.as_ref().map_or(REFUSED, |_| TAKEN);
    let answered = async {
        writer.write_all(&[answer]).await?;
        writer.flush().await
    };
    answered.await.map_err(TransportError::from_io)?;
    if let Some(pick) = pick {
        return Ok(Some(Message::Choice(pick)));
    }
    let _ = writer.shutdown().await;
    let sent = body.escape_ascii();
    Err(TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: format!("it picked a transport that this connection does not allow: {sent}"),
    }))
}

/// Reads a message. Returns its magic and the bytes after the magic.
async fn read(
    reader: &mut (impl AsyncRead + Unpin),
    join: Option<JoinFormat>,
) -> io::Result<([u8; MAGIC.len()], Vec<u8>)> {
    let mut magic = [0; MAGIC.len()];
    reader.read_exact(&mut magic).await?;
    let mut body = match join {
        _ if magic == MAGIC => vec![0; reader.read_u8().await?.into()],
        Some(join) if magic == join.magic => vec![0; join.length.saturating_sub(magic.len())],
        _ => Vec::new(),
    };
    reader.read_exact(&mut body).await?;
    Ok((magic, body))
}

/// A reader that consumes and checks the listener's answer to the choice before it returns the
/// first byte of the link.
pub(crate) struct Answered<R> {
    inner: R,
    /// `None` until the answer has arrived. Then `Some(true)` if the listener accepted the choice.
    is_taken: Option<bool>,
}

impl<R> Answered<R> {
    pub(crate) fn new(inner: R) -> Self {
        let is_taken = None;
        Self { inner, is_taken }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Answered<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_taken.is_none() {
            let mut byte = [0];
            let mut answer = ReadBuf::new(&mut byte);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut answer));
            let checked =
                read.and_then(|()| check(answer.filled()).map_err(TransportError::into_io));
            self.is_taken = Some(checked.is_ok());
            checked?;
        }
        match self.is_taken {
            Some(true) => Pin::new(&mut self.inner).poll_read(cx, buf),
            _ => Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io())),
        }
    }
}

fn check(answer: &[u8]) -> Result<(), TransportError> {
    match answer {
        [TAKEN] => Ok(()),
        [REFUSED] => Err(TransportError::Connect(ConnectError::ChoiceRefused)),
        [] => Err(TransportError::Handshake(
            HandshakeError::ClosedDuringHandshake,
        )),
        other => Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: format!("it answered {other:02x?} to the choice of a transport"),
        })),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JOIN: JoinFormat = JoinFormat {
        magic: *b"tpjoins1",
        length: 20,
        is_allowed: false,
    };

    fn is_tcp(pick: &Pick) -> bool {
        pick.as_str() == "tcp"
    }

    #[test]
    fn a_choice_is_what_the_document_says() {
        assert_eq!(encode("tcp:cc=bbr"), b"tpchose2\x0atcp:cc=bbr");
        assert_eq!(encode("rudp"), b"tpchose2\x04rudp");
    }

    #[tokio::test]
    async fn each_choice_is_answered() {
        let join = [&JOIN.magic[..], &[9; 12]].concat();
        for (message, expected) in [
            (&b"tpchose2\x03tcp"[..], &[TAKEN][..]),
            (b"tpchose2\x04quic", &[REFUSED]),
            (b"tpchose2\x04rudp", &[REFUSED]),
            (b"tpchose2\x03udp", &[REFUSED]),
            (b"tpchose2\x00", &[REFUSED]),
            (b"tpchose2\x02\xff\xff", &[REFUSED]),
            (&join, &[REFUSED]),
            (b"tpchose1\x03tcp\x00\x00", &[]),
            (b"GET / HTTP/1.1\r\n", &[]),
        ] {
            let mut sent = Vec::new();
            let heard = hear(&mut &message[..], &mut sent, is_tcp, Some(JOIN)).await;
            assert_eq!(sent, expected, "{}", message.escape_ascii());
            assert_eq!(heard.is_ok(), expected == [TAKEN]);
        }
        for cut in [&b""[..], b"tp", b"tpchose2", b"tpchose2\x03tc", b"tpjoins1"] {
            let heard = hear(&mut &cut[..], &mut Vec::new(), is_tcp, Some(JOIN)).await;
            assert!(heard.unwrap().is_none(), "{cut:?}");
        }
    }

    #[tokio::test]
    async fn the_answer_is_checked_and_not_handed_out() {
        let mut got = String::new();
        let mut reader = Answered::new(&b"\0payload"[..]);
        reader.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "payload");
        for (stream, is_refusal) in [(&b"\x01payload"[..], true), (b"?", false), (b"", false)] {
            let mut reader = Answered::new(stream);
            let error = TransportError::from_io(reader.read(&mut [0; 8]).await.unwrap_err());
            assert_eq!(
                matches!(error, TransportError::Connect(ConnectError::ChoiceRefused)),
                is_refusal,
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, has_magic: bool) {
            if has_magic {
                bytes.splice(0..0, MAGIC);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let hearing = async {
                hear(&mut &bytes[..], &mut Vec::new(), is_tcp, Some(JOIN)).await
            };
            let _ = runtime.block_on(hearing);
        }
    }
}
