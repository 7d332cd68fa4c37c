//! What a listener says before anybody asks: which transports it allows, and a few words for the layer above.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tpoffer1` |
//! | 1 | number of transports, 1 to 16 |
//! | each | length (1), name: `a`-`z`, `0`-`9` and `-`, 1 to 32 of them |
//! | 2 | length of the words for the layer above, at most 1,024 |
//! | that | those words |

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{NAME, Pick};
use crate::{Quic, Rudp, Security, Tcp, TcpStriped, TransportError};

pub(super) const MAGIC: [u8; 8] = *b"tpoffer1";

/// The longest message of the layer above, in bytes: a certificate that carries it still fits into two packets.
const MAX_BLOB: usize = 1024;
const MAX_NAMES: usize = 16;
const MAX_NAME: usize = 32;

/// What a listener offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    names: Vec<String>,
    blob: Vec<u8>,
}

impl Offer {
    /// Offers all transports of which `auto` can make one the link: `tcp`, `tcp-striped`, `quic` and `rudp`.
    #[must_use]
    pub fn all() -> Self {
        Self {
            names: [Tcp::NAME, TcpStriped::NAME, Quic::NAME, Rudp::NAME]
                .map(String::from)
                .to_vec(),
            blob: Vec::new(),
        }
    }

    /// Offers the transports of these names.
    ///
    /// # Errors
    /// [`TransportError::UnknownTransport`] if `auto` cannot make one of them the link, or there is none.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TransportError> {
        let all = Self::all();
        let mut offer = Self {
            names: Vec::new(),
            blob: Vec::new(),
        };
        let unknown = |name: &str| TransportError::UnknownTransport {
            name: name.into(),
            known: all.names.clone(),
        };
        for name in names {
            if !all.allows(name) {
                return Err(unknown(name));
            }
            if !offer.allows(name) {
                offer.names.push(name.into());
            }
        }
        if offer.names.is_empty() {
            return Err(unknown(""));
        }
        Ok(offer)
    }

    /// Adds a message to the layer above on the other side. Whoever connects can read it, before he has shown who he is.
    ///
    /// # Errors
    /// [`TransportError::TooLong`] if it has more than 1,024 bytes.
    pub fn saying(self, blob: impl Into<Vec<u8>>) -> Result<Self, TransportError> {
        let blob = blob.into();
        if blob.len() > MAX_BLOB {
            return Err(TransportError::TooLong {
                got: blob.len(),
                limit: MAX_BLOB,
            });
        }
        Ok(Self { blob, ..self })
    }

    /// Returns the names of the transports that are allowed. A later version of the peer may name some that are not
    /// known here.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns whether the transport of this name is allowed.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Describes it to a peer that has named a transport which is not offered.
    pub(super) fn describe(&self) -> String {
        format!("{NAME} ({})", self.names.join(", "))
    }

    /// The offer of a listener that uses this transport by its name.
    pub(super) fn only(transport: &str) -> Self {
        Self {
            names: vec![transport.into()],
            blob: Vec::new(),
        }
    }

    /// Returns the message of the layer above.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Leaves out what there is not in plaintext.
    pub(super) fn fit_for(mut self, security: &Security) -> Result<Self, TransportError> {
        if matches!(security, Security::Plaintext) {
            self.names.retain(|name| name != Quic::NAME);
        }
        if self.names.is_empty() {
            return Err(TransportError::NoPlaintext {
                transport: Quic::NAME,
                instead: Tcp::NAME,
            });
        }
        Ok(self)
    }

    /// Checks that a transport may be picked.
    pub(super) fn check(&self, pick: &Pick) -> Result<(), TransportError> {
        if self.allows(pick.transport()) {
            return Ok(());
        }
        Err(TransportError::NotOffered {
            transport: pick.transport(),
            offered: self.names.clone(),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        // All lengths fit: they were checked when the offer was made.
        bytes.push(self.names.len() as u8);
        for name in &self.names {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.extend_from_slice(&(self.blob.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.blob);
        bytes
    }

    /// Reads an offer and nothing after it.
    pub(super) async fn read(
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Result<Self, TransportError> {
        let mut magic = [0; MAGIC.len()];
        reader.read_exact(&mut magic).await.map_err(ended)?;
        if magic != MAGIC {
            return Err(malformed("it does not begin with one of this version"));
        }
        let count = usize::from(reader.read_u8().await.map_err(ended)?);
        if !(1..=MAX_NAMES).contains(&count) {
            return Err(malformed("it has too many transports or none"));
        }
        let mut names: Vec<String> = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::from(reader.read_u8().await.map_err(ended)?);
            if !(1..=MAX_NAME).contains(&length) {
                return Err(malformed("a transport has too long a name or none"));
            }
            let mut name = vec![0; length];
            reader.read_exact(&mut name).await.map_err(ended)?;
            let is_plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            match String::from_utf8(name) {
                Ok(name) if name.as_bytes().iter().all(is_plain) => names.push(name),
                _ => return Err(malformed("a transport's name is none")),
            }
        }
        let length = usize::from(reader.read_u16_le().await.map_err(ended)?);
        if length > MAX_BLOB {
            return Err(malformed("its message is too long"));
        }
        let mut blob = vec![0; length];
        reader.read_exact(&mut blob).await.map_err(ended)?;
        Ok(Self { names, blob })
    }

    /// Reads an offer that was said in a certificate.
    pub(super) async fn decode(mut bytes: &[u8]) -> Result<Self, TransportError> {
        // From memory: this never waits.
        let offer = Self::read(&mut bytes).await.map_err(|error| match error {
            TransportError::ClosedDuringHandshake => malformed("it ends early"),
            other => other,
        })?;
        if bytes.is_empty() {
            Ok(offer)
        } else {
            Err(malformed("something follows it"))
        }
    }
}

fn malformed(what: &str) -> TransportError {
    TransportError::NotTranspute {
        evidence: format!("its offer of transports cannot be understood: {what}"),
    }
}

fn ended(error: std::io::Error) -> TransportError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => {
            TransportError::ClosedDuringHandshake
        }
        _ => TransportError::from_io(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Offer, TransportError> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(Offer::decode(bytes))
    }

    #[test]
    fn an_offer_is_what_the_document_says() {
        let offer = Offer::of(["tcp", "rudp", "tcp"]).unwrap();
        let offer = offer.saying(*b"fast").unwrap();
        let bytes = offer.encode();
        assert_eq!(bytes, b"tpoffer1\x02\x03tcp\x04rudp\x04\x00fast");
        assert_eq!(decode(&bytes).unwrap(), offer);
        let all = Offer::all().saying(vec![7; 1024]).unwrap();
        assert_eq!(decode(&all.encode()).unwrap(), all);
        assert_eq!(
            all.names().collect::<Vec<_>>(),
            ["tcp", "tcp-striped", "quic", "rudp"]
        );
    }

    #[test]
    fn what_cannot_be_offered_is_refused() {
        assert!(matches!(
            Offer::of(["tcp", "udp"]),
            Err(TransportError::UnknownTransport { name, .. }) if name == "udp"
        ));
        assert!(Offer::of([]).is_err());
        assert!(matches!(
            Offer::all().saying(vec![0; 1025]),
            Err(TransportError::TooLong {
                got: 1025,
                limit: 1024
            })
        ));
        let offer = Offer::of(["tcp"]).unwrap();
        assert!(matches!(
            offer.check(&Pick::Quic),
            Err(TransportError::NotOffered {
                transport: "quic",
                ..
            })
        ));
    }

    #[test]
    fn malformed_offers_are_told_from_good_ones() {
        let good = Offer::all().saying(*b"fast").unwrap().encode();
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        for bad in [
            &b"tpoffer2\x01\x03tcp\x00\x00"[..],
            b"tpoffer1\x00\x00\x00",
            b"tpoffer1\x11\x03tcp\x00\x00",
            b"tpoffer1\x01\x00\x00\x00",
            b"tpoffer1\x01\x21aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x00\x00",
            b"tpoffer1\x01\x03TCP\x00\x00",
            b"tpoffer1\x01\x03t\xff\xff\x00\x00",
            b"tpoffer1\x01\x03tcp\x00\x00.",
            &[&b"tpoffer1\x01\x03tcp\x01\x04"[..], &[0; 1025]].concat(),
        ] {
            assert!(
                matches!(decode(bad), Err(TransportError::NotTranspute { .. })),
                "{bad:?}"
            );
        }
        // A transport of a later version does no harm.
        let later = decode(b"tpoffer1\x02\x03tcp\x06warp-9\x00\x00").unwrap();
        assert!(
            later.allows("warp-9")
                && later
                    .check(&Pick::Tcp {
                        congestion_control: None
                    })
                    .is_ok()
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>) {
            let _ = decode(&bytes);
            bytes.splice(0..0, MAGIC);
            let _ = decode(&bytes);
        }
    }
}
