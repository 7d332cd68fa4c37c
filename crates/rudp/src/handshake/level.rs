//! One level of the handshake: its keys, packet numbers and messages.

use std::collections::VecDeque;
use std::time::Duration;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf;

use super::packet::{Envelope, Id, Kind, Sealed, Space};
use super::reassembly::Reassembly;
use super::tls::{HandshakeKeys, PacketKey, TAG_BYTES};
use crate::frame::put_seen;
use crate::seal::nonce;
use crate::{Side, Time};

/// The salt of the initial keys: public, and of this version only (RFC 9001, section 5.2).
const INITIAL_SALT: &[u8] = b"transpute rudp 3 initial";

/// Packets whose departure is remembered, for the round-trip time.
const MAX_REMEMBERED: usize = 32;

/// AES-128-GCM with the nonce of RFC 9001, section 5.3.
struct GcmKey {
    key: LessSafeKey,
    iv: [u8; 12],
}

impl PacketKey for GcmKey {
    fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        let tag = (self.key)
            .seal_in_place_separate_tag(nonce(&self.iv, number), Aad::from(header), body)
            .ok()?;
        tag.as_ref().try_into().ok()
    }

    fn open(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<usize> {
        let opened = (self.key).open_in_place(nonce(&self.iv, number), Aad::from(header), body);
        opened.ok().map(|plain| plain.len())
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives the keys of both directions from a secret that is no secret: an id, or the greetings of
/// plaintext mode.
///
/// `None`: the library refuses.
pub(crate) fn public_keys(side: Side, secret: &[u8]) -> Option<HandshakeKeys> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, INITIAL_SALT).extract(secret);
    let key_of = |sender: &[u8]| {
        let expand = |what: &[u8], out: &mut [u8]| {
            let info = [sender, what];
            let expanded = prk.expand(&info, Length(out.len())).ok()?;
            expanded.fill(out).ok()
        };
        let (mut key, mut iv) = ([0; 16], [0; 12]);
        expand(b" key", &mut key)?;
        expand(b" iv", &mut iv)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
        Some(Box::new(GcmKey { key, iv }) as Box<dyn PacketKey>)
    };
    let (connector, listener) = (key_of(b"connector")?, key_of(b"listener")?);
    Some(HandshakeKeys::of(side, connector, listener))
}

/// One level of the handshake at one end.
pub(crate) struct Level {
    space: Space,
    keys: HandshakeKeys,
    next_number: u32,
    /// Messages of this end, in full: they are repeated until the peer has them.
    pub(crate) outgoing: Vec<u8>,
    pub(crate) incoming: Reassembly,
    /// Numbers and times of packets that may still be answered.
    sent: VecDeque<(u32, Time)>,
    /// The largest number that arrived, and when.
    newest: Option<(u32, Time)>,
}

impl Level {
    pub(crate) fn new(space: Space, keys: HandshakeKeys) -> Self {
        Self {
            space,
            keys,
            next_number: 0,
            outgoing: Vec::new(),
            incoming: Reassembly::default(),
            sent: VecDeque::new(),
            newest: None,
        }
    }

    /// Makes the initial level, whose keys are derived from the connector's first id.
    pub(crate) fn initial(side: Side, first: &Id) -> Option<Self> {
        Some(Self::new(Space::Initial, public_keys(side, first)?))
    }

    /// Goes on with this number.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn skip_to(&mut self, number: u32) {
        self.next_number = number;
    }

    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// Opens a packet and returns its frames. `None`: it is not authentic.
    pub(crate) fn open<'a>(&mut self, now: Time, sealed: Sealed<'a>) -> Option<&'a [u8]> {
        let Sealed {
            header,
            number,
            associated,
            body,
            ..
        } = sealed;
        let length = (self.keys.remote).open(number.into(), associated, body)?;
        // Departures of trains are not remembered at the other end.
        let is_timed = header.kind != Kind::Train;
        if is_timed && self.newest.is_none_or(|(newest, _)| number > newest) {
            self.newest = Some((number, now));
        }
        Some(&body[..length])
    }

    /// Appends a packet of this level. `None`: the library refuses, or numbers are used up.
    pub(crate) fn put(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        envelope: &Envelope,
        kind: Kind,
        frames: &[u8],
    ) -> Option<()> {
        let number = self.next_number;
        self.next_number = number.checked_add(1)?;
        envelope.put(out, (kind, number), &*self.keys.local, frames)?;
        if kind != Kind::Train {
            if self.sent.len() == MAX_REMEMBERED {
                self.sent.pop_front();
            }
            self.sent.push_back((number, now));
        }
        Some(())
    }

    /// Appends a frame that says which packet of this level came last, if any did.
    pub(crate) fn put_seen(&self, now: Time, out: &mut Vec<u8>) {
        if let Some((number, at)) = self.newest {
            put_seen(out, self.space, number, now.since(at));
        }
    }

    /// The peer says that this packet came, and how long it held it. Returns the round-trip time.
    pub(crate) fn on_seen(&self, now: Time, number: u32, delay: Duration) -> Option<Duration> {
        let (_, at) = self.sent.iter().find(|(sent, _)| *sent == number)?;
        Some(now.since(*at).saturating_sub(delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_keys_of_one_end_open_what_the_other_sealed() {
        let mut connector = Level::initial(Side::Connector, &[7; 8]).unwrap();
        let mut listener = Level::initial(Side::Listener, &[7; 8]).unwrap();
        let mut other = Level::initial(Side::Listener, &[8; 8]).unwrap();
        let envelope = Envelope {
            to_first: [1; 8],
            to: [3; 8],
            from: [2; 8],
            token: vec![9; 3],
        };
        let mut datagram = Vec::new();
        connector
            .put(
                Time::ZERO,
                &mut datagram,
                &envelope,
                Kind::Initial,
                b"frames",
            )
            .unwrap();
        assert_eq!(datagram.len(), 6 + envelope.overhead(Space::Initial));
        let open = |level: &mut Level, mut datagram: Vec<u8>| {
            let (sealed, _) = super::super::packet::split(&mut datagram)?;
            level.open(Time::ZERO, sealed).map(<[u8]>::to_vec)
        };
        assert_eq!(open(&mut listener, datagram.clone()).unwrap(), b"frames");
        assert_eq!(open(&mut other, datagram.clone()), None);
        for bit in 0..datagram.len() * 8 {
            let mut flipped = datagram.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&mut listener, flipped), None, "bit {bit}");
        }
    }
}
