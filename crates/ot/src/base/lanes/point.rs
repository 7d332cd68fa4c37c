//! Eight points of the curve `-x^2 + y^2 = 1 + d x^2 y^2`, one per lane, and their multiples.
//!
//! The formulas of Hisil, Wong, Carter and Dawson (ASIACRYPT 2008) are complete for this curve:
//! they hold for all inputs, so nothing branches on a point or a scalar.

use std::arch::x86_64::{
    _mm_set_epi64x, _mm512_abs_epi64, _mm512_cmpeq_epi64_mask, _mm512_cmplt_epi64_mask,
    _mm512_cvtepi8_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
};

use zeroize::{Zeroize, Zeroizing};

use super::LANES;
use super::constants::D2;
use super::field::{Field, Mask};

/// A point in extended coordinates: `x = X / Z`, `y = Y / Z`, `x y = T / Z`.
#[derive(Clone, Copy, Zeroize)]
pub(super) struct Point {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
    pub(super) t: Field,
}

/// The result of an addition or doubling, whose coordinates still have different denominators: `x =
/// X / Z`, `y = Y / T`.
pub(super) struct Completed {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
    pub(super) t: Field,
}

/// A point prepared for addition: `Y + X`, `Y - X`, `2 Z` and `2 d T`.
#[derive(Clone, Copy, Zeroize)]
struct Addend {
    sum: Field,
    difference: Field,
    z2: Field,
    t2d: Field,
}

/// Number of 4-bit digits of a scalar.
pub(super) const DIGITS: usize = 64;

/// Number of multiples of a point in a table. It equals the largest absolute value of a digit.
const MULTIPLES: usize = 8;

/// One digit from -8 to 7 per lane and position, least significant position first.
pub(super) type Digits = Zeroizing<[[i8; LANES]; DIGITS]>;

/// Splits scalars below 2^254 into digits. The last digit can also hold the carry.
pub(super) fn digits(scalars: &[[u8; 32]; LANES]) -> Digits {
    let mut digits = Zeroizing::new([[0; LANES]; DIGITS]);
    for (lane, scalar) in scalars.iter().enumerate() {
        let mut carry = 0;
        for (i, digits) in digits.iter_mut().enumerate() {
            let digit = (scalar[i / 2] >> (4 * (i % 2)) & 15) as i8 + carry;
            carry = (digit + 8) >> 4;
            digits[lane] = digit - (carry << 4);
        }
    }
    digits
}

impl Completed {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn point(&self) -> Point {
        Point {
            x: self.x.mul(&self.t),
            y: self.y.mul(&self.z),
            z: self.z.mul(&self.t),
            t: self.x.mul(&self.y),
        }
    }
}

