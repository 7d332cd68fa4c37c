//! Kernels for AVX-512 with VAES, VPCLMULQDQ and GFNI, selected at run time. They return the same
//! bytes as the portable code.
//!
//! The `aes` crate has a VAES back end too, but it prepares its round keys in every call and
//! encrypts 64 blocks at a time. OT extension encrypts few blocks under each of many keys, so this
//! preparation would take longer than the encryption.

#![expect(unsafe_code, reason = "calls, loads and stores of SIMD kernels")]

mod clmul;
mod transpose;

use std::arch::x86_64::{
    __m128i, __m512i, _mm_aeskeygenassist_si128, _mm_cvtsi128_si64, _mm_set_epi64x,
    _mm_shuffle_epi32, _mm_slli_si128, _mm_unpackhi_epi64, _mm_xor_si128, _mm512_add_epi64,
    _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_maskz_set1_epi64, _mm512_set_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_xor_si512,
};

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::dispatch::Work;
use crate::extension::Block;
pub(crate) use transpose::Scratch;

/// The proof that this CPU has AES, AVX-512 F, BW and VL, VAES, VPCLMULQDQ and GFNI.
#[derive(Clone, Copy)]
pub(crate) struct Wide(());

impl Wide {
    /// Returns the proof if the CPU has the features; the standard library caches the detection.
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("gfni");
        found.then_some(Self(()))
    }

    /// Runs `work` compiled for AVX-512.
    pub(crate) fn run(self, work: impl Work) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        fn translated(work: impl Work) {
            work.run::<8>();
        }
        // SAFETY: a `Wide` value exists only if the CPU has these features.
        unsafe { translated(work) }
    }
}

/// The round keys of AES-128, wiped on drop. A value exists only if the CPU has the features of
/// [`Wide`].
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Schedule([u128; 11]);

impl Schedule {
    pub(crate) fn new(_: Wide, key: u128) -> Self {
        // SAFETY: a `Wide` value exists only if the CPU has AES.
        Self(unsafe { expand(key) })
    }

    /// Writes the encryption of `label << 64 | position + i` to `out[i]`.
    pub(crate) fn count(&self, label: u64, position: u64, out: &mut [Block]) {
        // SAFETY: constructing a `Schedule` takes a `Wide`, which exists only if the CPU has the
        // features.
        unsafe { count(&self.0, label, position, out) }
    }

    /// Encrypts every block in place.
    pub(crate) fn encrypt(&self, blocks: &mut [Block]) {
        // SAFETY: constructing a `Schedule` takes a `Wide`, which exists only if the CPU has the
        // features.
        unsafe { encrypt(&self.0, blocks) }
    }
}

/// Expands a key (FIPS 197, section 5.2).
#[target_feature(enable = "aes")]
fn expand(key: u128) -> [u128; 11] {
    #[target_feature(enable = "aes")]
    fn next<const RCON: i32>(key: __m128i) -> __m128i {
        let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<RCON>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
        _mm_xor_si128(key, word)
    }

    let key0 = load(key);
    let key1 = next::<0x01>(key0);
    let key2 = next::<0x02>(key1);
    let key3 = next::<0x04>(key2);
    let key4 = next::<0x08>(key3);
    let key5 = next::<0x10>(key4);
    let key6 = next::<0x20>(key5);
    let key7 = next::<0x40>(key6);
    let key8 = next::<0x80>(key7);
    let key9 = next::<0x1b>(key8);
    let key10 = next::<0x36>(key9);
    [
        store(key0),
        store(key1),
        store(key2),
        store(key3),
        store(key4),
        store(key5),
        store(key6),
        store(key7),
        store(key8),
        store(key9),
        store(key10),
    ]
}

#[target_feature(enable = "sse2")]
fn load(value: u128) -> __m128i {
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[target_feature(enable = "sse2")]
fn store(value: __m128i) -> u128 {
    let low = _mm_cvtsi128_si64(value) as u64;
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value)) as u64;
    u128::from(high) << 64 | u128::from(low)
}

/// Mask of the low 64 bits of each of four blocks.
const LOW_HALVES: u8 = 0b0101_0101;

