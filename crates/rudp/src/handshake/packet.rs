//! Packets of the set-up: their headers, which everybody can read.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | kind |
//! | 1 | 1 | version; 0 in a list of versions |
//! | 2 | 8 | id of the receiver |
//! | 10 | 8 | id of the sender |
//!
//! docs/rudp.md, "Packets", has the rest of each kind.

use super::tls::{PacketKey, TAG_BYTES};
use crate::wire::put_uint;

/// The version of this protocol.
pub const VERSION: u8 = 3;

/// The size of padded packets of the set-up, and of the packets of its trains, in bytes of UDP
/// payload (RFC 9000, section 14.1).
pub(crate) const SET_UP_DATAGRAM: usize = 1200;

/// A packet with the connector's first messages, or the listener's answer to them.
const INITIAL: u8 = 0x30;
/// A packet under the keys of the handshake level.
const HANDSHAKE: u8 = 0x31;
/// A token that shows where the connector can be reached.
const RETRY: u8 = 0x32;
/// The versions that the listener knows.
const VERSIONS: u8 = 0x33;
/// A packet of the connector's train.
const TRAIN: u8 = 0x34;

/// Bytes before the number of a packet.
const PREFIX: usize = 18;

/// Bytes of a sealed packet's header without its token: prefix, number (4), length (2).
const SEALED_HEADER: usize = PREFIX + 6;

/// The longest token that is taken, in bytes.
pub(crate) const MAX_TOKEN: usize = 64;

/// The most versions that are read from a list.
pub(crate) const MAX_VERSIONS: usize = 8;

/// An id of a connection during the set-up, chosen at random by its receiver.
pub type Id = [u8; 8];

/// A level of the handshake: which keys a packet is under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Space {
    /// Initial keys, which follow from the connector's first id: integrity against accidents.
    Initial,
    /// Keys that only the two ends have.
    Handshake,
}

impl Space {
    /// Returns the kind of the packets that carry messages of this level.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Initial => Kind::Initial,
            Self::Handshake => Kind::Handshake,
        }
    }
}

/// The kind of a packet of the set-up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Initial,
    Handshake,
    Retry,
    Versions,
    Train,
    /// The packet is of another version; only its ids are known.
    OtherVersion,
}

/// The part of the header that every kind has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) to: Id,
    pub(crate) from: Id,
}

/// A packet that was not opened yet.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) header: Header,
    pub(crate) number: u32,
    pub(crate) token: &'a [u8],
    /// Everything before the frames.
    pub(crate) associated: &'a [u8],
    /// The frames and the tag.
    pub(crate) body: &'a mut [u8],
}

/// Returns whether a datagram begins with a packet of the set-up, by its first byte.
#[must_use]
pub fn is_set_up(datagram: &[u8]) -> bool {
    datagram
        .first()
        .is_some_and(|first| first & 0xf0 == INITIAL)
}

/// Reads the header of a packet of the set-up.
pub(crate) fn header(datagram: &[u8]) -> Option<Header> {
    let (prefix, _) = datagram.split_first_chunk::<PREFIX>()?;
    let kind = match (prefix[0], prefix[1]) {
        (VERSIONS, _) => Kind::Versions,
        (INITIAL, VERSION) => Kind::Initial,
        (HANDSHAKE, VERSION) => Kind::Handshake,
        (RETRY, VERSION) => Kind::Retry,
        (TRAIN, VERSION) => Kind::Train,
        (INITIAL, _) => Kind::OtherVersion,
        _ => return None,
    };
    let id = |at: usize| {
        let mut id = Id::default();
        id.copy_from_slice(&prefix[at..at + 8]);
        id
    };
    Some(Header {
        kind,
        to: id(2),
        from: id(10),
    })
}

