//! Packet protection: header, encryption, and keys that change with the packet number.

use ring::aead::{Aad, Nonce};

use crate::keys::{KeyError, PacketKey, Ratchet};

/// The size of the header before the encrypted part, in bytes: marker and epoch (1), connection ID
/// (4), packet number (6).
pub(crate) const HEADER_LEN: usize = 11;

/// The size of the authentication tag, in bytes.
pub(crate) const TAG_LEN: usize = 16;

/// The size of a packet without its frames, in bytes.
pub(crate) const PACKET_OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// One more than the largest packet number.
pub(crate) const PACKET_NUMBER_END: u64 = 1 << 48;

/// The binary logarithm of the number of packets of an epoch.
///
/// AES-GCM may encrypt 2^23 packets under one key (RFC 9001, section 6.6), ChaCha20-Poly1305 more.
/// An epoch of 2^22 packets is below these limits. The packet number alone determines the epoch:
/// nothing is negotiated.
const EPOCH_BITS: u32 = 22;

/// The upper half of the first byte: version 1. Packets of QUIC, which may share the port, have the
/// bit 0x40 set unless their ends agreed to grease it (RFC 9443).
const MARKER_SEALED: u8 = 0x10;

/// The upper half of the first byte of packets without protection.
const MARKER_PLAINTEXT: u8 = 0x20;

/// Returns whether the first byte of a datagram is one of this protocol, for a port that several
/// protocols share. It is not authenticated.
#[must_use]
pub fn is_packet(datagram: &[u8]) -> bool {
    let is_data = |first: &u8| matches!(first & 0xf0, MARKER_SEALED | MARKER_PLAINTEXT);
    datagram.first().is_some_and(is_data) || crate::is_set_up(datagram)
}

/// Encrypts packets to the peer.
pub(crate) struct Sealer {
    id: u32,
    epoch: u64,
    key: PacketKey,
    ratchet: Ratchet,
}

