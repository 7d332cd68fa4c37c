//! The join message: the first message of each connection. By it, the listener groups the
//! connections into links.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tpstrip3` |
//! | 16 | the link's random id |
//! | 1 | number of this stripe, from 0 |
//! | 1 | maximum number of stripes of the link |
//! | 32 | tag |
//!
//! A link begins with stripe 0. The other stripes join as they arrive. When the listener accepts
//! another stripe, it answers with one byte, 0. From then on, both ends know that the stripe
//! belongs to the link. If the connection fails before, the link is not affected.
//!
//! The message is inside TLS, in which both ends have proved their identities. The tag is an
//! HMAC-SHA-256, with a key exported from the TLS session of stripe 0 (RFC 8446, section 7.5), over
//! the value exported from this stripe's own session, its number and the maximum number of stripes.
//! Only the two ends of both sessions can compute the tag. So no other party can add a connection
//! to a link, not even another trusted peer. In plaintext the tag is zero, and only the id connects
//! the stripes of a link.

use ring::hmac;
use tokio::io::AsyncReadExt;
use zeroize::Zeroizing;

use crate::{
    HandshakeError, TransportError,
    tcp::{Channel, Context},
};

pub(crate) const MAGIC: [u8; 8] = *b"tpstrip3";
/// The byte by which the listener accepts a stripe other than stripe 0.
pub(super) const JOINED: u8 = 0;

pub(super) const ID: usize = 16;
pub(super) const TAG: usize = 32;
pub(crate) const LENGTH: usize = MAGIC.len() + ID + 2 + TAG;

/// Maximum number of stripes of a link.
pub(crate) const MAX_STRIPES: u8 = 32;

const LABEL: &[u8] = b"EXPORTER-transpute-striped";

/// The first message of a stripe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Join {
    pub(super) id: [u8; ID],
    pub(crate) index: u8,
    /// Maximum number of stripes of the link.
    pub(crate) count: u8,
    pub(super) tag: [u8; TAG],
}

/// The secret that is exported from a connection's TLS session for a link. `None` in plaintext.
pub(super) struct Binding(Option<Zeroizing<[u8; 32]>>);

impl Binding {
    pub(super) fn of(channel: &Channel, id: &[u8; ID]) -> Result<Self, TransportError> {
        Ok(Self(channel.export(LABEL, id)?))
    }

    /// Returns the tag of stripe `index`. `self` is the secret from this stripe's TLS session, and
    /// `first` is the secret from the session of stripe 0.
    pub(super) fn tag(&self, first: &Self, index: u8, count: u8) -> [u8; TAG] {
        let mut tag = [0; TAG];
        if let Some((key, message)) = self.input(first, index, count) {
            tag.copy_from_slice(hmac::sign(&key, &message[..]).as_ref());
        }
        tag
    }

    /// Checks the tag of a stripe, in constant time. `first` is the secret from the TLS session of
    /// stripe 0.
    pub(super) fn verify(&self, first: &Self, join: &Join) -> bool {
        match self.input(first, join.index, join.count) {
            Some((key, message)) => hmac::verify(&key, &message[..], &join.tag).is_ok(),
            // In plaintext, the tag must be zero.
            None => self.0.is_none() && first.0.is_none() && join.tag == [0; TAG],
        }
    }

    fn input(
        &self,
        first: &Self,
        index: u8,
        count: u8,
    ) -> Option<(hmac::Key, Zeroizing<[u8; 34]>)> {
        let (own, first) = (self.0.as_ref()?, first.0.as_ref()?);
        let mut message = Zeroizing::new([0; 34]);
        message[..32].copy_from_slice(&own[..]);
        message[32..].copy_from_slice(&[index, count]);
        Some((hmac::Key::new(hmac::HMAC_SHA256, &first[..]), message))
    }
}

impl Join {
    pub(super) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.id);
        bytes[24] = self.index;
        bytes[25] = self.count;
        bytes[26..].copy_from_slice(&self.tag);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; LENGTH]) -> Result<Self, TransportError> {
        if bytes[..8] != MAGIC {
            return Err(TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: "it opened a stripe without saying so; it may use another transport"
                    .into(),
            }));
        }
        let (index, count) = (bytes[24], bytes[25]);
        if !(1..=MAX_STRIPES).contains(&count) || index >= count {
            return Err(TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: format!("it opened a stripe with the number {index} of {count}"),
            }));
        }
        let (mut id, mut tag) = ([0; ID], [0; TAG]);
        id.copy_from_slice(&bytes[8..24]);
        tag.copy_from_slice(&bytes[26..]);
        Ok(Self {
            id,
            index,
            count,
            tag,
        })
    }

    /// Reads the first message of a connection.
    pub(crate) async fn read(
        channel: &mut Channel,
        context: &Context,
    ) -> Result<Self, TransportError> {
        let mut bytes = [0; LENGTH];
        let read = channel.read_exact(&mut bytes);
        context
            .limit("the connection to join a link", read)
            .await?
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
                }
                _ => TransportError::from_io(error),
            })?;
        Self::decode(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(byte: u8) -> Binding {
        Binding(Some(Zeroizing::new([byte; 32])))
    }

    fn join(tag: [u8; TAG]) -> Join {
        Join {
            id: [7; ID],
            index: 1,
            count: 4,
            tag,
        }
    }

    #[test]
    fn a_tag_fits_one_pair_of_sessions_and_one_number() {
        let (first, own) = (binding(1), binding(2));
        let good = join(own.tag(&first, 1, 4));
        assert!(own.verify(&first, &good));
        assert!(!own.verify(&binding(3), &good), "another first session");
        assert!(!binding(3).verify(&first, &good), "another own session");
        assert!(!own.verify(
            &first,
            &Join {
                index: 2,
                ..good.clone()
            }
        ));
        assert!(!own.verify(
            &first,
            &Join {
                count: 5,
                ..good.clone()
            }
        ));
        assert!(!own.verify(&first, &join([0; TAG])));
        let plaintext = Binding(None);
        assert!(plaintext.verify(&plaintext, &join([0; TAG])));
        assert!(!plaintext.verify(&plaintext, &good));
        assert!(!own.verify(&plaintext, &join([0; TAG])));
        assert!(!plaintext.verify(&first, &join([0; TAG])));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = join([9; TAG]);
        assert_eq!(Join::decode(&good.encode()).unwrap(), good);
        for (index, count) in [(0, 0), (4, 4), (0, MAX_STRIPES + 1), (255, 255)] {
            let bad = Join {
                index,
                count,
                ..good.clone()
            };
            assert!(Join::decode(&bad.encode()).is_err(), "{index} of {count}");
        }
        let mut bytes = good.encode();
        bytes[0] ^= 1;
        assert!(Join::decode(&bytes).is_err());
    }
}
