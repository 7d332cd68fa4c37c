//! The operations of [`Group`](super::group::Group) on eight points at a time, with the 52-bit
//! multipliers of AVX-512 IFMA. The results are the same bytes as those of `curve25519-dalek`.
//!
//! Vector instructions do not speed up a single point, but the base OT has hundreds of points that
//! take the same steps. No branch and no memory address depends on a scalar or a point, except that
//! the validity of the peer's points is checked with branches.

#![expect(
    unsafe_code,
    reason = "calls of functions with target features, behind a proof that the CPU has them"
)]

mod constants;
mod field;
mod point;
mod ristretto;

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_COMPRESSED;
use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroizing;

use super::group::{Encodings, RejectedPoint, Rejection};
use point::{Digits, Point, Table, digits};
use ristretto::{decode, encode_doubles, map};

/// Number of elements in a vector.
const LANES: usize = 8;

/// Number of parts of the table for a point that is multiplied by many scalars; see [`Table`].
const PARTS: usize = 8;

/// The proof that this CPU has AVX-512 F and IFMA.
#[derive(Clone, Copy)]
pub(super) struct Lanes(());

impl Lanes {
    /// Returns the proof if the CPU has the features; the standard library caches the detection.
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        found.then_some(Self(()))
    }

    pub(super) fn mapped(self, uniform: &[[u8; 64]]) -> Encodings {
        // SAFETY: a `Lanes` value exists only if the CPU has AVX-512 F and IFMA.
        unsafe { mapped(uniform) }
    }

    pub(super) fn differences(self, halves: &[Scalar], uniform: &[[u8; 64]]) -> Encodings {
        // SAFETY: a `Lanes` value exists only if the CPU has AVX-512 F and IFMA.
        unsafe { differences(halves, uniform) }
    }

    pub(super) fn multiples(
        self,
        sent: &[u8; 32],
        halves: &[Scalar],
    ) -> Result<Encodings, RejectedPoint> {
        // SAFETY: a `Lanes` value exists only if the CPU has AVX-512 F and IFMA.
        unsafe { multiples(sent, halves) }
    }

    pub(super) fn sums(
        self,
        half: &Scalar,
        sent: &[[u8; 32]],
        uniform: &[[u8; 64]],
    ) -> Result<Encodings, RejectedPoint> {
        // SAFETY: a `Lanes` value exists only if the CPU has AVX-512 F and IFMA.
        unsafe { sums(half, sent, uniform) }
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn mapped(uniform: &[[u8; 64]]) -> Encodings {
    let mut points = reserved(uniform.len());
    for uniform in groups(uniform) {
        points.push(map(&uniform));
    }
    encoded(&points, uniform.len())
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn differences(halves: &[Scalar], uniform: &[[u8; 64]]) -> Encodings {
    let (base, _) = decode(&[RISTRETTO_BASEPOINT_COMPRESSED.0; LANES]);
    let table = Table::new(&base, PARTS);
    let mut points = reserved(uniform.len());
    for (halves, uniform) in halves.chunks(LANES).zip(groups(uniform)) {
        let own = table.multiply(&digits_of(halves));
        points.push(own.sub(&map(&uniform)));
    }
    encoded(&points, uniform.len())
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiples(sent: &[u8; 32], halves: &[Scalar]) -> Result<Encodings, RejectedPoint> {
    let (base, valid) = decode(&[*sent; LANES]);
    check(0, 1, valid, base.is_identity())?;
    let table = Table::new(&base, if halves.len() > LANES { PARTS } else { 1 });
    let mut points = reserved(halves.len());
    for halves in halves.chunks(LANES) {
        points.push(table.multiply(&digits_of(halves)));
    }
    Ok(encoded(&points, halves.len()))
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn sums(
    half: &Scalar,
    sent: &[[u8; 32]],
    uniform: &[[u8; 64]],
) -> Result<Encodings, RejectedPoint> {
    let digits = digits_of(&[*half; LANES]);
    let mut points = reserved(sent.len());
    for (i, (group, uniform)) in groups(sent).zip(groups(uniform)).enumerate() {
        let (sent_point, valid) = decode(&group);
        let hashed = map(&uniform);
        let sum = sent_point.add(&hashed).add(&hashed);
        let identity = sent_point.is_identity() | sum.is_identity();
        check(i * LANES, sent.len(), valid, identity)?;
        points.push(Table::new(&sum, 1).multiply(&digits));
    }
    Ok(encoded(&points, sent.len()))
}

/// Rejects the first point that is invalid or the identity, in the group that starts at `first` in
/// a message of `count` points.
fn check(first: usize, count: usize, valid: u8, identity: u8) -> Result<(), RejectedPoint> {
    for lane in 0..LANES.min(count - first) {
        let why = if valid >> lane & 1 == 0 {
            Rejection::Invalid
        } else if identity >> lane & 1 == 1 {
            Rejection::Identity
        } else {
            continue;
        };
        let index = first + lane;
        return Err(RejectedPoint { index, why });
    }
    Ok(())
}

/// Splits a slice into groups; the last group is padded with zeros.
fn groups<const N: usize>(all: &[[u8; N]]) -> impl Iterator<Item = [[u8; N]; LANES]> {
    all.chunks(LANES).map(|chunk| {
        let mut group = [[0; N]; LANES];
        group[..chunk.len()].copy_from_slice(chunk);
        group
    })
}

/// Splits a group of scalars into digits.
fn digits_of(scalars: &[Scalar]) -> Digits {
    let mut bytes = Zeroizing::new([[0; 32]; LANES]);
    for (bytes, scalar) in bytes.iter_mut().zip(scalars) {
        *bytes = scalar.to_bytes();
    }
    digits(&bytes)
}

fn reserved(count: usize) -> Zeroizing<Vec<Point>> {
    Zeroizing::new(Vec::with_capacity(count.div_ceil(LANES)))
}

/// Encodes twice the first `count` points.
#[target_feature(enable = "avx512f,avx512ifma")]
fn encoded(points: &[Point], count: usize) -> Encodings {
    let mut encodings = encode_doubles(points);
    encodings.truncate(count);
    encodings
}