impl Point {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn identity() -> Self {
        let (zero, one) = (Field::small(0), Field::small(1));
        Self {
            x: zero,
            y: one,
            z: one,
            t: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn doubled(&self) -> Completed {
        let xx = self.x.square();
        let yy = self.y.square();
        let zz = self.z.square();
        let both = self.x.add(&self.y).square();
        let sum = yy.add(&xx);
        let difference = yy.sub(&xx);
        Completed {
            x: both.sub(&sum),
            y: sum,
            z: difference,
            t: zz.add(&zz).sub(&difference),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn addend(&self) -> Addend {
        Addend {
            sum: self.y.add(&self.x),
            difference: self.y.sub(&self.x),
            z2: self.z.add(&self.z),
            t2d: self.t.mul(&Field::splat(&D2)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn plus(&self, other: &Addend) -> Completed {
        let pp = self.y.add(&self.x).mul(&other.sum);
        let mm = self.y.sub(&self.x).mul(&other.difference);
        let tt = self.t.mul(&other.t2d);
        let zz = self.z.mul(&other.z2);
        Completed {
            x: pp.sub(&mm),
            y: pp.add(&mm),
            z: zz.add(&tt),
            t: zz.sub(&tt),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn add(&self, other: &Self) -> Self {
        self.plus(&other.addend()).point()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn sub(&self, other: &Self) -> Self {
        let mut other = other.addend();
        other.negate(Mask::MAX);
        self.plus(&other).point()
    }

    /// Returns the lanes that represent the identity of Ristretto255.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_identity(&self) -> Mask {
        self.x.is_zero() | self.y.is_zero()
    }
}

impl Addend {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn replace(&mut self, mask: Mask, other: &Self) {
        self.sum.replace(mask, &other.sum);
        self.difference.replace(mask, &other.difference);
        self.z2.replace(mask, &other.z2);
        self.t2d.replace(mask, &other.t2d);
    }

    /// Negates the lanes in `mask`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn negate(&mut self, mask: Mask) {
        let sum = self.sum;
        self.sum.replace(mask, &self.difference);
        self.difference.replace(mask, &sum);
        self.t2d.negate(mask);
    }
}

/// Tables of the multiples of eight points, in one or several parts.
///
/// One part is a table of 1 to 8 times the point. With `n` parts there are tables for the point,
/// for `16^(64 / n)` times the point, and so on. All parts share the doublings between digits,
/// which saves time for a point that is multiplied by many scalars.
pub(super) struct Table(Zeroizing<Vec<[Addend; MULTIPLES]>>);

impl Table {
    /// Computes the multiples of a point, in `parts` parts.
    ///
    /// # Panics
    /// Panics unless `parts` is a power of two up to 64.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn new(point: &Point, parts: usize) -> Self {
        assert!(DIGITS.is_multiple_of(parts), "{parts} parts");
        let mut tables = Zeroizing::new(Vec::with_capacity(parts));
        let mut base = *point;
        loop {
            tables.push(base.multiples());
            if tables.len() == parts {
                return Self(tables);
            }
            for _ in 0..DIGITS / parts {
                base.times_16();
            }
        }
    }

    /// Multiplies each point by the scalar of its lane.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply(&self, digits: &Digits) -> Point {
        let apart = DIGITS / self.0.len();
        let mut product = Point::identity();
        for i in (0..apart).rev() {
            product.times_16();
            for (part, multiples) in self.0.iter().enumerate() {
                let addend = select(multiples, &digits[part * apart + i]);
                product = product.plus(&addend).point();
            }
        }
        product
    }
}

impl Point {
    /// Returns 1 to 8 times each point.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiples(&self) -> [Addend; MULTIPLES] {
        let first = self.addend();
        let mut multiples = [first; MULTIPLES];
        let mut multiple = *self;
        for place in &mut multiples[1..] {
            // The formulas are complete, so they can add a point to itself.
            multiple = multiple.plus(&first).point();
            *place = multiple.addend();
        }
        multiples
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn times_16(&mut self) {
        for _ in 0..3 {
            let double = self.doubled();
            // The doubling formula does not use T.
            self.x = double.x.mul(&double.t);
            self.y = double.y.mul(&double.z);
            self.z = double.z.mul(&double.t);
        }
        *self = self.doubled().point();
    }
}

/// Selects a multiple per lane, after reading all multiples.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn select(multiples: &[Addend; MULTIPLES], digits: &[i8; LANES]) -> Addend {
    let one = Field::small(1);
    let mut chosen = Addend {
        sum: one,
        difference: one,
        z2: Field::small(2),
        t2d: Field::small(0),
    };
    let digits = _mm512_cvtepi8_epi64(_mm_set_epi64x(
        0,
        i64::from_le_bytes(digits.map(i8::cast_unsigned)),
    ));
    let sizes = _mm512_abs_epi64(digits);
    for (i, multiple) in multiples.iter().enumerate() {
        let wanted = _mm512_cmpeq_epi64_mask(sizes, _mm512_set1_epi64(i as i64 + 1));
        chosen.replace(wanted, multiple);
    }
    chosen.negate(_mm512_cmplt_epi64_mask(digits, _mm512_setzero_si512()));
    chosen
}