impl Sealer {
    pub(crate) fn new(mut ratchet: Ratchet) -> Result<Self, KeyError> {
        let id = ratchet.connection_id()?;
        Ok(Self {
            id,
            epoch: 0,
            key: ratchet.step()?,
            ratchet,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn protects(&self) -> bool {
        matches!(self.key, PacketKey::Aead { .. })
    }

    /// Encrypts a packet in place. Its frames start at [`HEADER_LEN`] and are followed by
    /// [`TAG_LEN`] spare bytes for the tag.
    ///
    /// Packet numbers must increase from call to call.
    pub(crate) fn seal(&mut self, number: u64, packet: &mut [u8]) -> Result<(), KeyError> {
        while self.epoch < number >> EPOCH_BITS {
            self.key = self.ratchet.step()?;
            self.epoch += 1;
        }
        let (header, rest) = packet
            .split_at_mut_checked(HEADER_LEN)
            .ok_or(KeyError::Library)?;
        let body_len = rest.len().checked_sub(TAG_LEN).ok_or(KeyError::Library)?;
        let (body, tag) = rest.split_at_mut(body_len);
        header[0] = first_byte(&self.key, number);
        header[1..5].copy_from_slice(&self.id.to_le_bytes());
        header[5..].copy_from_slice(&number.to_le_bytes()[..6]);
        match &self.key {
            PacketKey::Aead { key, iv } => {
                let sealed = key
                    .seal_in_place_separate_tag(nonce(iv, number), Aad::from(&*header), body)
                    .map_err(|_| KeyError::Library)?;
                tag.copy_from_slice(sealed.as_ref());
            }
            PacketKey::Checksum(start) => tag.copy_from_slice(&checksum(*start, header, body)),
        }
        Ok(())
    }
}

/// The reason why a datagram was rejected. A rejected datagram only changes a counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reject {
    /// The datagram is too short, or its marker, connection ID or epoch is wrong.
    NotOurs,
    /// The tag is wrong.
    NotAuthentic,
}

/// Decrypts packets from the peer.
pub(crate) struct Opener {
    id: u32,
    /// The epoch of the newest authentic packet.
    epoch: u64,
    previous: Option<PacketKey>,
    current: PacketKey,
    next: PacketKey,
    ratchet: Ratchet,
}

impl Opener {
    pub(crate) fn new(mut ratchet: Ratchet) -> Result<Self, KeyError> {
        let id = ratchet.connection_id()?;
        Ok(Self {
            id,
            epoch: 0,
            previous: None,
            current: ratchet.step()?,
            next: ratchet.step()?,
            ratchet,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the packet number of a datagram with the ID of this connection. It is not
    /// authenticated yet.
    pub(crate) fn number(&self, datagram: &[u8]) -> Result<u64, Reject> {
        if datagram.len() < PACKET_OVERHEAD || datagram[1..5] != self.id.to_le_bytes() {
            return Err(Reject::NotOurs);
        }
        let mut number = [0; 8];
        number[..6].copy_from_slice(&datagram[5..HEADER_LEN]);
        let number = u64::from_le_bytes(number);
        if datagram[0] != first_byte(&self.current, number) {
            return Err(Reject::NotOurs);
        }
        self.key(number).map(|_| number).ok_or(Reject::NotOurs)
    }

    /// Decrypts a datagram in place and returns its frames.
    pub(crate) fn open<'a>(
        &mut self,
        number: u64,
        datagram: &'a mut [u8],
    ) -> Result<&'a mut [u8], Reject> {
        let key = self.key(number).ok_or(Reject::NotOurs)?;
        let (header, rest) = datagram
            .split_at_mut_checked(HEADER_LEN)
            .ok_or(Reject::NotOurs)?;
        let body_len = rest.len().checked_sub(TAG_LEN).ok_or(Reject::NotOurs)?;
        match key {
            PacketKey::Aead { key, iv } => {
                key.open_in_place(nonce(iv, number), Aad::from(&*header), rest)
                    .map_err(|_| Reject::NotAuthentic)?;
            }
            PacketKey::Checksum(start) => {
                let (body, tag) = rest.split_at(body_len);
                if checksum(*start, header, body) != *tag {
                    return Err(Reject::NotAuthentic);
                }
            }
        }
        if number >> EPOCH_BITS > self.epoch
            && let Ok(next) = self.ratchet.step()
        {
            self.epoch += 1;
            let current = std::mem::replace(&mut self.next, next);
            self.previous = Some(std::mem::replace(&mut self.current, current));
        }
        Ok(&mut rest[..body_len])
    }

    /// Returns the key for a packet number, or `None` if its epoch is neither the current one nor a
    /// neighbour. Epochs after the next one cannot occur: 2^22 packets in a row would have to be
    /// lost.
    fn key(&self, number: u64) -> Option<&PacketKey> {
        let epoch = number >> EPOCH_BITS;
        if epoch == self.epoch {
            Some(&self.current)
        } else if epoch == self.epoch + 1 {
            Some(&self.next)
        } else if epoch + 1 == self.epoch {
            self.previous.as_ref()
        } else {
            None
        }
    }
}

fn first_byte(key: &PacketKey, number: u64) -> u8 {
    let marker = match key {
        PacketKey::Aead { .. } => MARKER_SEALED,
        PacketKey::Checksum(_) => MARKER_PLAINTEXT,
    };
    marker | ((number >> EPOCH_BITS) & 0x0f) as u8
}

/// Returns the nonce of a packet: the IV xor the packet number (RFC 9001, section 5.3).
pub(crate) fn nonce(iv: &[u8; 12], number: u64) -> Nonce {
    let mut nonce = *iv;
    for (byte, mask) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= mask;
    }
    Nonce::assume_unique_for_key(nonce)
}

/// Computes a checksum, which detects accidental changes only. Each step is a bijection of the
/// state, so that a change of a single word is always detected.
fn checksum(start: u64, header: &[u8], body: &[u8]) -> [u8; TAG_LEN] {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = start ^ ((header.len() + body.len()) as u64).wrapping_mul(MULTIPLIER);
    for part in [header, body] {
        let mut words = part.chunks_exact(8);
        let mut step = |word: [u8; 8]| {
            state = (state ^ u64::from_le_bytes(word))
                .wrapping_mul(MULTIPLIER)
                .rotate_left(29);
        };
        for word in &mut words {
            // `chunks_exact` returns exactly eight bytes.
            step([
                word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
            ]);
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        step(last);
    }
    let mut tag = [0; TAG_LEN];
    tag[..8].copy_from_slice(&state.to_le_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Cipher, EndpointSide, PacketKeys};

    fn pair(cipher: Option<Cipher>) -> (PacketKeys, PacketKeys) {
        let keys = |side| match cipher {
            Some(cipher) => PacketKeys::new(side, &[9; 32], b"test", cipher).unwrap(),
            None => PacketKeys::plaintext(side, b"test").unwrap(),
        };
        (keys(EndpointSide::Connector), keys(EndpointSide::Listener))
    }

    fn packet(keys: &mut PacketKeys, number: u64, frames: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_LEN];
        packet.extend_from_slice(frames);
        packet.extend_from_slice(&[0; TAG_LEN]);
        keys.sealer.seal(number, &mut packet).unwrap();
        packet
    }

    fn open(keys: &mut PacketKeys, mut datagram: Vec<u8>) -> Result<Vec<u8>, Reject> {
        let number = keys.opener.number(&datagram)?;
        Ok(keys.opener.open(number, &mut datagram)?.to_vec())
    }

    #[test]
    fn any_flipped_bit_and_any_truncation_is_rejected() {
        for cipher in [
            Some(Cipher::Aes128Gcm),
            Some(Cipher::Aes256Gcm),
            Some(Cipher::ChaCha20Poly1305),
            None,
        ] {
            let (mut a, mut b) = pair(cipher);
            let sealed = packet(&mut a, 5, b"some frames of a packet");
            for bit in 0..sealed.len() * 8 {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&mut b, flipped).is_err(), "{cipher:?}, bit {bit}");
            }
            for length in 0..sealed.len() {
                assert!(open(&mut b, sealed[..length].to_vec()).is_err());
            }
            assert_eq!(open(&mut b, sealed).unwrap(), b"some frames of a packet");
        }
    }

