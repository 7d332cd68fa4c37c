//! Encoding and decoding of DER elements (X.690) for self-signed certificates.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
/// The tag `[3]` of a TBSCertificate, which contains its extensions.
pub(super) const EXTENSIONS: u8 = 0xa3;

/// Encodes an element (X.690, section 8.1). Its contents are the concatenation of `parts`.
pub(super) fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let mut element = vec![tag];
    if contents.len() < 0x80 {
        element.push(contents.len() as u8);
    } else {
        // The long form: the number of length bytes with bit 7 set, then the length in big endian.
        let length = contents.len().to_be_bytes();
        let leading_zeros = length.iter().take_while(|&&byte| byte == 0).count();
        let length = &length[leading_zeros..];
        element.push(0x80 | length.len() as u8);
        element.extend(length);
    }
    element.extend(contents);
    element
}

/// Splits off the first element (X.690, section 8.1). Returns its tag, its contents, and the remaining bytes.
pub(super) fn split(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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
    use super::*;

    #[test]
    fn an_encoded_element_splits_into_its_parts() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let contents = vec![5; length];
            let mut der = encode(
                OCTET_STRING,
                &[&contents[..length / 2], &contents[length / 2..]],
            );
            der.push(9);
            assert_eq!(split(&der), Some((OCTET_STRING, &contents[..], &[9][..])));
        }
    }
}
