//! One encryption level of the handshake: its keys, packet numbers and messages.

use std::collections::VecDeque;
use std::time::Duration;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, UnboundKey};
use ring::hkdf;

use super::packet::{Id, Kind, PacketTemplate, Sealed, Space};
use super::reassembly::Reassembly;
use super::tls::{HandshakeKeys, PacketKey, TAG_BYTES};
use crate::frame::put_seen;
use crate::seal::nonce;
use crate::{EndpointSide, Time};

/// The salt from which the initial keys are derived. It is public and specific to this version (RFC
/// 9001, section 5.2).
const INITIAL_SALT: &[u8] = b"transpute rudp 3 initial";

/// The maximum number of packets whose sending times are kept to measure the round-trip time.
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

/// Derives the keys of both directions from a public value: the connector's first ID, or the
/// greetings of plaintext mode.
///
/// Returns `None` if the library fails.
pub(crate) fn public_keys(side: EndpointSide, secret: &[u8]) -> Option<HandshakeKeys> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, INITIAL_SALT).extract(secret);
    let key_of = |sender: &[u8]| {
        let expand = |label: &[u8], out: &mut [u8]| {
            let info = [sender, label];
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

/// One encryption level of the handshake at one end.
pub(crate) struct Level {
    space: Space,
    keys: HandshakeKeys,
    next_number: u32,
    /// All messages of this end at this level. They are repeated until the peer has them.
    pub(crate) outgoing: Vec<u8>,
    pub(crate) incoming: Reassembly,
    /// Numbers and sending times of packets that may still be acknowledged.
    sent: VecDeque<(u32, Time)>,
    /// The largest packet number received, and its arrival time.
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

    /// Creates the initial level, whose keys are derived from the connector's first ID.
    pub(crate) fn initial(side: EndpointSide, first: &Id) -> Option<Self> {
        Some(Self::new(Space::Initial, public_keys(side, first)?))
    }

    /// Sets the number of the next packet.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn skip_to(&mut self, number: u32) {
        self.next_number = number;
    }

    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// Decrypts a packet and returns its frames. Returns `None` if it is not authentic.
    pub(crate) fn open<'a>(&mut self, now: Time, sealed: Sealed<'a>) -> Option<&'a [u8]> {
        let Sealed {
            header,
            number,
            associated,
            body,
            ..
        } = sealed;
        let length = (self.keys.remote).open(number.into(), associated, body)?;
        // Train packets are not acknowledged, because the peer does not keep their sending times.
        let is_timed = header.kind != Kind::Train;
        if is_timed && self.newest.is_none_or(|(newest, _)| number > newest) {
            self.newest = Some((number, now));
        }
        Some(&body[..length])
    }

    /// Appends a packet of this level. Returns `None` if the library fails or the packet numbers
    /// are used up.
    pub(crate) fn put(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        template: &PacketTemplate,
        kind: Kind,
        frames: &[u8],
    ) -> Option<()> {
        let number = self.next_number;
        self.next_number = number.checked_add(1)?;
        template.put(out, (kind, number), &*self.keys.local, frames)?;
        if kind != Kind::Train {
            if self.sent.len() == MAX_REMEMBERED {
                self.sent.pop_front();
            }
            self.sent.push_back((number, now));
        }
        Some(())
    }

    /// Appends a frame that acknowledges the newest packet of this level, if there is one.
    pub(crate) fn put_seen(&self, now: Time, out: &mut Vec<u8>) {
        if let Some((number, at)) = self.newest {
            put_seen(out, self.space, number, now.since(at));
        }
    }

    /// Processes the acknowledgement of a packet, which the peer sent `delay` after the packet
    /// arrived. Returns the round-trip time.
    pub(crate) fn on_seen(&self, now: Time, number: u32, delay: Duration) -> Option<Duration> {
        let (_, at) = self.sent.iter().find(|(sent, _)| *sent == number)?;
        Some(now.since(*at).saturating_sub(delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_keys_of_one_end_decrypt_packets_of_the_other() {
        let mut connector = Level::initial(EndpointSide::Connector, &[7; 8]).unwrap();
        let mut listener = Level::initial(EndpointSide::Listener, &[7; 8]).unwrap();
        let mut other = Level::initial(EndpointSide::Listener, &[8; 8]).unwrap();
        let template = PacketTemplate {
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
                &template,
                Kind::Initial,
                b"frames",
            )
            .unwrap();
        assert_eq!(datagram.len(), 6 + template.overhead(Space::Initial));
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
