//! Ristretto255 (RFC 9496) in eight lanes: decoding, the map from uniform bytes, and encoding.

use zeroize::{Zeroize, Zeroizing};

use super::LANES;
use super::constants::{
    D, D_MINUS_ONE_SQUARED, INVSQRT_A_MINUS_D, ONE_MINUS_D_SQUARED, SQRT_AD_MINUS_ONE, SQRT_M1,
};
use super::field::{Field, Mask};
use super::point::{Completed, Point};

/// Returns the even square root of `u / v`, or of `i u / v` if `u / v` is not a square, and the
/// lanes where `u / v` is a square (`SQRT_RATIO_M1`, RFC 9496, section 4.2).
#[target_feature(enable = "avx512f,avx512ifma")]
fn sqrt_ratio(u: &Field, v: &Field) -> (Mask, Field) {
    let v3 = v.square().mul(v);
    let v7 = v3.square().mul(v);
    let mut root = u.mul(&v3).mul(&u.mul(&v7).power_p58());
    let check = v.mul(&root.square());
    let i = Field::splat(&SQRT_M1);
    let minus_u = u.neg();
    let correct = check.equals(u);
    let flipped = check.equals(&minus_u);
    let flipped_i = check.equals(&minus_u.mul(&i));
    let other = root.mul(&i);
    root.replace(flipped | flipped_i, &other);
    (correct | flipped, root.abs())
}

/// Decodes one point per lane; returns the points and the lanes with a valid encoding (RFC 9496,
/// section 4.3.1). The other lanes contain arbitrary values, which are not secret.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn decode(bytes: &[[u8; 32]; LANES]) -> (Point, Mask) {
    let s = Field::load(bytes);
    let mut valid = !s.is_negative();
    for (lane, (sent, canonical)) in bytes.iter().zip(&s.store()).enumerate() {
        if sent != canonical {
            valid &= !(1 << lane);
        }
    }
    let one = Field::small(1);
    let ss = s.square();
    let u1 = one.sub(&ss);
    let u2 = one.add(&ss);
    let u2_squared = u2.square();
    let v = Field::splat(&D).mul(&u1.square()).add(&u2_squared).neg();
    let (square, inverse) = sqrt_ratio(&one, &v.mul(&u2_squared));
    let den_x = inverse.mul(&u2);
    let den_y = inverse.mul(&den_x).mul(&v);
    let x = s.add(&s).mul(&den_x).abs();
    let y = u1.mul(&den_y);
    let t = x.mul(&y);
    valid &= square & !t.is_negative() & !y.is_zero();
    (Point { x, y, z: one, t }, valid)
}

/// Maps 64 uniform bytes per lane to a uniform point (RFC 9496, section 4.3.4).
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn map(uniform: &[[u8; 64]; LANES]) -> Point {
    let halves = Zeroizing::new([0, 1].map(|half| {
        uniform.map(|bytes| {
            let (halves, _) = bytes.as_chunks::<32>();
            halves[half]
        })
    }));
    let [first, second] = halves.each_ref();
    map_half(&Field::load(first)).add(&map_half(&Field::load(second)))
}

/// Applies the function `MAP` of RFC 9496.
#[target_feature(enable = "avx512f,avx512ifma")]
fn map_half(t: &Field) -> Point {
    let one = Field::small(1);
    let d = Field::splat(&D);
    let r = Field::splat(&SQRT_M1).mul(&t.square());
    let u = r.add(&one).mul(&Field::splat(&ONE_MINUS_D_SQUARED));
    let v = one.add(&r.mul(&d)).neg().mul(&r.add(&d));
    let (square, mut s) = sqrt_ratio(&u, &v);
    let other = s.mul(t).abs().neg();
    s.replace(!square, &other);
    let mut c = one.neg();
    c.replace(!square, &r);
    let n = c
        .mul(&r.sub(&one))
        .mul(&Field::splat(&D_MINUS_ONE_SQUARED))
        .sub(&v);
    let ss = s.square();
    Completed {
        x: s.add(&s).mul(&v),
        y: one.sub(&ss),
        z: n.mul(&Field::splat(&SQRT_AD_MINUS_ONE)),
        t: one.add(&ss),
    }
    .point()
}

/// The intermediate state for encoding the double of a point, up to an inversion.
#[derive(Clone, Zeroize)]
struct Unencoded {
    e: Field,
    f: Field,
    g: Field,
    h: Field,
    eg: Field,
    fh: Field,
}

/// Encodes twice each point, with one inversion for all points.
///
/// Doubling yields `x = e / f`, `y = g / h`. The inverse square root of the encoding (RFC 9496,
/// section 4.3.2) is `1 / (e f g h)` up to a constant, so no square root is computed.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn encode_doubles(points: &[Point]) -> Zeroizing<Vec<[u8; 32]>> {
    let mut states = Zeroizing::new(Vec::with_capacity(points.len()));
    // Products of all earlier denominators except zeros (Montgomery's trick).
    let mut before = Zeroizing::new(Vec::with_capacity(points.len()));
    let mut product = Field::small(1);
    for point in points {
        let state = Unencoded::new(point);
        before.push(product);
        let all = state.eg.mul(&state.fh);
        let zero = all.is_zero();
        let next = product.mul(&all);
        product.replace(!zero, &next);
        states.push(state);
    }
    let mut inverse = product.invert();
    let mut encodings = Zeroizing::new(vec![[0; 32]; points.len() * LANES]);
    let (groups, _) = encodings.as_chunks_mut::<LANES>();
    for ((state, before), group) in states.iter().zip(before.iter()).zip(groups).rev() {
        let all = state.eg.mul(&state.fh);
        let zero = all.is_zero();
        let mut own = inverse.mul(before);
        own.replace(zero, &Field::small(0));
        let next = inverse.mul(&all);
        inverse.replace(!zero, &next);
        *group = state.encode(&own);
    }
    encodings
}

impl Unencoded {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(point: &Point) -> Self {
        let Point { x, y, z, t } = point;
        let zz = z.square();
        let dtt = Field::splat(&D).mul(&t.square());
        let e = x.mul(&y.add(y));
        let f = zz.add(&dtt);
        let g = y.square().add(&x.square());
        let h = zz.sub(&dtt);
        let (eg, fh) = (e.mul(&g), f.mul(&h));
        Self { e, f, g, h, eg, fh }
    }

    /// Encodes the points, given the inverse of `e f g h`, or 0 if that is 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn encode(&self, inverse: &Field) -> [[u8; 32]; LANES] {
        let i = Field::splat(&SQRT_M1);
        let z_inverse = self.eg.mul(inverse);
        let t_inverse = self.fh.mul(inverse);

        // Selects the coset member with even `x y` and, below, even `x`.
        let rotate = self.eg.mul(&z_inverse).is_negative();
        let (mut e, mut g, mut h) = (self.e, self.g, self.h);
        let mut magic = Field::splat(&INVSQRT_A_MINUS_D);
        e.replace(rotate, &self.g);
        g.replace(rotate, &self.e.neg());
        h.replace(rotate, &self.f.mul(&i));
        magic.replace(rotate, &i);

        let negative = h.mul(&e).mul(&z_inverse).is_negative();
        g.negate(negative);
        h.sub(&g).mul(&magic).mul(&g.mul(&t_inverse)).abs().store()
    }
}
