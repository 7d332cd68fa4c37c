//! The operations of the base OT in Ristretto255, on batches of points.
//!
//! All points are computed as halves and doubled on encoding, because doubling allows a whole batch
//! of encodings to share one field inversion.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoBasepointTable, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use zeroize::Zeroizing;

#[cfg(target_arch = "x86_64")]
use super::lanes::Lanes;

/// Encoded points, wiped on drop.
pub(super) type Encodings = Zeroizing<Vec<[u8; 32]>>;

/// A point of the peer that is rejected, with the reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct RejectedPoint {
    /// The index of the point in the message.
    pub(super) index: usize,
    pub(super) why: Rejection,
}

/// The reason why a point is rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rejection {
    /// The bytes are not a canonical encoding.
    Invalid,
    /// The point, or the point that is multiplied by the secret, is the identity. Ristretto255 has
    /// prime order, so there are no other points of small order.
    Identity,
}

/// An implementation of the operations; all implementations return the same bytes.
#[derive(Clone, Copy)]
pub(super) enum Group {
    /// One point at a time.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Lanes(Lanes),
}

/// Minimum number of multiplications of one point for which a table of its multiples saves time.
const MIN_TABLE_SCALARS: usize = 48;

impl Group {
    /// Returns the fastest implementation that this CPU supports.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = Lanes::detect() {
            return Self::Lanes(lanes);
        }
        Self::Portable
    }

    /// For each string of uniform bytes, returns the encoding of twice the point to which it is
    /// mapped.
    pub(super) fn mapped(self, uniform: &[[u8; 64]]) -> Encodings {
        #[cfg(target_arch = "x86_64")]
        if let Self::Lanes(lanes) = self {
            return lanes.mapped(uniform);
        }
        let points = uniform.iter().map(RistrettoPoint::from_uniform_bytes);
        encode_doubles(points.collect())
    }

    /// For each scalar `half` and string of uniform bytes, returns the encoding of twice `half * G`
    /// minus twice the point to which the string is mapped.
    pub(super) fn differences(self, halves: &[Scalar], uniform: &[[u8; 64]]) -> Encodings {
        #[cfg(target_arch = "x86_64")]
        if let Self::Lanes(lanes) = self {
            return lanes.differences(halves, uniform);
        }
        let points = halves.iter().zip(uniform).map(|(half, uniform)| {
            RistrettoPoint::mul_base(half) - RistrettoPoint::from_uniform_bytes(uniform)
        });
        encode_doubles(points.collect())
    }

    /// Returns the encodings of the sent point multiplied by twice each scalar in `halves`.
    pub(super) fn multiples(
        self,
        sent: &[u8; 32],
        halves: &[Scalar],
    ) -> Result<Encodings, RejectedPoint> {
        #[cfg(target_arch = "x86_64")]
        if let Self::Lanes(lanes) = self {
            return lanes.multiples(sent, halves);
        }
        let point = decode(0, sent)?;
        Ok(encode_doubles(if halves.len() < MIN_TABLE_SCALARS {
            halves.iter().map(|half| half * point).collect()
        } else {
            let table = RistrettoBasepointTable::create(&point);
            halves.iter().map(|half| half * &table).collect()
        }))
    }

    /// For each sent point, adds twice the point to which its uniform bytes are mapped. Returns the
    /// encodings of these sums multiplied by twice `half`.
    pub(super) fn sums(
        self,
        half: &Scalar,
        sent: &[[u8; 32]],
        uniform: &[[u8; 64]],
    ) -> Result<Encodings, RejectedPoint> {
        #[cfg(target_arch = "x86_64")]
        if let Self::Lanes(lanes) = self {
            return lanes.sums(half, sent, uniform);
        }
        let mut points = Vec::with_capacity(sent.len());
        for (index, (sent, uniform)) in sent.iter().zip(uniform).enumerate() {
            let hashed = RistrettoPoint::from_uniform_bytes(uniform);
            let sum = decode(index, sent)? + hashed + hashed;
            check_not_identity(index, &sum)?;
            points.push(half * sum);
        }
        Ok(encode_doubles(points))
    }
}

fn decode(index: usize, encoding: &[u8; 32]) -> Result<RistrettoPoint, RejectedPoint> {
    let why = Rejection::Invalid;
    let point = CompressedRistretto(*encoding)
        .decompress()
        .ok_or(RejectedPoint { index, why })?;
    check_not_identity(index, &point)?;
    Ok(point)
}

fn check_not_identity(index: usize, point: &RistrettoPoint) -> Result<(), RejectedPoint> {
    if point.is_identity() {
        let why = Rejection::Identity;
        return Err(RejectedPoint { index, why });
    }
    Ok(())
}

