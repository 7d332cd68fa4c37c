//! Tokens of Retry packets. A connector that returns one can be reached at its address (RFC 9000,
//! section 8.1.2).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::packet::Id;
use crate::Time;

/// The time for which a token is valid. It covers a round trip of any path and the repetitions of a
/// lost packet.
const TOKEN_LIFETIME: Duration = Duration::from_secs(10);

/// The size of the nonce, in bytes.
const NONCE: usize = 12;
/// The size of the creation time, in bytes.
const TIME: usize = 8;
/// The size of the authentication tag, in bytes.
const TAG: usize = 16;

/// Creates and checks tokens with a key that only this listener has.
pub(crate) struct Tokens {
    key: LessSafeKey,
    /// The number of tokens created so far, from which nonces are derived.
    made: u64,
}

impl Tokens {
    /// Creates the state for `key`. Returns `None` if the cryptographic library fails.
    pub(crate) fn new(key: &[u8; 16]) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).ok()?);
        Some(Self { key, made: 0 })
    }

    /// Creates a token for the connector with this address and these IDs.
    pub(crate) fn make(&mut self, now: Time, to: SocketAddr, ids: (Id, Id)) -> Option<Vec<u8>> {
        self.made += 1;
        let mut nonce = [0; NONCE];
        nonce[4..].copy_from_slice(&self.made.to_be_bytes());
        let mut time = now.as_nanos().to_be_bytes();
        let tag = (self.key)
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound(to, ids)),
                &mut time,
            )
            .ok()?;
        Some([&nonce[..], &time, tag.as_ref()].concat())
    }

    /// Returns whether this token was created for this connector and is still valid.
    pub(crate) fn check(&self, now: Time, from: SocketAddr, ids: (Id, Id), token: &[u8]) -> bool {
        let Some((nonce, sealed)) = token.split_first_chunk::<NONCE>() else {
            return false;
        };
        let Ok(mut sealed) = <[u8; TIME + TAG]>::try_from(sealed) else {
            return false;
        };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = (self.key).open_in_place(nonce, Aad::from(bound(from, ids)), &mut sealed);
        let made = opened
            .ok()
            .and_then(|time| <[u8; TIME]>::try_from(&*time).ok())
            .map(|time| Time::from_nanos(u64::from_be_bytes(time)));
        made.is_some_and(|made| now.since(made) <= TOKEN_LIFETIME)
    }
}

/// Returns the data that a token is bound to: the connector's address and port, and both IDs of its
/// packets.
fn bound(address: SocketAddr, (first, connector): (Id, Id)) -> Vec<u8> {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    [
        &ip.octets()[..],
        &address.port().to_be_bytes(),
        &first,
        &connector,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_one_connector_and_ten_seconds() {
        let mut tokens = Tokens::new(&[1; 16]).unwrap();
        let here = SocketAddr::from(([192, 0, 2, 1], 7));
        let ids = ([1; 8], [2; 8]);
        let made = Time::ZERO + Duration::from_secs(5);
        let token = tokens.make(made, here, ids).unwrap();
        let at = |after: u64| made + Duration::from_secs(after);
        assert!(tokens.check(at(10), here, ids, &token));
        assert!(!tokens.check(at(11), here, ids, &token));
        let other_port = SocketAddr::from(([192, 0, 2, 1], 8));
        let other_host = SocketAddr::from(([192, 0, 2, 2], 7));
        assert!(!tokens.check(made, other_port, ids, &token));
        assert!(!tokens.check(made, other_host, ids, &token));
        assert!(!tokens.check(made, here, ([1; 8], [3; 8]), &token));
        assert!(!tokens.check(made, here, ([3; 8], [2; 8]), &token));
        let other = Tokens::new(&[2; 16]).unwrap();
        assert!(!other.check(made, here, ids, &token));
        for bit in 0..token.len() * 8 {
            let mut flipped = token.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!tokens.check(made, here, ids, &flipped));
        }
        assert!(!tokens.check(made, here, ids, &token[..35]));
        assert_ne!(token, tokens.make(made, here, ids).unwrap());
    }
}
