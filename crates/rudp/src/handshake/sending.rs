//! Sending during the handshake, within the anti-amplification limit.

use super::Handshake;
use super::packet::{Kind, SET_UP_DATAGRAM, Space};
use crate::frame::{CRYPTO_HEADER, put_close, put_crypto, put_padding};
use crate::{EndpointSide, Time};

/// The limit of bytes sent to an address that is not validated, as a multiple of the bytes received
/// from it (RFC 9000, section 8.1).
pub(crate) const AMPLIFICATION_FACTOR: u64 = 3;

/// The minimum free space of a datagram in which a further packet is appended, in bytes.
const MIN_PIECE: usize = 64;

impl Handshake {
    /// Returns whether this many bytes may be sent to the peer's address.
    fn may_send(&self, bytes: usize) -> bool {
        self.validated
            || self.sent_bytes + bytes as u64 <= AMPLIFICATION_FACTOR * self.received_bytes
    }

    /// Returns whether this many bytes of a train may be sent. Until the address is validated, the
    /// train may have at most as many bytes as were received from the address.
    pub(crate) fn may_send_train(&self, bytes: usize) -> bool {
        let train_bytes = self.train_bytes + bytes as u64;
        self.validated || (train_bytes <= self.received_bytes && self.may_send(bytes))
    }

    /// Appends the next datagram of the flight, if one is due and may be sent. Returns its length.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        let (mut space, mut offset) = self.flight.cursor()?;
        if !self.may_send(SET_UP_DATAGRAM) {
            return None;
        }
        let start = out.len();
        loop {
            let mut frames = Vec::new();
            if let (Some(level), Space::Handshake) = (&self.handshake, space) {
                // A flight acknowledges packets of the level that the peer used last: handshake
                // packets at the connector, initial packets at the listener.
                let answered = match self.side {
                    EndpointSide::Connector => level,
                    EndpointSide::Listener => &self.initial,
                };
                answered.put_seen(now, &mut frames);
            }
            let level = match (&mut self.handshake, space) {
                (Some(level), Space::Handshake) => level,
                _ => &mut self.initial,
            };
            let taken = out.len() - start;
            let overhead = self.template.overhead(space) + frames.len() + CRYPTO_HEADER;
            let room = SET_UP_DATAGRAM.saturating_sub(taken + overhead);
            let messages = &level.outgoing[offset.min(level.outgoing.len())..];
            if taken > 0 && room < MIN_PIECE.min(messages.len()) {
                break;
            }
            let piece = &messages[..messages.len().min(room)];
            put_crypto(&mut frames, offset, piece);
            offset += piece.len();
            let is_padded = self.side == EndpointSide::Connector && space == Space::Initial;
            if is_padded {
                put_padding(&mut frames, room - piece.len());
            }
            let is_last = offset >= level.outgoing.len();
            level.put(now, out, &self.template, space.kind(), &frames)?;
            if !is_last {
                break;
            }
            let has_next = space == Space::Initial
                && self.side == EndpointSide::Listener
                && self.handshake.is_some();
            if !has_next {
                self.flight.on_copy_sent();
                return Some(self.count(out.len() - start));
            }
            (space, offset) = (Space::Handshake, 0);
        }
        self.flight.set_cursor(space, offset);
        Some(self.count(out.len() - start))
    }

    fn count(&mut self, bytes: usize) -> usize {
        self.sent_bytes += bytes as u64;
        bytes
    }

    /// Appends a train packet with these frames: under initial keys at the connector, and under
    /// handshake keys at the listener. Returns its length, or `None` if there are no keys yet.
    pub(crate) fn put_train(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        frames: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = out.len();
        let (level, kind) = match self.side {
            EndpointSide::Connector => (&mut self.initial, Kind::Train),
            EndpointSide::Listener => (self.handshake.as_mut()?, Kind::Handshake),
        };
        // Train packets have no token, so their overhead is that of a handshake packet.
        let overhead = self.template.overhead(Space::Handshake);
        put_padding(
            frames,
            SET_UP_DATAGRAM.saturating_sub(overhead + frames.len()),
        );
        level.put(now, out, &self.template, kind, frames)?;
        let sent = self.count(out.len() - start);
        self.train_bytes += sent as u64;
        Some(sent)
    }

    /// Appends a packet under the handshake keys with these frames. Returns its length. Returns
    /// `None` if there are no keys yet, or the anti-amplification limit is reached.
    pub(crate) fn put_frames(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        frames: &[u8],
    ) -> Option<usize> {
        let start = out.len();
        if !self.may_send(self.template.overhead(Space::Handshake) + frames.len()) {
            return None;
        }
        let level = self.handshake.as_mut()?;
        level.put(now, out, &self.template, Kind::Handshake, frames)?;
        Some(self.count(out.len() - start))
    }

    /// Appends a packet that closes the connection with this code. Returns its length, or `None` if
    /// the packet may not be sent.
    pub(crate) fn put_close(&mut self, now: Time, out: &mut Vec<u8>, code: u64) -> Option<usize> {
        let start = out.len();
        let mut frames = Vec::new();
        put_close(&mut frames, code);
        let space = (self.handshake.as_ref()).map_or(Space::Initial, |level| level.space());
        if !self.may_send(self.template.overhead(space) + frames.len()) {
            return None;
        }
        let level = self.handshake.as_mut().unwrap_or(&mut self.initial);
        level.put(now, out, &self.template, space.kind(), &frames)?;
        Some(self.count(out.len() - start))
    }
}
