//! Puncturable PRF: a tree of seeds of which one party, the owner, knows every leaf. The other
//! party knows every leaf except number `alpha`, a point of its choice (Goldreich, Goldwasser,
//! Micali; transferred as in Roy, eprint 2022/192, section 3.2).
//!
//! Level `l` determines bit `l` of the leaf number. It is transferred by base OT `l` of the group,
//! with bit `l` of `alpha` as choice. The chosen key of that OT unlocks the sum of the children on
//! the side that does *not* contain leaf `alpha`. At the top, the children are the keys themselves.
//! Below, the setup message has both sums, each masked with the key that may unlock it.
//!
//! The other party numbers nodes relative to `alpha` (`y = x ^ alpha`), so that the hole is always
//! node 0 and no memory address depends on `alpha`.
//!
//! A check proves that the corrections of all levels below the top belong to one tree for every
//! `alpha` (section 3.2 of the same paper). Every leaf is expanded to its final value and a string
//! of 32 bytes; the owner sends the sum and a hash of all strings. The other party computes the
//! string of its hole from the sum. If the owner sends wrong corrections for one side of a level,
//! it passes only if the bit of `alpha` does not select that side. It therefore has to guess bits
//! of `alpha`.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

use crate::OtError;
use crate::extension::{BLOCK_LEN, Block, TREE_CHECK_LEN, from_block};
use crate::prg::Stream;

/// Returns the public PRG label of a node. It is unique within a session, and `nonce` makes it
/// differ between sessions.
pub(crate) fn label(nonce: u64, level: usize, group: usize, index: usize) -> u64 {
    // The three numbers do not overlap in the label, because there are at most 256 indices and 128
    // groups.
    nonce ^ (level << 16 | group << 8 | index) as u64
}

/// Fills `leaves` with all `2^k` leaves of the tree of `group` from its `k` key pairs, and appends
/// the corrections of every level below the top to `message`.
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

/// Fills `leaves` with all leaves except number `alpha`: leaf `x` at index `x ^ alpha`, and 0 at
/// index 0. `keys` are the chosen keys, `corrections` is the group's part of the setup message.
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
        // This starts as the sum of all nodes of the level on the other side of `alpha`.
        // Subtracting the known ones leaves the sibling of the hole.
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

/// The 32-byte string of a leaf for the check.
type CheckString = [Block; 2];

/// Replaces the leaves of a full tree by their expansions and appends the check to `message`.
pub(crate) fn finish_full(
    nonce: u64,
    level: usize,
    group: usize,
    leaves: &mut [u128],
    message: &mut Vec<u8>,
) {
    let mut strings = Zeroizing::new(vec![CheckString::default(); leaves.len()]);
    let mut sum = CheckString::default();
    for (x, (leaf, string)) in leaves.iter_mut().zip(&mut *strings).enumerate() {
        (*leaf, *string) = expand(*leaf, label(nonce, level, group, x));
        add(&mut sum, string);
    }
    message.extend_from_slice(&to_bytes(&sum));
    message.extend_from_slice(&hash(&strings));
}

/// Replaces the leaves of a punctured tree, except the hole at index 0, by their expansions, if the
/// check holds.
///
/// # Errors
/// Returns [`OtError::TreeCheckFailed`] if the check fails.
pub(crate) fn finish_punctured(
    nonce: u64,
    level: usize,
    group: usize,
    alpha: usize,
    leaves: &mut [u128],
    check: &[u8; TREE_CHECK_LEN],
) -> Result<(), OtError> {
    let mut strings = Zeroizing::new(vec![CheckString::default(); leaves.len()]);
    let (sum, expected) = check.split_at(TREE_CHECK_LEN / 2);
    let (words, _) = sum.as_chunks::<8>();
    let mut hole = CheckString::default();
    for (word, bytes) in hole.as_flattened_mut().iter_mut().zip(words) {
        *word = u64::from_le_bytes(*bytes);
    }
    for (y, (leaf, string)) in leaves.iter_mut().zip(&mut *strings).enumerate().skip(1) {
        (*leaf, *string) = expand(*leaf, label(nonce, level, group, y ^ alpha));
        add(&mut hole, string);
    }
    strings[0] = hole;
    // Reorders the nodes from index `y` to index `x = y ^ alpha`, without memory addresses that
    // depend on `alpha`.
    for bit in 0..level {
        let swap = Choice::from((alpha >> bit & 1) as u8);
        for pair in strings.chunks_mut(2 << bit) {
            let (low, high) = pair.split_at_mut(1 << bit);
            for (low, high) in low.iter_mut().zip(high) {
                for (low, high) in low
                    .as_flattened_mut()
                    .iter_mut()
                    .zip(high.as_flattened_mut())
                {
                    u64::conditional_swap(low, high, swap);
                }
            }
        }
    }
    if bool::from(hash(&strings).ct_eq(expected)) {
        Ok(())
    } else {
        Err(OtError::TreeCheckFailed)
    }
}

