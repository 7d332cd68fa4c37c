//! Parsing and writing of little-endian fields and variable-length integers, with bounds checks.

/// Error: the packet ends before the field does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Truncated;

/// The maximum of a variable-length integer.
pub(crate) const MAX_VARINT: u64 = (1 << 62) - 1;

/// Parses fields from the front of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.take(1)?[0])
    }

    /// Reads an unsigned integer of `count <= 8` bytes.
    pub(crate) fn uint(&mut self, count: usize) -> Result<u64, Truncated> {
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(self.take(count)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a variable-length integer. The two low bits of its first byte determine its length of
    /// 1, 2, 4 or 8 bytes.
    pub(crate) fn varint(&mut self) -> Result<u64, Truncated> {
        let first = *self.0.first().ok_or(Truncated)?;
        Ok(self.uint(1 << (first & 3))? >> 2)
    }
}

/// Appends an unsigned integer of `count <= 8` bytes.
pub(crate) fn put_uint(out: &mut Vec<u8>, value: u64, count: usize) {
    out.extend_from_slice(&value.to_le_bytes()[..count]);
}

/// Appends a variable-length integer. A value above [`MAX_VARINT`] is written as [`MAX_VARINT`].
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX_VARINT);
    let exponent = varint_exponent(value);
    put_uint(out, value << 2 | u64::from(exponent), 1 << exponent);
}

/// Returns the length of a variable-length integer, in bytes.
pub(crate) fn varint_len(value: u64) -> usize {
    1 << varint_exponent(value)
}

fn varint_exponent(value: u64) -> u32 {
    match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers_round_trip_with_the_minimum_length() {
        for (value, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX_VARINT, 8),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), length);
            assert_eq!(varint_len(value), length);
            let mut reader = Reader(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
            assert_eq!(Reader(&out[..length - 1]).varint(), Err(Truncated));
        }
    }
}
