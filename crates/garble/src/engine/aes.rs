//! AES for the instruction sets that have AES rounds.

use super::{
    Isa, KeyNumbers, Schedule, TweakNumbers,
    ahead::KeysAhead,
    numbered::{KeyCache, encrypt_numbered},
    rounds::{AesRounds, encrypt_keyed, encrypt_scheduled},
};

/// The keys that were last expanded, of either kind.
#[derive(Default)]
pub(crate) struct Keys {
    numbered: KeyCache,
    ahead: KeysAhead,
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
        cache.ahead.left(gate)
    }

    #[inline(always)]
    fn prepare_tweaks(self, cache: &mut Keys, numbers: TweakNumbers) {
        cache.ahead.prepare(self, numbers);
    }

    #[inline(always)]
    fn encrypt_ready<const N: usize, const B: usize>(
        self,
        cache: &Keys,
        numbers: TweakNumbers,
        mut blocks: [[I::Reg; N]; B],
    ) -> [[I::Reg; N]; B] {
        cache.ahead.encrypt_one(self, numbers.gate, &mut blocks);
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