/// Expands a leaf to the key of its stream and its string for the check.
fn expand(leaf: u128, label: u64) -> (u128, CheckString) {
    let mut blocks = Zeroizing::new([[0; 2]; 3]);
    Stream::new(leaf, label).fill(0, &mut *blocks);
    (from_block(blocks[0]), [blocks[1], blocks[2]])
}

fn add(sum: &mut CheckString, string: &CheckString) {
    for (sum, word) in sum.as_flattened_mut().iter_mut().zip(string.as_flattened()) {
        *sum ^= word;
    }
}

fn to_bytes(string: &CheckString) -> [u8; TREE_CHECK_LEN / 2] {
    let mut bytes = [0; TREE_CHECK_LEN / 2];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (bytes, word) in words.iter_mut().zip(string.as_flattened()) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Returns the hash of the strings of all leaves, in order.
fn hash(strings: &[CheckString]) -> [u8; TREE_CHECK_LEN / 2] {
    let mut bytes = Zeroizing::new(Vec::with_capacity(strings.len() * TREE_CHECK_LEN / 2));
    for string in strings {
        bytes.extend_from_slice(&to_bytes(string));
    }
    blake3::derive_key("transpute OT seed tree check v1", &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_accepts_only_consistent_trees() {
        for k in [2_usize, 4, 8] {
            let pairs: Vec<[u128; 2]> = (0..k as u128).map(|i| [1000 + i, 2000 + i]).collect();
            let (mut full, mut message) = (vec![0; 1 << k], Vec::new());
            grow_full(9, 3, &pairs, &mut full, &mut message);
            let corrections = message.len();
            finish_full(9, k, 3, &mut full, &mut message);
            for alpha in (0..1 << k).step_by(5) {
                let keys: Vec<u128> = (0..k).map(|l| pairs[l][alpha >> l & 1]).collect();
                let finish = |message: &[u8]| {
                    let mut leaves = vec![7; 1 << k];
                    let (sent, check) = message.split_at(corrections);
                    grow_punctured(9, 3, &keys, alpha, sent.as_chunks().0, &mut leaves);
                    let check = check.try_into().unwrap();
                    finish_punctured(9, k, 3, alpha, &mut leaves, check).map(|()| leaves)
                };
                let leaves = finish(&message).unwrap();
                for y in 1..1 << k {
                    assert_eq!(leaves[y], full[y ^ alpha], "k {k} alpha {alpha} y {y}");
                }
                // A correction that alpha selects must be correct; the other one is not read. The
                // two corrections of level `l` are in blocks `2 l - 2` and `2 l - 1`.
                for byte in 0..message.len() {
                    let mut changed = message.clone();
                    changed[byte] ^= 0x40;
                    let (level, side) = (byte / 32 + 1, byte / 16 % 2);
                    let is_read = byte >= corrections || alpha >> level & 1 == side;
                    let expected = if is_read {
                        Err(OtError::TreeCheckFailed)
                    } else {
                        Ok(leaves.clone())
                    };
                    assert_eq!(
                        finish(&changed),
                        expected,
                        "k {k} alpha {alpha} byte {byte}"
                    );
                }
            }
        }
    }

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