#[target_feature(enable = "avx512f,vaes")]
fn count(schedule: &[u128; 11], label: u64, position: u64, out: &mut [Block]) {
    let keys = broadcast(schedule);
    let high = label as i64;
    let mut counter = _mm512_add_epi64(
        _mm512_set_epi64(high, 3, high, 2, high, 1, high, 0),
        _mm512_maskz_set1_epi64(LOW_HALVES, position as i64),
    );
    let (wide, rest) = out.as_chunks_mut::<64>();
    for part in wide {
        burst::<16>(&keys, counters(&mut counter), part);
    }
    let (middle, rest) = rest.as_chunks_mut::<16>();
    for part in middle {
        burst::<4>(&keys, counters(&mut counter), part);
    }
    for part in rest.chunks_mut(4) {
        let mut blocks = [[0; 2]; 4];
        burst::<1>(&keys, counters(&mut counter), &mut blocks);
        part.copy_from_slice(&blocks[..part.len()]);
    }
}

#[target_feature(enable = "avx512f,vaes")]
fn encrypt(schedule: &[u128; 11], blocks: &mut [Block]) {
    let keys = broadcast(schedule);
    let (wide, rest) = blocks.as_chunks_mut::<64>();
    for part in wide {
        burst::<16>(&keys, loaded(part), part);
    }
    let (middle, rest) = rest.as_chunks_mut::<16>();
    for part in middle {
        burst::<4>(&keys, loaded(part), part);
    }
    for part in rest.chunks_mut(4) {
        let mut blocks = [[0; 2]; 4];
        blocks[..part.len()].copy_from_slice(part);
        burst::<1>(&keys, loaded(&blocks), &mut blocks);
        part.copy_from_slice(&blocks[..part.len()]);
        blocks.zeroize();
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(schedule: &[u128; 11]) -> [__m512i; 11] {
    let mut keys = [_mm512_setzero_si512(); 11];
    for (key, value) in keys.iter_mut().zip(schedule) {
        *key = _mm512_broadcast_i32x4(load(*value));
    }
    keys
}

/// Returns the next `4 * VECTORS` counter blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn counters<const VECTORS: usize>(counter: &mut __m512i) -> [__m512i; VECTORS] {
    let step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    let mut state = [_mm512_setzero_si512(); VECTORS];
    for vector in &mut state {
        *vector = *counter;
        *counter = _mm512_add_epi64(*counter, step);
    }
    state
}

/// Loads `4 * VECTORS` blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn loaded<const VECTORS: usize>(blocks: &[Block]) -> [__m512i; VECTORS] {
    let mut state = [_mm512_setzero_si512(); VECTORS];
    let (parts, _) = blocks.as_chunks::<4>();
    for (vector, part) in state.iter_mut().zip(parts) {
        // SAFETY: `part` is 64 readable bytes, and the load needs no alignment.
        *vector = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
    }
    state
}

/// Encrypts `4 * VECTORS` blocks.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn burst<const VECTORS: usize>(
    keys: &[__m512i; 11],
    mut state: [__m512i; VECTORS],
    out: &mut [Block],
) {
    for vector in &mut state {
        *vector = _mm512_xor_si512(*vector, keys[0]);
    }
    for key in &keys[1..10] {
        for vector in &mut state {
            *vector = _mm512_aesenc_epi128(*vector, *key);
        }
    }
    let (parts, _) = out.as_chunks_mut::<4>();
    for (vector, part) in state.iter().zip(parts) {
        let block = _mm512_aesenclast_epi128(*vector, keys[10]);
        // SAFETY: `part` is 64 writable bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(part.as_mut_ptr().cast(), block) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_expansion_ends_in_the_published_round_key() {
        let Some(wide) = Wide::detect() else {
            println!("skipped: no VAES on this machine");
            return;
        };
        // The key and the round keys are those of FIPS 197, appendix A.1.
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.swap_bytes();
        let schedule = Schedule::new(wide, key);
        assert_eq!(
            schedule.0[10].swap_bytes(),
            0xd014_f9a8_c9ee_2589_e13f_0cc8_b663_0ca6
        );
    }
}
