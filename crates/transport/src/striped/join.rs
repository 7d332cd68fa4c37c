//! What each connection says first, so that the listener knows which ones belong together.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tpstrip2`; `stripe04` on a connection without TLS of its own |
//! | 16 | the link's random id |
//! | 1 | number of this stripe, from 0 |
//! | 1 | most stripes that the link will have |
//! | 32 | tag |
//!
//! A link begins with stripe 0, and goes on with the others as they come. To each of these the listener says one byte, 0,
//! when it has let it in. Then both ends know that it belongs to the link, and not before: whatever happens to a connection
//! before that costs the link nothing.
//!
//! Stripe 0 travels inside TLS, where both ends have proved their identities. The others may do so too. Or they have no
//! handshake but this one, and are sealed with keys from the session of stripe 0 (`sealed`): then the join is sent in the
//! clear, and everything after it is sealed. The connector sends the first field of such a join as soon as the connection is
//! open; the listener answers with a challenge of 16 random bytes; the connector sends the other fields.
//!
//! Inside TLS the tag is HMAC-SHA-256, with a key exported from the TLS session of stripe 0 (RFC 8446, section 7.5), over
//! what this stripe's own session exports and its numbers. Of a sealed stripe, it is over its numbers and the challenge,
//! with another key of that session. Only the holder of those sessions can compute it, so no connection can be added to
//! the link of other parties, not even by another trusted peer. A copy of a join is worthless on another connection, whose
//! challenge differs. In plaintext the tag is zero, and the id alone holds a link together.

use aws_lc_rs::hmac;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::{
    TransportError,
    tcp::{Channel, Context, Socket},
};

pub(crate) const MAGIC: [u8; 8] = *b"tpstrip2";
/// The same of a sealed stripe. Neither TLS nor the preamble of plaintext begins with its first letter.
pub(super) const MAGIC_SEALED: [u8; 8] = *b"stripe04";
/// What the listener says to a further stripe that it lets in.
pub(super) const JOINED: u8 = 0;

pub(super) const ID: usize = 16;
pub(super) const TAG: usize = 32;
pub(super) const CHALLENGE: usize = 16;
pub(crate) const LENGTH: usize = MAGIC.len() + ID + 2 + TAG;

/// Most stripes of a link.
pub(crate) const MAX_STRIPES: u8 = 32;

const LABEL: &[u8] = b"EXPORTER-transpute-striped";

/// What a stripe says about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Join {
    pub(super) id: [u8; ID],
    pub(crate) index: u8,
    /// How many there may be.
    pub(crate) count: u8,
    pub(super) tag: [u8; TAG],
}

/// The listener's random answer to the first field of a sealed join.
pub(super) type Challenge = [u8; CHALLENGE];

/// The join of a sealed stripe, and the challenge that it must answer.
pub(crate) struct SealedJoin {
    pub(super) join: Join,
    pub(super) challenge: Challenge,
}

/// What a connection's TLS session exports for a link; `None` in plaintext.
pub(super) struct Binding(Option<Zeroizing<[u8; 32]>>);

impl Binding {
    pub(super) fn of(channel: &Channel, id: &[u8; ID]) -> Result<Self, TransportError> {
        Ok(Self(channel.export(LABEL, id)?))
    }

    /// Makes the tag of the stripe whose session this is.
    pub(super) fn tag(&self, first: &Self, index: u8, count: u8) -> [u8; TAG] {
        let mut tag = [0; TAG];
        if let Some((key, message)) = self.input(first, index, count) {
            tag.copy_from_slice(hmac::sign(&key, &message[..]).as_ref());
        }
        tag
    }

    /// Checks the tag of a stripe, in constant time.
    pub(super) fn verify(&self, first: &Self, join: &Join) -> bool {
        match self.input(first, join.index, join.count) {
            Some((key, message)) => hmac::verify(&key, &message[..], &join.tag).is_ok(),
            // One in TLS and one in plaintext do not come from the same listener.
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
    /// Encodes what follows [`MAGIC_SEALED`] and the challenge.
    pub(super) fn encode_sealed(&self) -> [u8; LENGTH - MAGIC_SEALED.len()] {
        let mut fields = [0; LENGTH - MAGIC_SEALED.len()];
        fields.copy_from_slice(&self.encode()[MAGIC_SEALED.len()..]);
        fields
    }

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
            return Err(no_join());
        }
        let (index, count) = (bytes[24], bytes[25]);
        if !(1..=MAX_STRIPES).contains(&count) || index >= count {
            return Err(TransportError::NotTranspute {
                evidence: format!("it opened a stripe with the number {index} of {count}"),
            });
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

    /// Reads what a fresh connection says first.
    pub(crate) async fn read(
        channel: &mut Channel,
        context: &Context,
    ) -> Result<Self, TransportError> {
        Self::decode(&read(channel, context).await?)
    }

    /// Reads the join of a sealed stripe, and sends the challenge. `None`: the connection is not to be a sealed stripe, and
    /// nothing was taken from it. After an error the connection is closed.
    pub(crate) async fn read_sealed(
        socket: &mut Socket,
        context: &Context,
    ) -> Result<Option<SealedJoin>, TransportError> {
        let join = Self::try_read_sealed(socket, context).await;
        if join.is_err() {
            socket.clone().close_politely().await;
        }
        join
    }

    async fn try_read_sealed(
        socket: &mut Socket,
        context: &Context,
    ) -> Result<Option<SealedJoin>, TransportError> {
        let first = context.limit("the first byte", socket.first_byte()).await?;
        if first.map_err(TransportError::from_io)? != Some(MAGIC_SEALED[0]) {
            return Ok(None);
        }
        if read::<{ MAGIC_SEALED.len() }>(socket, context).await? != MAGIC_SEALED {
            return Err(no_join());
        }
        let challenge: Challenge = rand::random();
        let sent = async {
            socket.write_all(&challenge).await?;
            socket.flush().await
        };
        (context.limit("the challenge to be sent", sent).await?)
            .map_err(TransportError::from_io)?;
        let fields: [u8; LENGTH - MAGIC_SEALED.len()] = read(socket, context).await?;
        let mut bytes = [0; LENGTH];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[MAGIC.len()..].copy_from_slice(&fields);
        let join = Self::decode(&bytes)?;
        match join.index {
            0 => Err(TransportError::NotTranspute {
                evidence: "it opened the first stripe of a link in the clear".into(),
            }),
            _ => Ok(Some(SealedJoin { join, challenge })),
        }
    }
}

fn no_join() -> TransportError {
    TransportError::NotTranspute {
        evidence: "it opened a stripe without saying so; it may use another transport".into(),
    }
}

pub(super) async fn read<const N: usize>(
    stream: &mut (impl AsyncRead + Unpin),
    context: &Context,
) -> Result<[u8; N], TransportError> {
    let mut bytes = [0; N];
    context
        .limit(
            "the connection to join a link",
            stream.read_exact(&mut bytes),
        )
        .await?
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => TransportError::ClosedDuringHandshake,
            _ => TransportError::from_io(error),
        })?;
    Ok(bytes)
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
