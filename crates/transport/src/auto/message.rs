//! Messages between the two ends of `auto`, besides the offer.
//!
//! The connector's first message on the connection that it picks is the choice:
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tpchose2` |
//! | 1 | length of the pick, 1 to 255 |
//! | that | the transport's name and settings: `tcp:cc=bbr` |
//!
//! The listener answers with one byte on the same connection, in front of everything else.
//!
//! In plaintext, the first message on a TCP connection may also be the join of a further connection of `tcp-striped`.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Offer, Pick};
use crate::{TcpStriped, TransportError, striped::join};

pub(super) const MAGIC: [u8; 8] = *b"tpchose2";

/// The first message of a connector on a connection.
#[derive(Debug)]
pub(super) enum Message {
    /// The connection becomes the link.
    Choice(Pick),
    /// The connection is a further one of `tcp-striped`.
    Join([u8; join::LENGTH]),
    /// The connector picks something that this version does not know.
    Unknown,
}

/// Encodes the choice.
pub(super) fn encode(pick: &Pick) -> Vec<u8> {
    let text = pick.to_string();
    let mut bytes = MAGIC.to_vec();
    // A name with its settings is shorter than 255 bytes.
    bytes.push(text.len() as u8);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

impl Message {
    /// Reads one message and no byte after it. Returns `None` if the connection ends first.
    async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>, TransportError> {
        let mut magic = [0; MAGIC.len()];
        let read = async {
            reader.read_exact(&mut magic).await?;
            let mut body = match magic {
                MAGIC => vec![0; reader.read_u8().await?.into()],
                join::MAGIC => vec![0; join::LENGTH - magic.len()],
                _ => Vec::new(),
            };
            reader.read_exact(&mut body).await?;
            std::io::Result::Ok(body)
        };
        let body = match read.await {
            Ok(body) => body,
            Err(error) => {
                tracing::trace!(%error, "a connection ended that was not picked");
                return Ok(None);
            }
        };
        match magic {
            MAGIC => {
                let pick = str::from_utf8(&body)
                    .ok()
                    .and_then(|text| text.parse().ok());
                Ok(Some(pick.map_or(Self::Unknown, Self::Choice)))
            }
            join::MAGIC => {
                let mut bytes = [0; join::LENGTH];
                bytes[..magic.len()].copy_from_slice(&magic);
                bytes[magic.len()..].copy_from_slice(&body);
                Ok(Some(Self::Join(bytes)))
            }
            other => Err(TransportError::NotTranspute {
                evidence: format!(
                    "it sent \"{}\", expected the choice of a transport (\"{}\"); give the same --transport on both sides",
                    other.escape_ascii(),
                    MAGIC.escape_ascii(),
                ),
            }),
        }
    }
}

/// Reads the first message on a connection and answers a choice. Returns `None` if the connection ends first.
///
/// `here` names the transports that may be picked on this connection.
///
/// # Errors
/// [`TransportError::NotTranspute`], after the peer was told where it is a choice that cannot be taken.
pub(super) async fn hear(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    offer: &Offer,
    here: &[&str],
) -> Result<Option<Message>, TransportError> {
    let Some(message) = Message::read(reader).await? else {
        return Ok(None);
    };
    let reply = match &message {
        Message::Choice(pick) if !offer.allows(pick.transport()) => Answer::NotOffered,
        Message::Choice(pick) if !here.contains(&pick.transport()) => Answer::NotHere,
        Message::Choice(_) => {
            answer(writer, Answer::Taken).await?;
            return Ok(Some(message));
        }
        Message::Join(_) if !here.contains(&TcpStriped::NAME) => Answer::NotUnderstood,
        Message::Join(_) if !offer.allows(TcpStriped::NAME) => Answer::NotOffered,
        Message::Join(_) => return Ok(Some(message)),
        Message::Unknown => Answer::NotUnderstood,
    };
    let refusal = async {
        answer(writer, reply).await?;
        writer.shutdown().await.map_err(TransportError::from_io)
    };
    // The caller's time limit for the choice holds here, too.
    let _ = refusal.await;
    Err(TransportError::NotTranspute {
        evidence: format!("its choice of a transport was refused: {}", reply.reason()),
    })
}

async fn answer(
    writer: &mut (impl AsyncWrite + Unpin),
    answer: Answer,
) -> Result<(), TransportError> {
    let sent = async {
        writer.write_all(&[answer as u8]).await?;
        writer.flush().await
    };
    sent.await.map_err(TransportError::from_io)
}

/// The listener's answer to a choice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Answer {
    Taken = 0,
    NotOffered = 1,
    NotHere = 2,
    NotUnderstood = 3,
}

impl Answer {
    fn reason(self) -> &'static str {
        match self {
            Self::Taken => "it is taken",
            Self::NotOffered => "the listener does not offer that transport",
            Self::NotHere => "it was sent on the connection of another transport",
            Self::NotUnderstood => "the listener does not know what was picked",
        }
    }

    /// Checks the byte that came from the listener.
    pub(super) fn check(byte: u8) -> Result<(), TransportError> {
        let answers = [Self::NotOffered, Self::NotHere, Self::NotUnderstood];
        if byte == Self::Taken as u8 {
            return Ok(());
        }
        Err(
            match answers.into_iter().find(|known| *known as u8 == byte) {
                Some(answer) => TransportError::ChoiceRefused {
                    reason: answer.reason(),
                },
                None => TransportError::NotTranspute {
                    evidence: format!("it answered {byte:#04x} to the choice of a transport"),
                },
            },
        )
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
        assert!(Answer::check(0).is_ok());
        for byte in 1..=3 {
            let error = Answer::check(byte).unwrap_err();
            assert!(matches!(error, TransportError::ChoiceRefused { .. }));
        }
        let error = Answer::check(4).unwrap_err();
        assert!(matches!(error, TransportError::NotTranspute { .. }));
    }

    #[tokio::test]
    async fn no_byte_after_a_message_is_read() {
        let join = [&join::MAGIC[..], &[9; join::LENGTH - 8]].concat();
        for message in [encode(&pick("tcp-striped:n=3,cc=reno")), join] {
            let mut stream = &[&message[..], b"payload"].concat()[..];
            let here = [TcpStriped::NAME];
            let heard = hear(&mut stream, &mut Vec::new(), &Offer::all(), &here).await;
            assert!(heard.unwrap().is_some());
            assert_eq!(stream, b"payload");
        }
    }

    #[tokio::test]
    async fn each_choice_is_answered() {
        let join = [&join::MAGIC[..], &[9; join::LENGTH - 8]].concat();
        let offer = Offer::of(["tcp", "rudp"]).unwrap();
        for (message, expected) in [
            (&b"tpchose2\x03tcp"[..], &b"\x00"[..]),
            (b"tpchose2\x04quic", b"\x01"),
            (b"tpchose2\x04rudp", b"\x02"),
            (b"tpchose2\x03udp", b"\x03"),
            (b"tpchose2\x00", b"\x03"),
            (b"tpchose2\x02\xff\xff", b"\x03"),
            (&join, b"\x03"),
            (b"tpchose1\x03tcp\x00\x00", b""),
            (b"GET / HTTP/1.1\r\n", b""),
        ] {
            let mut sent = Vec::new();
            let heard = hear(&mut &message[..], &mut sent, &offer, &["tcp"]).await;
            assert_eq!(sent, expected, "{}", message.escape_ascii());
            assert_eq!(heard.is_ok(), expected == b"\x00");
        }
        for cut in [&b""[..], b"tp", b"tpchose2", b"tpchose2\x03tc", b"tpstrip2"] {
            let heard = hear(&mut &cut[..], &mut Vec::new(), &offer, &["tcp"]).await;
            assert!(heard.unwrap().is_none(), "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(Message::read(&mut &bytes[..]));
            bytes.splice(0..0, MAGIC);
            let _ = runtime.block_on(Message::read(&mut &bytes[..]));
        }
    }
}