/// Encodes twice every point and wipes the points.
fn encode_doubles(halves: Vec<RistrettoPoint>) -> Encodings {
    let halves = Zeroizing::new(halves);
    let encodings = Zeroizing::new(RistrettoPoint::double_and_compress_batch(&*halves));
    Zeroizing::new(encodings.iter().map(|encoding| encoding.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha512};

    /// Returns the encoding of the field element p plus `above`.
    fn near_p(above: u8) -> [u8; 32] {
        let mut bytes = [0xff; 32];
        bytes[0] = 0xed_u8.wrapping_add(above);
        bytes[31] = 0x7f;
        bytes
    }

    fn random(count: usize, seed: u8) -> Vec<[u8; 64]> {
        (0..count)
            .map(|i| {
                Sha512::new()
                    .chain_update([seed])
                    .chain_update(i.to_le_bytes())
            })
            .map(|hash| hash.finalize().into())
            .collect()
    }

    fn scalars(count: usize) -> Vec<Scalar> {
        let edges = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(8_u8)];
        let random = random(count, 1);
        let random = random.iter().map(Scalar::from_bytes_mod_order_wide);
        edges.into_iter().chain(random).take(count).collect()
    }

    /// Returns random bytes, some of whose halves are 0, maximal, or close to p.
    fn uniform(count: usize) -> Vec<[u8; 64]> {
        let mut all = random(count, 2);
        let edges = [
            [0; 32],
            [0xff; 32],
            near_p(0),
            near_p(1),
            near_p(0xff),
            near_p(18),
        ];
        for (i, bytes) in all.iter_mut().enumerate().take(12) {
            bytes[32 * (i % 2)..][..32].copy_from_slice(&edges[i / 2]);
        }
        if let Some(bytes) = all.get_mut(12) {
            *bytes = [0; 64];
        }
        all
    }

    const COUNTS: [usize; 9] = [0, 1, 7, 8, 9, 16, 17, 47, 50];

    #[test]
    fn all_implementations_encode_the_same_points() {
        let chosen = Group::detect();
        for count in COUNTS {
            let (halves, uniform) = (scalars(count), uniform(count));
            let sent = Group::Portable.mapped(&random(count, 3));
            assert_eq!(chosen.mapped(&random(count, 3)), sent);
            assert_eq!(chosen.mapped(&uniform), Group::Portable.mapped(&uniform));
            assert_eq!(
                chosen.differences(&halves, &uniform),
                Group::Portable.differences(&halves, &uniform)
            );
            for point in sent.iter().take(3) {
                assert_eq!(
                    chosen.multiples(point, &halves),
                    Group::Portable.multiples(point, &halves)
                );
            }
            for half in scalars(6) {
                let expected = Group::Portable.sums(&half, &sent, &uniform);
                assert!(expected.is_ok());
                assert_eq!(chosen.sums(&half, &sent, &uniform), expected);
            }
        }
    }

    #[test]
    fn the_map_gives_the_values_of_rfc_9496() {
        // The text and the point are the first test vector of RFC 9496, appendix A.3.
        let text = b"Ristretto is traditionally a short shot of espresso coffee";
        let uniform: [u8; 64] = Sha512::digest(text).into();
        let published = [
            0x30, 0x66, 0xf8, 0x2a, 0x1a, 0x74, 0x7d, 0x45, 0x12, 0x0d, 0x17, 0x40, 0xf1, 0x43,
            0x58, 0x53, 0x1a, 0x8f, 0x04, 0xbb, 0xff, 0xe6, 0xa8, 0x19, 0xf8, 0x6d, 0xfe, 0x50,
            0xf4, 0x4a, 0x0a, 0x46,
        ];
        let half = (Scalar::ONE + Scalar::ONE).invert();
        for group in [Group::Portable, Group::detect()] {
            // The expected point is twice zero times G, minus twice the mapped point.
            let [minus] = group.differences(&[Scalar::ZERO], &[uniform])[..] else {
                panic!("one point");
            };
            let halved = group.multiples(&minus, &[-half * half]).unwrap();
            assert_eq!(halved[0], published);
        }
    }

    #[test]
    fn all_implementations_reject_the_same_points() {
        const COUNT: usize = 18;
        let (half, uniform) = (scalars(5)[4], uniform(COUNT));
        let good = Group::Portable.mapped(&random(COUNT, 4));
        // The sent point is the negative of twice the mapped point at the same index, so that their
        // sum is the identity.
        let minus = Group::Portable.differences(&[Scalar::ZERO; COUNT], &uniform);
        let both = |sent: &[[u8; 32]]| {
            let expected = Group::Portable.sums(&half, sent, &uniform);
            assert_eq!(Group::detect().sums(&half, sent, &uniform), expected);
            expected.map(drop)
        };
        let mut negative = [0; 32];
        negative[0] = 1;
        for index in [0, 3, 7, 8, 17] {
            for (bad, why) in [
                (near_p(0), Rejection::Invalid),
                (near_p(2), Rejection::Invalid),
                ([0xff; 32], Rejection::Invalid),
                (negative, Rejection::Invalid),
                ([0; 32], Rejection::Identity),
                (minus[index], Rejection::Identity),
            ] {
                let mut sent = good.to_vec();
                sent[index] = bad;
                assert_eq!(both(&sent), Err(RejectedPoint { index, why }));
                // If several points are invalid, the error contains the first.
                sent[COUNT - 1] = if why == Rejection::Invalid {
                    [0; 32]
                } else {
                    [0xff; 32]
                };
                let why = if index == COUNT - 1 {
                    if why == Rejection::Invalid {
                        Rejection::Identity
                    } else {
                        Rejection::Invalid
                    }
                } else {
                    why
                };
                assert_eq!(both(&sent), Err(RejectedPoint { index, why }));
            }
        }
    }

    #[test]
    fn all_implementations_accept_the_same_encodings() {
        // One random string in 16 encodes a point, and one small number in 8.
        let mut accepted = 0;
        for i in 0..2_000_u32 {
            let mut bytes = [0; 32];
            if i < 1_000 {
                bytes[..4].copy_from_slice(&i.to_le_bytes());
            } else {
                let random: [u8; 64] = Sha512::digest(i.to_le_bytes()).into();
                bytes.copy_from_slice(&random[..32]);
            }
            let halves = [Scalar::ONE];
            let expected = Group::Portable.multiples(&bytes, &halves);
            accepted += u32::from(expected.is_ok());
            assert_eq!(
                Group::detect().multiples(&bytes, &halves),
                expected,
                "{bytes:?}"
            );
        }
        assert!((100..400).contains(&accepted), "{accepted} accepted");
    }
}
