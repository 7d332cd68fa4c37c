//! Conversions between bits and bytes: shares of results, masks and sets of companies.

use rand::{TryRng, rngs::SysRng};
use transpute::Bits;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Packs bits into bytes, least significant bit first.
pub(crate) fn pack(bits: &Bits) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    for (index, bit) in bits.iter().enumerate() {
        bytes[index / 8] |= u8::from(bit) << (index % 8);
    }
    bytes
}

/// Unpacks `width` bits from bytes. Returns `None` if the number of bytes is not the minimum for
/// `width` bits, or if a padding bit is set.
pub(crate) fn unpack(bytes: &[u8], width: usize) -> Option<Bits> {
    if bytes.len() != width.div_ceil(8) {
        return None;
    }
    let bit = |index: usize| bytes[index / 8] >> (index % 8) & 1 == 1;
    if (width..8 * bytes.len()).any(bit) {
        return None;
    }
    Some((0..width).map(bit).collect())
}

/// Packs a set of numbers below `limit` as a bit set of `limit` bits.
pub(crate) fn pack_numbers(numbers: &[u16], limit: usize) -> Vec<u8> {
    let mut bits = Bits::zeros(limit);
    for &number in numbers {
        bits.set(usize::from(number), true);
    }
    pack(&bits)
}

/// Unpacks a bit set of `limit` bits. Returns its numbers in ascending order, or `None` if
/// [`unpack`] rejects the bytes.
pub(crate) fn unpack_numbers(bytes: &[u8], limit: usize) -> Option<Vec<u16>> {
    let bits = unpack(bytes, limit)?;
    let numbers = bits.iter().zip(0_u16..).filter(|(bit, _)| *bit);
    Some(numbers.map(|(_, number)| number).collect())
}

/// Returns random bytes from the operating system.
///
/// # Errors
/// Returns [`Failure::Random`] if the system provides none.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    fill(&mut bytes[..])?;
    Ok(bytes)
}

/// Returns random bits from the operating system.
///
/// # Errors
/// Returns [`Failure::Random`] if the system provides none.
pub(crate) fn random_bits(width: usize) -> Result<Bits, Failure> {
    let mut bytes = Zeroizing::new(vec![0; width.div_ceil(8)]);
    fill(&mut bytes)?;
    let bit = |index: usize| bytes[index / 8] >> (index % 8) & 1 == 1;
    Ok((0..width).map(bit).collect())
}

fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    (SysRng.try_fill_bytes(bytes)).map_err(|error| Failure::Random(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_bits_are_unpacked_again(bits in prop::collection::vec(any::<bool>(), 0..200)) {
            let bits: Bits = bits.into_iter().collect();
            prop_assert_eq!(unpack(&pack(&bits), bits.len()), Some(bits.clone()));
            prop_assert_eq!(unpack(&pack(&bits), bits.len() + 8), None);
        }

        #[test]
        fn packed_numbers_are_unpacked_again(numbers in prop::collection::btree_set(0_u16..100, 0..50)) {
            let numbers: Vec<_> = numbers.into_iter().collect();
            prop_assert_eq!(unpack_numbers(&pack_numbers(&numbers, 100), 100), Some(numbers));
        }
    }

    #[test]
    fn padding_bits_must_be_zero() {
        assert_eq!(unpack(&[0b1000], 3), None);
        assert_eq!(unpack(&[0b0111], 3).unwrap().to_string(), "111");
        assert_eq!(unpack_numbers(&[0, 1], 8), None);
        assert_eq!(unpack_numbers(&[0, 1], 9), Some(vec![8]));
    }

    #[test]
    fn random_bits_differ() {
        assert_ne!(random_bits(128).unwrap(), random_bits(128).unwrap());
        assert_eq!(random_bits(213).unwrap().len(), 213);
    }
}
