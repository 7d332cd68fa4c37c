//! The self-signed X.509 certificate of an identity (RFC 5280). Only its public key, its signature
//! and an optional extension vary.

use rustls::{SignatureScheme, pki_types::CertificateDer, sign::SigningKey};

use super::{
    IdentityError,
    der::{self, BIT_STRING, EXTENSIONS, SEQUENCE},
    message,
};

/// The DER fields `version` (3) and `serialNumber` (1). The serial number is constant, because
/// nothing looks a certificate up by its number.
const VERSION_AND_SERIAL: [u8; 8] = [0xa0, 0x03, 0x02, 0x01, 0x02, 0x02, 0x01, 0x01];

/// The DER AlgorithmIdentifier of Ed25519 (RFC 8410, section 3).
const ED25519: [u8; 7] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

/// The DER Name of the issuer and of the subject. Its only attribute is the common name (object
/// identifier 2.5.4.3) "transpute".
const NAME: [u8; 22] = *b"\x30\x14\x31\x12\x30\x10\x06\x03\x55\x04\x03\x0c\x09transpute";

/// The DER Validity: from 1975-01-01 to 4096-01-01. The verifiers ignore these dates.
const VALIDITY: [u8; 34] = *b"\x30\x20\x17\x0d750101000000Z\x18\x0f40960101000000Z";

/// Makes the certificate of `key`. `spki` is the DER SubjectPublicKeyInfo of `key`. The
/// certificate contains `message` in an extension, if there is a message.
///
/// # Errors
///
/// Returns [`IdentityError::Certificate`] if `key` is not an Ed25519 key or cannot sign.
pub(super) fn self_signed(
    key: &dyn SigningKey,
    spki: &[u8],
    message: Option<&[u8]>,
) -> Result<CertificateDer<'static>, IdentityError> {
    let extensions = message.map_or_else(Vec::new, |message| {
        let list = der::encode(SEQUENCE, &[&message::extension(message)]);
        der::encode(EXTENSIONS, &[&list])
    });
    let fields: [&[u8]; 7] = [
        &VERSION_AND_SERIAL,
        &ED25519,
        &NAME,
        &VALIDITY,
        &NAME,
        spki,
        &extensions,
    ];
    let to_be_signed = der::encode(SEQUENCE, &fields);
    let error = |detail: String| IdentityError::Certificate { detail };
    let signature = key
        .choose_scheme(&[SignatureScheme::ED25519])
        .ok_or_else(|| error("the key does not sign with Ed25519".into()))?
        .sign(&to_be_signed)
        .map_err(|failure| error(failure.to_string()))?;
    // The first byte of a bit string is the number of unused bits in its last byte.
    let signature = der::encode(BIT_STRING, &[&[0], &signature]);
    Ok(der::encode(SEQUENCE, &[&to_be_signed, &ED25519, &signature]).into())
}
