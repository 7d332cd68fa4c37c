//! Tests of the limits of limbs, the canonical form, and the independence of lanes.

use super::super::Lanes;
use super::*;

/// The largest reduced limb.
const MAX_LIMB: u64 = (1 << 51) + (1 << 15);

#[target_feature(enable = "avx512f,avx512ifma")]
fn is_reduced(element: &Field) -> bool {
    let limbs = element.0.each_ref().map(words);
    limbs.as_flattened().iter().all(|limb| *limb <= MAX_LIMB)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_limits() {
    // The elements have all combinations of minimal and maximal limbs.
    let extremes = (0..32).map(|bits: u32| {
        Field::splat(&std::array::from_fn(|i| {
            MAX_LIMB * u64::from(bits >> i & 1)
        }))
    });
    let extremes: Vec<Field> = extremes.collect();
    for a in &extremes {
        assert!(is_reduced(a) && is_reduced(&a.neg()) && is_reduced(&a.square()));
        let reference = Field::load(&a.store());
        assert_eq!(a.square().store(), reference.square().store());
        assert_eq!(a.square().store(), a.mul(a).store());
        assert_eq!(a.neg().add(a).store(), [[0; 32]; LANES]);
        assert_eq!(a.neg().add(a).is_zero(), Mask::MAX);
        for b in &extremes {
            let other = Field::load(&b.store());
            let (sum, difference, product) = (a.add(b), a.sub(b), a.mul(b));
            assert!(is_reduced(&sum) && is_reduced(&difference) && is_reduced(&product));
            assert_eq!(sum.store(), reference.add(&other).store());
            assert_eq!(difference.store(), reference.sub(&other).store());
            assert_eq!(product.store(), reference.mul(&other).store());
        }
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_canonical() {
    // The numbers from p - 1 to 2^255 - 1, with bit 255 set, which is ignored.
    for above in 0..20_u8 {
        let mut bytes = [0xff; 32];
        bytes[0] = 0xec_u8.wrapping_add(above);
        let mut expected = [0; 32];
        expected[0] = above.wrapping_sub(1);
        if above == 0 {
            expected = [0xff; 32];
            (expected[0], expected[31]) = (0xec, 0x7f);
        }
        let element = Field::load(&[bytes; LANES]);
        assert_eq!(element.store(), [expected; LANES]);
        let negative = if expected[0] & 1 == 1 { Mask::MAX } else { 0 };
        assert_eq!(element.is_negative(), negative);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_lanes() {
    // Every lane has a different element, to show that lanes do not interfere.
    let bytes: [[u8; 32]; LANES] =
        std::array::from_fn(|lane| std::array::from_fn(|i| (31 * lane + 7 * i) as u8 >> 1));
    let all = Field::load(&bytes);
    assert_eq!(all.store(), bytes);
    assert_eq!(all.mul(&all.invert()).store(), Field::small(1).store());
    let square = all.square().store();
    for (lane, bytes) in bytes.iter().enumerate() {
        let alone = Field::load(&[*bytes; LANES]);
        assert_eq!(alone.square().store()[3], square[lane]);
        assert_eq!(alone.equals(&all), 1 << lane);
        let mut mixed = alone;
        mixed.replace(1 << lane, &Field::small(0));
        assert_eq!(mixed.is_zero(), 1 << lane);
    }
    assert_eq!(Field::small(0).invert().is_zero(), Mask::MAX);
}

#[test]
fn arithmetic_holds_at_the_limits() {
    if Lanes::detect().is_none() {
        println!("skipped: no IFMA on this machine");
        return;
    }
    // SAFETY: `Lanes::detect` found the features.
    unsafe {
        check_limits();
        check_canonical();
        check_lanes();
    }
}
