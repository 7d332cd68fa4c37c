//! Messages between the two ends of `auto`, besides the offer.
//!
//! The connector's first message on the connection that it picks is the choice, which the listener answers with one byte in front
//! of everything else. docs/protocol.md, "Choice" and "Answer", has the bytes. The first message on a TCP connection may also be the
//! join of a further connection of `tcp-striped`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{Offer, Pick};
use crate::{ConnectError, HandshakeError, StreamError, TcpStriped, TransportError, striped::join};

pub(super) const MAGIC: [u8; 8] = *b"tpchose2";

const TAKEN: u8 = 0;
const REFUSED: u8 = 1;

/// The first message of a connector on a connection.
#[derive(Debug)]
pub(super) enum Message {
    /// The connection becomes the link.
    Choice(Pick),
    /// The connection is a further one of `tcp-striped`.
    Join([u8; join::LENGTH]),
}

/// Encodes the choice.
pub(super) fn encode(pick: &Pick) -> Vec<u8> {
    let text = pick.to_string();
    // A name with its settings is shorter than 255 bytes.
    [&MAGIC[..], &[text.len() as u8], text.as_bytes()].concat()
}

/// Reads the first message on a connection, and no byte after it, and answers a choice. Returns `None` if the connection ends
/// first.
///
/// `here` names the transports that may be picked on this connection.
///
/// # Errors
/// [`HandshakeError::NotTranspute`], after the answer where it is a choice that is refused.
pub(super) async fn hear(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    offer: &Offer,
    here: &[&'static str],
) -> Result<Option<Message>, TransportError> {
    let (magic, body) = match read(reader).await {
        Ok(message) => message,
        Err(error) => {
            tracing::trace!(%error, "a connection ended that was not picked");
            return Ok(None);
        }
    };
    let message = match magic {
        MAGIC => (str::from_utf8(&body).ok())
            .and_then(|text| {
                let is_other = |name: &&&str| Pick::is_other(name) && **name == text;
                let other = here.iter().find(is_other);
                (text.parse().ok()).or_else(|| other.map(|name| Pick::Other(name)))
            })
            .map(Message::Choice),
        join::MAGIC => ([&magic[..], &body].concat().try_into().ok()).map(Message::Join),
        _ => {
            let (sent, expected) = (magic.escape_ascii(), MAGIC.escape_ascii());
            return Err(TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: format!(
                    "it sent \"{sent}\", expected a choice (\"{expected}\"); give the same --transport on both sides"
                ),
            }));
        }
    };
    let transport = match &message {
        Some(Message::Choice(pick)) => pick.transport(),
        Some(Message::Join(_)) => TcpStriped::NAME,
        None => "unknown to this version",
    };
    let is_allowed = offer.allows(transport) && here.contains(&transport);
    let answer = match &message {
        Some(Message::Join(_)) if is_allowed => return Ok(message),
        _ if is_allowed => TAKEN,
        _ => REFUSED,
    };
    let answered = async {
        writer.write_all(&[answer]).await?;
        writer.flush().await
    };
    answered.await.map_err(TransportError::from_io)?;
    if is_allowed {
        return Ok(message);
    }
    let _ = writer.shutdown().await;
    Err(TransportError::Handshake(HandshakeError::NotTranspute {
        evidence: format!("it picked a transport that this connection does not allow: {transport}"),
    }))
}

/// Reads a message: its magic and what follows that.
async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<([u8; MAGIC.len()], Vec<u8>)> {
    let mut magic = [0; MAGIC.len()];
    reader.read_exact(&mut magic).await?;
    let mut body = match magic {
        MAGIC => vec![0; reader.read_u8().await?.into()],
        join::MAGIC => vec![0; join::LENGTH - magic.len()],
        _ => Vec::new(),
    };
    reader.read_exact(&mut body).await?;
    Ok((magic, body))
}

/// A reader that checks the listener's answer in front of the first byte: the connector does not wait for it.
pub(super) struct Answered<R> {
    inner: R,
    /// `None` until the answer is there, then whether it takes the choice.
    is_taken: Option<bool>,
}

impl<R> Answered<R> {
    pub(super) fn new(inner: R) -> Self {
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

    fn pick(text: &str) -> Pick {
        text.parse().unwrap()
    }

    #[test]
    fn a_choice_is_what_the_document_says() {
        assert_eq!(encode(&pick("tcp:cc=bbr")), b"tpchose2\x0atcp:cc=bbr");
        assert_eq!(encode(&pick("rudp")), b"tpchose2\x04rudp");
    }

    #[tokio::test]
    async fn each_choice_is_answered() {
        let join = [&join::MAGIC[..], &[9; join::LENGTH - 8]].concat();
        let offer = Offer::of(["tcp", "rudp"]).unwrap();
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
            let heard = hear(&mut &message[..], &mut sent, &offer, &["tcp"]).await;
            assert_eq!(sent, expected, "{}", message.escape_ascii());
            assert_eq!(heard.is_ok(), expected == [TAKEN]);
        }
        for cut in [&b""[..], b"tp", b"tpchose2", b"tpchose2\x03tc", b"tpstrip3"] {
            let heard = hear(&mut &cut[..], &mut Vec::new(), &offer, &["tcp"]).await;
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
                hear(&mut &bytes[..], &mut Vec::new(), &Offer::all(), &["tcp"]).await
            };
            let _ = runtime.block_on(hearing);
        }
    }
}