/// Splits the first sealed packet off a datagram. `None`: there is none.
pub(crate) fn split(datagram: &mut [u8]) -> Option<(Sealed<'_>, &mut [u8])> {
    let header = header(datagram)?;
    let has_token = match header.kind {
        Kind::Initial => true,
        Kind::Handshake | Kind::Train => false,
        Kind::Retry | Kind::Versions | Kind::OtherVersion => return None,
    };
    let number = u32::from_le_bytes(datagram.get(PREFIX..PREFIX + 4)?.try_into().ok()?);
    let length = u16::from_le_bytes(datagram.get(PREFIX + 4..SEALED_HEADER)?.try_into().ok()?);
    let token_length = match has_token {
        true => usize::from(*datagram.get(SEALED_HEADER)?),
        false => 0,
    };
    let start = SEALED_HEADER + usize::from(has_token) + token_length;
    let end = start + usize::from(length);
    if token_length > MAX_TOKEN || usize::from(length) < TAG_BYTES || end > datagram.len() {
        return None;
    }
    let (packet, rest) = datagram.split_at_mut(end);
    let (associated, body) = packet.split_at_mut(start);
    let associated = &*associated;
    let sealed = Sealed {
        header,
        number,
        token: &associated[start - token_length..],
        associated,
        body,
    };
    Some((sealed, rest))
}

/// The fixed parts of the packets that one end sends.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// The receiver of initial packets.
    pub(crate) to_first: Id,
    /// The receiver of packets under the keys of the handshake.
    pub(crate) to: Id,
    pub(crate) from: Id,
    /// The token of a Retry packet, in the connector's initial packets.
    pub(crate) token: Vec<u8>,
}

impl Envelope {
    /// Returns how many bytes a packet takes beside its frames.
    pub(crate) fn overhead(&self, space: Space) -> usize {
        let token = match space {
            Space::Initial => 1 + self.token.len(),
            Space::Handshake => 0,
        };
        SEALED_HEADER + token + TAG_BYTES
    }

    /// Appends a sealed packet of these frames. `None`: the library refuses.
    pub(crate) fn put(
        &self,
        out: &mut Vec<u8>,
        (kind, number): (Kind, u32),
        key: &dyn PacketKey,
        frames: &[u8],
    ) -> Option<()> {
        let start = out.len();
        let (first, to) = match kind {
            Kind::Train => (TRAIN, &self.to_first),
            Kind::Handshake => (HANDSHAKE, &self.to),
            _ => (INITIAL, &self.to_first),
        };
        out.extend_from_slice(&[first, VERSION]);
        out.extend_from_slice(to);
        out.extend_from_slice(&self.from);
        put_uint(out, number.into(), 4);
        // A packet is no longer than a datagram.
        put_uint(out, (frames.len() + TAG_BYTES) as u64, 2);
        if kind == Kind::Initial {
            // Tokens have at most 64 bytes.
            out.push(self.token.len() as u8);
            out.extend_from_slice(&self.token);
        }
        let header = out[start..].to_vec();
        let body = out.len();
        out.extend_from_slice(frames);
        let tag = key.seal(number.into(), &header, &mut out[body..])?;
        out.extend_from_slice(&tag);
        Some(())
    }
}

/// Returns a packet that asks the connector to show with this token where it can be reached.
pub(crate) fn retry(asked: &Header, token: &[u8]) -> Vec<u8> {
    let mut packet = answer(RETRY, VERSION, asked);
    // Tokens have at most 64 bytes.
    packet.push(token.len() as u8);
    packet.extend_from_slice(token);
    packet
}

/// Reads the token of a Retry packet.
pub(crate) fn token(packet: &[u8]) -> Option<&[u8]> {
    let (&length, token) = packet.get(PREFIX..)?.split_first()?;
    (usize::from(length) == token.len() && (1..=MAX_TOKEN).contains(&token.len())).then_some(token)
}

/// Returns a packet with the versions that are known here.
pub(crate) fn versions(asked: &Header) -> Vec<u8> {
    let mut packet = answer(VERSIONS, 0, asked);
    packet.extend_from_slice(&[1, VERSION]);
    packet
}

/// Reads the list of a packet with versions.
pub(crate) fn listed_versions(packet: &[u8]) -> Option<&[u8]> {
    let (&count, versions) = packet.get(PREFIX..)?.split_first()?;
    (usize::from(count) == versions.len() && (1..=MAX_VERSIONS).contains(&versions.len()))
        .then_some(versions)
}

fn answer(kind: u8, version: u8, asked: &Header) -> Vec<u8> {
    let mut packet = vec![kind, version];
    packet.extend_from_slice(&asked.from);
    packet.extend_from_slice(&asked.to);
    packet
}

/// Returns the id of the receiver of a datagram of the set-up, for a caller that distributes
/// datagrams. It proves nothing.
#[must_use]
pub fn receiver(datagram: &[u8]) -> Option<Id> {
    Some(header(datagram)?.to)
}
