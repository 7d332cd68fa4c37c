//! What the ends say to each other, beside the offer.
//!
//! The connector, as the first words on the connection that it picks:
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tpchose1` |
//! | 1 | length of the pick, 1 to 255 |
//! | that | the transport's name and settings: `tcp:cc=bbr` |
//! | 2 | length of the words for the layer above, at most 1,024 |
//! | that | those words |
//!
//! On the control connection its first words may be others: those with which the set-up of reliable UDP begins, or those of a
//! further connection of `tcp-striped`.
//!
//! The listener answers on the picked connection with one byte, in front of everything else.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{MAX_BLOB, Pick};
use crate::{TransportError, rudp::hello, striped::join};

pub(super) const MAGIC: [u8; 8] = *b"tpchose1";

/// What a connector picks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Choice {
    pub(super) pick: Pick,
    pub(super) blob: Vec<u8>,
}

impl Choice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let text = self.pick.to_string();
        let mut bytes = MAGIC.to_vec();
        // Both fit: names and settings are short, and the length of the other was checked.
        bytes.push(text.len() as u8);
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&(self.blob.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.blob);
        bytes
    }
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
    /// Says what it means to who has picked.
    pub(super) fn check(byte: u8) -> Result<(), TransportError> {
        let reason = match byte {
            0 => return Ok(()),
            1 => "it does not allow that transport",
            2 => "it was told on a connection of another transport",
            3 => "it did not understand what was picked",
            _ => {
                return Err(TransportError::NotTranspute {
                    evidence: format!("it answered {byte:#04x} to the choice of a transport"),
                });
            }
        };
        Err(TransportError::ChoiceRefused { reason })
    }
}

/// Something a connector says.
pub(super) enum Word {
    /// It picks the connection that it says this on.
    Choice(Choice),
    /// It wants to set up reliable UDP.
    Hello([u8; hello::LENGTH]),
    /// The connection is one of several of a link.
    Join([u8; join::LENGTH]),
    /// It picks something that cannot be understood.
    Strange,
    /// The connection has ended, with or without saying so.
    End,
}

/// Hears words one after another, and reads no byte beyond them.
#[derive(Debug, Default)]
pub(super) struct Ear {
    heard: Vec<u8>,
}

/// What is to be heard next.
enum Parsed {
    Word(Word),
    /// So many bytes are needed to know more.
    Needs(usize),
}

impl Ear {
    /// Waits for the next word. Cancel-safe.
    ///
    /// # Errors
    /// [`TransportError::NotTranspute`] if it is none.
    pub(super) async fn next(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Result<Word, TransportError> {
        loop {
            let needed = match parse(&self.heard)? {
                Parsed::Word(word) => {
                    self.heard.clear();
                    return Ok(word);
                }
                Parsed::Needs(needed) => needed,
            };
            let mut piece = [0; 256];
            let missing = (needed - self.heard.len()).min(piece.len());
            // One call of `read` loses nothing when it is cancelled.
            match reader.read(&mut piece[..missing]).await {
                Ok(0) => return Ok(Word::End),
                Ok(read) => self.heard.extend_from_slice(&piece[..read]),
                Err(error) => {
                    tracing::trace!(%error, "a connection ended that was not picked");
                    return Ok(Word::End);
                }
            }
        }
    }
}

/// Judges as early as can be, so that whoever says something else shorter is not waited for.
fn parse(heard: &[u8]) -> Result<Parsed, TransportError> {
    let begins = |magic: &[u8; 8]| {
        let compared = heard.len().min(magic.len());
        heard[..compared] == magic[..compared]
    };
    let (head, body) = heard.split_at(heard.len().min(MAGIC.len()));
    if begins(&hello::MAGIC) && head.len() == 8 {
        return Ok(whole(heard).map_or(Parsed::Needs(hello::LENGTH), |all| {
            Parsed::Word(Word::Hello(all))
        }));
    }
    if begins(&join::MAGIC) && head.len() == 8 {
        return Ok(whole(heard).map_or(Parsed::Needs(join::LENGTH), |all| {
            Parsed::Word(Word::Join(all))
        }));
    }
    if !(begins(&MAGIC) || begins(&hello::MAGIC) || begins(&join::MAGIC)) {
        return Err(TransportError::NotTranspute {
            evidence: format!(
                "it sent \"{}\" where it should pick a transport; give the same --transport on both sides",
                head.escape_ascii()
            ),
        });
    }
    let Some((&length, body)) = body.split_first() else {
        return Ok(Parsed::Needs(if head.len() < 8 { 8 } else { 9 }));
    };
    let length = usize::from(length);
    let needed = 9 + length + 2;
    let (Some(text), Some(size)) = (body.get(..length), body.get(length..length + 2)) else {
        return Ok(Parsed::Needs(needed));
    };
    let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
    if size > MAX_BLOB {
        return Ok(Parsed::Word(Word::Strange));
    }
    let Some(blob) = body.get(length + 2..length + 2 + size) else {
        return Ok(Parsed::Needs(needed + size));
    };
    let pick = (str::from_utf8(text).ok()).and_then(|text| text.parse().ok());
    Ok(Parsed::Word(match pick {
        Some(pick) => Word::Choice(Choice {
            pick,
            blob: blob.to_vec(),
        }),
        None => Word::Strange,
    }))
}

fn whole<const N: usize>(heard: &[u8]) -> Option<[u8; N]> {
    heard.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(text: &str, blob: &[u8]) -> Choice {
        Choice {
            pick: text.parse().unwrap(),
            blob: blob.to_vec(),
        }
    }

    #[test]
    fn a_choice_is_what_the_document_says() {
        assert_eq!(
            choice("tcp:cc=bbr", b"slow").encode(),
            b"tpchose1\x0atcp:cc=bbr\x04\x00slow"
        );
        assert_eq!(choice("rudp", b"").encode(), b"tpchose1\x04rudp\x00\x00");
        let answers = [
            Answer::Taken,
            Answer::NotOffered,
            Answer::NotHere,
            Answer::NotUnderstood,
        ];
        assert_eq!(answers.map(|answer| answer as u8), [0, 1, 2, 3]);
        assert!(Answer::check(0).is_ok());
        for byte in 1..=3 {
            let error = Answer::check(byte).unwrap_err();
            assert!(matches!(error, TransportError::ChoiceRefused { .. }));
        }
        assert!(Answer::check(4).is_err());
    }

    #[tokio::test]
    async fn words_are_heard_in_pieces_and_nothing_behind_them_is() {
        let said = choice("tcp-striped:n=3,cc=reno", &[9; 1000]);
        let hello = [&hello::MAGIC[..], &[1; hello::LENGTH - 8]].concat();
        let stream = [&hello[..], &said.encode(), b"payload"].concat();
        for size in [1, 2, 3, 7, 8, 9, 100, 5000] {
            let (mut tx, mut rx) = tokio::io::duplex(size);
            let listening = async {
                let mut ear = Ear::default();
                assert!(
                    matches!(ear.next(&mut rx).await, Ok(Word::Hello(got)) if got[..] == hello[..])
                );
                let Ok(Word::Choice(heard)) = ear.next(&mut rx).await else {
                    panic!("a choice was made");
                };
                assert_eq!(heard, said);
                let mut rest = String::new();
                rx.read_to_string(&mut rest).await.unwrap();
                assert_eq!(rest, "payload");
            };
            let saying = async {
                tokio::io::AsyncWriteExt::write_all(&mut tx, &stream)
                    .await
                    .unwrap();
                drop(tx);
            };
            tokio::join!(listening, saying);
        }
    }

    #[tokio::test]
    async fn what_is_no_word_is_refused_at_its_first_byte() {
        for bad in [&b"G"[..], b"tpx", b"tpchose2", b"tprudp 1", b"\0"] {
            let heard = Ear::default().next(&mut &bad[..]).await;
            assert!(matches!(heard, Err(TransportError::NotTranspute { .. })));
        }
        for strange in [
            &b"tpchose1\x03udp\x00\x00"[..],
            b"tpchose1\x00\x00\x00",
            b"tpchose1\x02\xff\xff\x00\x00",
            b"tpchose1\x03tcp\x01\x04",
        ] {
            let heard = Ear::default().next(&mut &strange[..]).await;
            assert!(matches!(heard, Ok(Word::Strange)), "{strange:?}");
        }
        for cut in [&b""[..], b"tp", b"tpchose1\x03tc", b"tpstrip2"] {
            let heard = Ear::default().next(&mut &cut[..]).await;
            assert!(matches!(heard, Ok(Word::End)), "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>) {
            let _ = parse(&bytes);
            bytes.splice(0..0, MAGIC);
            let _ = parse(&bytes);
        }
    }
}
