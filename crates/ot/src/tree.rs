//! Puncturable PRF: a tree of seeds of which one party knows every leaf and the other, for a
//! point `alpha` of its own, every leaf but number `alpha` (Goldreich, Goldwasser, Micali; sent as
//! in Roy, eprint 2022/192, section 3.2).
//!
//! Level `l` decides bit `l` of the leaf number and is transferred by base OT `l` of the group,
//! with bit `l` of `alpha` as choice. The chosen key of that OT must unlock the sum of the
//! children on the *other* side of `alpha`. At the top the children are the keys themselves;
//! below, the setup message has both sums, each under the key that may open it.
//!
//! The party with a hole numbers nodes relative to `alpha` (`y = x ^ alpha`), so the hole is
//! always node 0 and no memory access depends on `alpha`.

use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

use crate::extension::BLOCK_LEN;
use crate::prg::Stream;

/// Public name of a node for the PRG: unique within a session, and different between sessions
/// through `nonce`.
pub(crate) fn label(nonce: u64, level: usize, group: usize, index: usize) -> u64 {
    // At most 256 indexes and 128 groups.
    nonce ^ (level << 16 | group << 8 | index) as u64
}

/// Fills `leaves` with all `2^k` leaves of the tree of `group` over the `k` key pairs and appends
/// the correction of every level below the top.
pub(crate) fn grow_full(
    nonce: u64,
    group: usize,
    pairs: &[[u128; 2]],
    leaves: &mut [u128],
    message: &mut Vec<u8>,
) {
    [leaves[1], leaves[0]] = pairs[0];
    for (level, pair) in pairs.iter().enumerate().skip(1) {
        let (low, high) = leaves[..2 << level].split_at_mut(1 << level);
        let mut sums = [0; 2];
        for (x, (low, high)) in low.iter_mut().zip(high).enumerate() {
            [*low, *high] = Stream::pair(*low, label(nonce, level, group, x));
            sums[0] ^= *low;
            sums[1] ^= *high;
        }
        for b in 0..2 {
            message.extend_from_slice(&(sums[1 - b] ^ pair[b]).to_le_bytes());
        }
        sums.zeroize();
    }
}

/// Fills `leaves` with the leaves other than number `alpha`, leaf `x` at place `x ^ alpha`; place 0
/// becomes 0. `keys` are the chosen keys, `corrections` the group's part of the setup message.
pub(crate) fn grow_punctured(
    nonce: u64,
    group: usize,
    keys: &[u128],
    alpha: usize,
    corrections: &[[u8; BLOCK_LEN]],
    leaves: &mut [u128],
) {
    leaves[0] = 0;
    leaves[1] = keys[0];
    let (corrections, _) = corrections.as_chunks::<2>();
    for ((level, key), correction) in keys.iter().enumerate().skip(1).zip(corrections) {
        let known = alpha & ((1 << level) - 1);
        let bit = Choice::from((alpha >> level & 1) as u8);
        let [zero, one] = correction.map(u128::from_le_bytes);
        // The sum of all nodes on the other side of alpha; what is left of it in the end is the
        // sibling of the hole.
        let mut sibling = u128::conditional_select(&zero, &one, bit) ^ key;
        let (low, high) = leaves[..2 << level].split_at_mut(1 << level);
        for (y, (low, high)) in low.iter_mut().zip(&mut *high).enumerate().skip(1) {
            [*low, *high] = Stream::pair(*low, label(nonce, level, group, y ^ known));
            u128::conditional_swap(low, high, bit);
            sibling ^= *high;
        }
        high[0] = sibling;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leaves_but_one_agree_for_every_hole() {
        for k in [1_usize, 2, 4, 8] {
            let pairs: Vec<[u128; 2]> = (0..k as u128).map(|i| [1000 + i, 2000 + i]).collect();
            let (mut full, mut message) = (vec![0; 1 << k], Vec::new());
            grow_full(9, 3, &pairs, &mut full, &mut message);
            assert_eq!(message.len(), (k - 1) * 32);
            for (i, leaf) in full.iter().enumerate() {
                assert!(!full[..i].contains(leaf), "leaf {i} repeats");
            }

            let (corrections, _) = message.as_chunks();
            for alpha in 0..1 << k {
                let keys: Vec<u128> = (0..k).map(|l| pairs[l][alpha >> l & 1]).collect();
                let mut punctured = vec![7; 1 << k];
                grow_punctured(9, 3, &keys, alpha, corrections, &mut punctured);
                assert_eq!(punctured[0], 0);
                for y in 1..1 << k {
                    assert_eq!(punctured[y], full[y ^ alpha], "k {k} alpha {alpha} y {y}");
                }
            }
        }
    }
}