    #[test]
    fn no_end_accepts_its_own_packets() {
        let (mut a, _) = pair(Some(Cipher::Aes128Gcm));
        let sealed = packet(&mut a, 0, b"x");
        assert_eq!(open(&mut a, sealed), Err(Reject::NotOurs));
    }

    #[test]
    fn keys_change_with_the_epoch_and_late_packets_of_the_previous_one_are_accepted() {
        let (mut a, mut b) = pair(Some(Cipher::Aes128Gcm));
        let last = (1 << EPOCH_BITS) - 1;
        let late = packet(&mut a, last, b"late");
        let early = packet(&mut a, last - 1, b"same epoch");
        let first = packet(&mut a, last + 1, b"new epoch");
        let second = packet(&mut a, 2 << EPOCH_BITS, b"third epoch");
        // The opener rejects a packet from two epochs ahead, because such a packet cannot occur.
        assert_eq!(open(&mut b, second.clone()), Err(Reject::NotOurs));
        assert!(open(&mut b, early).is_ok());
        assert!(open(&mut b, first).is_ok());
        assert!(open(&mut b, late.clone()).is_ok());
        assert!(open(&mut b, second).is_ok());
        assert_eq!(open(&mut b, late), Err(Reject::NotOurs));
    }

    #[test]
    fn the_same_frames_under_two_numbers_have_different_ciphertexts() {
        let (mut a, _) = pair(Some(Cipher::Aes128Gcm));
        let one = packet(&mut a, 1, &[0; 1000]);
        let two = packet(&mut a, 2, &[0; 1000]);
        let equal = one
            .iter()
            .zip(&two)
            .skip(HEADER_LEN)
            .filter(|(a, b)| a == b);
        assert!(equal.count() < 40);
    }
}
