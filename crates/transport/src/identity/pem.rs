//! Textual encoding of a private key (RFC 7468), without copies left in memory.
//!
//! General-purpose PEM libraries do not wipe their intermediate buffers. The functions of this
//! module wipe them.

use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters per line, as RFC 7468, section 2, requires.
const LINE: usize = 64;

/// Wraps a PKCS#8 key in `PRIVATE KEY` armour.
pub(super) fn encode(der: &[u8]) -> Zeroizing<String> {
    let characters = der.len().div_ceil(3) * 4;
    // Reserve the full capacity, because reallocation would leave an unwiped copy.
    let capacity = BEGIN.len() + END.len() + characters + characters.div_ceil(LINE) + 2;
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    text.push_str(BEGIN);
    for (index, group) in der.chunks(3).enumerate() {
        if index % (LINE / 4) == 0 {
            text.push('\n');
        }
        let bits = group
            .iter()
            .zip([16, 8, 0])
            .fold(0u32, |bits, (&byte, shift)| bits | u32::from(byte) << shift);
        for (position, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let character = ALPHABET[(bits >> shift & 63) as usize];
            text.push(if position <= group.len() {
                char::from(character)
            } else {
                '='
            });
        }
    }
    text.push('\n');
    text.push_str(END);
    text.push('\n');
    text
}

/// Decodes the first `PRIVATE KEY` block of a text. Other text is ignored.
///
/// # Errors
/// The reason why the text is invalid, as a phrase that completes "the file ...".
pub(super) fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let Some(start) = text.find(BEGIN) else {
        return Err(if text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
            "holds an encrypted key; decrypt it first (openssl pkey)"
        } else {
            "holds no \"BEGIN PRIVATE KEY\" block"
        });
    };
    let body = &text[start + BEGIN.len()..];
    let body = &body[..body
        .find(END)
        .ok_or("ends before \"END PRIVATE KEY\"; it may be truncated")?];
    let mut der = Zeroizing::new(Vec::with_capacity(body.len()));
    let (mut bits, mut count, mut padding) = (0u32, 0usize, 0usize);
    for byte in body.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'=' => {
                padding += 1;
                0
            }
            _ if padding > 0 => return Err("has base64 data after the padding"),
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("has a character that is not base64"),
        };
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count.is_multiple_of(4) {
            der.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    if !count.is_multiple_of(4) || padding > 2 {
        return Err("has a base64 length that is not a multiple of four");
    }
    let length = der.len() - padding.min(der.len());
    der.truncate(length);
    Ok(der)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_writes(der in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = encode(&der);
            prop_assert!(text.lines().all(|line| line.len() <= LINE));
            prop_assert_eq!(&*decode(&text).unwrap(), &der);
        }

        #[test]
        fn no_text_panics(body in "[-A-Za-z0-9+/=\n é]{0,120}") {
            let _ = decode(&body);
            let _ = decode(&format!("{BEGIN}{body}{END}"));
        }
    }

    #[test]
    fn encodes_the_vectors_of_rfc_4648() {
        for (plain, base64) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            let text = format!("{BEGIN}\n{base64}\n{END}\n");
            assert_eq!(*encode(plain.as_bytes()), text);
            assert_eq!(&*decode(&text).unwrap(), plain.as_bytes());
        }
    }

    #[test]
    fn refuses_damaged_text() {
        for (text, reason) in [
            ("", "holds no"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "encrypted"),
            ("-----BEGIN PRIVATE KEY-----\nZm9v", "truncated"),
            (
                "-----BEGIN PRIVATE KEY-----\nZm9\n-----END PRIVATE KEY-----",
                "multiple of four",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nZ===\n-----END PRIVATE KEY-----",
                "multiple of four",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nZm=v\n-----END PRIVATE KEY-----",
                "after the padding",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nZm9!\n-----END PRIVATE KEY-----",
                "not base64",
            ),
        ] {
            let error = decode(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
