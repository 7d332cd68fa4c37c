//! Headers of handshake packets, which are not encrypted.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | type |
//! | 1 | 1 | version; 0 in a list of versions |
//! | 2 | 8 | ID of the receiver |
//! | 10 | 8 | ID of the sender |
//!
//! docs/rudp.md, "Packets", describes the rest of each type.

use super::tls::{PacketKey, TAG_BYTES};
use crate::wire::put_uint;

/// The version of this protocol.
pub const VERSION: u8 = 3;

/// The size of padded handshake packets, and of the packets of their trains, in bytes of UDP
/// payload (RFC 9000, section 14.1).
pub(crate) const SET_UP_DATAGRAM: usize = 1200;

/// The type of a packet with the connector's first messages, or the listener's answer to them.
const INITIAL: u8 = 0x30;
/// The type of a packet under the handshake keys.
const HANDSHAKE: u8 = 0x31;
/// The type of a Retry packet: a token that proves the address of a connector.
const RETRY: u8 = 0x32;
/// The type of a version negotiation packet: the versions that the listener supports.
const VERSIONS: u8 = 0x33;
/// The type of a packet of the connector's train.
const TRAIN: u8 = 0x34;

/// The size of the header before the packet number, in bytes.
const PREFIX: usize = 18;

/// The size of a sealed packet's header without its token, in bytes: prefix, packet number (4),
/// length (2).
const SEALED_HEADER: usize = PREFIX + 6;

/// The maximum length of a token, in bytes.
pub(crate) const MAX_TOKEN: usize = 64;

/// The maximum number of versions in a version negotiation packet.
pub(crate) const MAX_VERSIONS: usize = 8;

/// An ID of a connection during the handshake, chosen at random by its receiver.
pub type Id = [u8; 8];

/// An encryption level of the handshake, with its own keys and packet numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Space {
    /// Initial keys, derived from the connector's first ID. They protect against accidental changes
    /// only.
    Initial,
    /// Handshake keys, which only the two ends have.
    Handshake,
}

impl Space {
    /// Returns the type of the packets that carry messages of this level.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Initial => Kind::Initial,
            Self::Handshake => Kind::Handshake,
        }
    }
}

/// The type of a handshake packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Initial,
    Handshake,
    Retry,
    Versions,
    Train,
    /// The packet has another version; only its IDs can be read.
    OtherVersion,
}

/// The part of the header that every type has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) to: Id,
    pub(crate) from: Id,
}

/// A packet that is not decrypted yet.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) header: Header,
    pub(crate) number: u32,
    pub(crate) token: &'a [u8],
    /// The associated data: everything before the frames.
    pub(crate) associated: &'a [u8],
    /// The encrypted frames and the tag.
    pub(crate) body: &'a mut [u8],
}

/// Returns whether a datagram starts with a handshake packet, by its first byte.
#[must_use]
pub fn is_set_up(datagram: &[u8]) -> bool {
    datagram
        .first()
        .is_some_and(|first| first & 0xf0 == INITIAL)
}

/// Parses the header of a handshake packet.
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

/// Splits the first sealed packet off a datagram. Returns `None` if there is none.
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

/// The fixed header fields of the packets that one end sends.
#[derive(Clone, Debug)]
pub(crate) struct PacketTemplate {
    /// The receiver's ID in initial packets.
    pub(crate) to_first: Id,
    /// The receiver's ID in packets under the handshake keys.
    pub(crate) to: Id,
    pub(crate) from: Id,
    /// The token from a Retry packet, which the connector's initial packets contain.
    pub(crate) token: Vec<u8>,
}

impl PacketTemplate {
    /// Returns the size of a packet without its frames, in bytes.
    pub(crate) fn overhead(&self, space: Space) -> usize {
        let token = match space {
            Space::Initial => 1 + self.token.len(),
            Space::Handshake => 0,
        };
        SEALED_HEADER + token + TAG_BYTES
    }

    /// Appends a sealed packet with these frames. Returns `None` if the library fails.
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
        // The length fits into two bytes, because a packet is no longer than a datagram.
        put_uint(out, (frames.len() + TAG_BYTES) as u64, 2);
        if kind == Kind::Initial {
            // The cast is lossless, because tokens have at most 64 bytes.
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

/// Returns a Retry packet, which asks the connector to prove its address with this token.
pub(crate) fn retry(asked: &Header, token: &[u8]) -> Vec<u8> {
    let mut packet = answer(RETRY, VERSION, asked);
    // The cast is lossless, because tokens have at most 64 bytes.
    packet.push(token.len() as u8);
    packet.extend_from_slice(token);
    packet
}

/// Parses the token of a Retry packet.
pub(crate) fn token(packet: &[u8]) -> Option<&[u8]> {
    let (&length, token) = packet.get(PREFIX..)?.split_first()?;
    (usize::from(length) == token.len() && (1..=MAX_TOKEN).contains(&token.len())).then_some(token)
}

/// Returns a version negotiation packet with the supported versions.
pub(crate) fn versions(asked: &Header) -> Vec<u8> {
    let mut packet = answer(VERSIONS, 0, asked);
    packet.extend_from_slice(&[1, VERSION]);
    packet
}

/// Parses the list of a version negotiation packet.
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

/// Returns the ID of the receiver of a handshake datagram, for demultiplexing. It is not
/// authenticated.
#[must_use]
pub fn receiver(datagram: &[u8]) -> Option<Id> {
    Some(header(datagram)?.to)
}
