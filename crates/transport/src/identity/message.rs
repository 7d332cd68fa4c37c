//! A message in a certificate. By it, a listener sends data during the handshake, which is sooner
//! than any application data.
//!
//! TLS 1.3 allows a server to send application data half a round trip before it has authenticated
//! the client, but rustls does not. A certificate extension (RFC 5280, section 4.1.2.9) arrives at
//! the same time, and the handshake signature covers it.

use rcgen::CustomExtension;
use rustls::pki_types::CertificateDer;

/// The object identifier of the extension. Numbers in the arc 2.25 need no registration (ITU-T
/// X.667).
const OID: [u64; 3] = [2, 25, 6_143_702_287_719_365_217];

/// The contents of [`OID`] in DER.
const OID_DER: [u8; 10] = [0x69, 0xd5, 0xa1, 0xb4, 0x95, 0xe1, 0x8a, 0x91, 0xf4, 0x61];

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// DER tag `[3]` of a TBSCertificate, which contains its extensions.
const EXTENSIONS: u8 = 0xa3;

/// Makes a non-critical extension with a message.
pub(super) fn extension(message: &[u8]) -> CustomExtension {
    CustomExtension::from_oid_content(&OID, message.to_vec())
}

/// Returns the message in a certificate, or `None` if there is none.
pub(crate) fn find<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    let extensions = loop {
        let (tag, contents, rest) = element(fields)?;
        if tag == EXTENSIONS {
            break contents;
        }
        fields = rest;
    };
    let (_, mut extensions, _) = element(extensions)?;
    loop {
        let (tag, contents, rest) = element(extensions)?;
        extensions = rest;
        if tag != SEQUENCE {
            return None;
        }
        let (tag, oid, mut value) = element(contents)?;
        if tag != OBJECT_IDENTIFIER || oid != OID_DER {
            continue;
        }
        if value.first() == Some(&BOOLEAN) {
            value = element(value)?.2;
        }
        let (tag, message, _) = element(value)?;
        return (tag == OCTET_STRING).then_some(message);
    }
}

/// Splits off the first DER element (X.690, section 8.1). Returns its tag, its contents, and the
/// remaining bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, der) = der.split_first()?;
    let (&short, der) = der.split_first()?;
    let (length, der) = match short {
        0..=0x7f => (usize::from(short), der),
        0x81..=0x83 => {
            let (bytes, der) = der.split_at_checked(usize::from(short & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            (length, der)
        }
        _ => return None,
    };
    let (contents, rest) = der.split_at_checked(length)?;
    Some((tag, contents, rest))
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
