//! AES for the instruction sets with AES rounds.

use super::{
    Isa, KeyNumbers, Schedule, TweakNumbers,
    expanded_keys::ExpandedKeys,
    numbered::{KeyCache, encrypt_numbered},
    rounds::{AesRounds, encrypt_keyed, encrypt_scheduled},
};

/// Caches of expanded AES keys: keys that serve several gates each, and keys that serve one tweak
/// each.
#[derive(Default)]
pub(crate) struct Keys {
    numbered: KeyCache,
    tweaked: ExpandedKeys,
}

impl<I: AesRounds> Isa for I {
    type Keys = Keys;

    #[inline(always)]
    fn encrypt_numbered<const N: usize, const B: usize, const K: usize>(
        self,
        cache: &mut Keys,
        numbers: KeyNumbers,
        blocks: [[[I::Reg; N]; B]; K],
    ) -> [[[I::Reg; N]; B]; K] {
        encrypt_numbered(self, &mut cache.numbered, numbers, blocks)
    }

    #[inline(always)]
    fn tweaks_ready(self, cache: &Keys, gate: u64) -> usize {
        cache.tweaked.left(gate)
    }

    #[inline(always)]
    fn prepare_tweaks(self, cache: &mut Keys, numbers: TweakNumbers) {
        cache.tweaked.prepare(self, numbers);
    }

    #[inline(always)]
    fn encrypt_ready<const N: usize, const B: usize>(
        self,
        cache: &Keys,
        numbers: TweakNumbers,
        mut blocks: [[I::Reg; N]; B],
    ) -> [[I::Reg; N]; B] {
        cache.tweaked.encrypt_one(self, numbers.gate, &mut blocks);
        blocks
    }

    #[inline(always)]
    fn encrypt_keyed<const N: usize, const B: usize, const K: usize>(
        self,
        keys: [[I::Reg; N]; K],
        blocks: [[[I::Reg; N]; B]; K],
    ) -> [[[I::Reg; N]; B]; K] {
        encrypt_keyed(self, keys, blocks)
    }

    #[inline(always)]
    fn encrypt_scheduled<const N: usize, const B: usize>(
        self,
        schedule: &Schedule,
        blocks: [[I::Reg; N]; B],
    ) -> [[I::Reg; N]; B] {
        encrypt_scheduled(self, schedule, blocks)
    }
}
