//! A message in a certificate. By it, a listener sends data during the handshake, which is sooner
//! than any application data.
//!
//! TLS 1.3 allows a server to send application data half a round trip before it has authenticated
//! the client, but rustls does not. A certificate extension (RFC 5280, section 4.1.2.9) arrives at
//! the same time, and the handshake signature covers it.

use rustls::pki_types::CertificateDer;

use super::der::{self, BOOLEAN, EXTENSIONS, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};

/// The DER contents of the extension's object identifier, 2.25.6143702287719365217. Object
/// identifiers in the arc 2.25 need no registration (ITU-T X.667).
const OID: [u8; 10] = [0x69, 0xd5, 0xa1, 0xb4, 0x95, 0xe1, 0x8a, 0x91, 0xf4, 0x61];

/// Makes a non-critical extension with a message.
pub(super) fn extension(message: &[u8]) -> Vec<u8> {
    let oid = der::encode(OBJECT_IDENTIFIER, &[&OID]);
    let value = der::encode(OCTET_STRING, &[message]);
    der::encode(SEQUENCE, &[&oid, &value])
}

/// Returns the message in a certificate, or `None` if there is none.
pub(crate) fn find<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (_, certificate, _) = der::split(certificate)?;
    let (_, mut fields, _) = der::split(certificate)?;
    let extensions = loop {
        let (tag, contents, rest) = der::split(fields)?;
        if tag == EXTENSIONS {
            break contents;
        }
        fields = rest;
    };
    let (_, mut extensions, _) = der::split(extensions)?;
    loop {
        let (tag, contents, rest) = der::split(extensions)?;
        extensions = rest;
        if tag != SEQUENCE {
            return None;
        }
        let (tag, oid, mut value) = der::split(contents)?;
        if tag != OBJECT_IDENTIFIER || oid != OID {
            continue;
        }
        if value.first() == Some(&BOOLEAN) {
            value = der::split(value)?.2;
        }
        let (tag, message, _) = der::split(value)?;
        return (tag == OCTET_STRING).then_some(message);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Identity;
    use super::*;

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let identity = Identity::generate().unwrap();
        assert_eq!(find(&identity.certified().cert[0]), None);
        for length in [0, 1, 100, 127, 128, 255, 256, 2000] {
            let message: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let saying = identity.saying(&message).unwrap();
            assert_eq!(saying.fingerprint(), identity.fingerprint());
            assert_eq!(find(&saying.certified().cert[0]), Some(&message[..]));
        }
    }

    #[test]
    fn a_broken_certificate_has_no_message_or_a_shorter_one() {
        let identity = Identity::generate().unwrap().saying(&[7; 300]).unwrap();
        let whole = identity.certified().cert[0].to_vec();
        for length in 0..whole.len() {
            assert_eq!(find(&whole[..length].into()), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(position in 0_usize..600, byte: u8, noise: Vec<u8>) {
            let _ = find(&noise[..].into());
            let identity = Identity::generate().unwrap().saying(b"message").unwrap();
            let mut der = identity.certified().cert[0].to_vec();
            let position = position % der.len();
            der[position] = byte;
            let _ = find(&der[..].into());
        }
    }
}
