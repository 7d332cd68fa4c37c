//! Labels side by side: the vector operations that gate kernels are written in.
//!
//! [`Isa`] is one instruction set: registers of one, two or four labels and AES on them. [`Wide`]
//! puts several registers together, so that one kernel text serves every instruction set. A value
//! of an `Isa` type is the proof that the CPU has the instructions: it is only made after asking
//! the CPU, which is what makes its methods safe to call.
//!
//! Everything here is `#[inline(always)]`: the intrinsics only become instructions when they are
//! inlined into the one function per back end that enables the target features (see
//! [`Dispatch`](crate::dispatch::Dispatch)).

#![expect(
    unsafe_code,
    reason = "label slots are checked once per program, not at every gate"
)]

#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "x86_64")]
mod ahead;
mod portable;
#[cfg(target_arch = "x86_64")]
mod rounds;
mod schedule;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

#[cfg(target_arch = "x86_64")]
pub(crate) use {aes_ni::AesNi, vaes256::Vaes256, vaes512::Vaes512};
pub(crate) use {
    portable::Portable,
    schedule::{Block, Schedule},
};

use crate::Label;

/// Most gates a kernel handles together.
pub(crate) const MAX_WIDTH: usize = 8;

/// Slot numbers of one operand of a group of gates; those past the width are unused.
pub(crate) type Index = [u32; MAX_WIDTH];

/// One instruction set: registers of [`Isa::LANES`] labels.
///
/// "Low" and "high" are the 64-bit halves of every label, bytes 0-7 and 8-15.
pub(crate) trait Isa: Copy {
    /// Labels in a register.
    const LANES: usize;

    /// Longest remainder of a batch that is done gate by gate instead of as a padded group.
    const NARROW_REST: usize;

    /// Groups of [`MAX_WIDTH`] blocks that are best encrypted together under one key.
    const GROUPS: usize;

    /// One register.
    type Reg: Copy;

    /// The AES-128 keys that were last expanded.
    type Keys: Default;

    /// Returns `value` in every lane.
    fn splat(self, value: u128) -> Self::Reg;

    /// Returns `high << 64 | low + i * step` in lane `i`.
    fn counter(self, low: u64, step: u64, high: u64) -> Self::Reg;

    /// Returns `from[index[i]]` in lane `i`.
    ///
    /// # Safety
    /// The first [`Isa::LANES`] numbers of `index` are below the length of `from`.
    unsafe fn gather(self, from: &[Label], index: &[u32]) -> Self::Reg;

    /// Writes lane `i` to `to[index[i]]`.
    ///
    /// # Safety
    /// The first [`Isa::LANES`] numbers of `index` are below the length of `to`.
    unsafe fn scatter(self, reg: Self::Reg, to: &mut [Label], index: &[u32]);

    /// Writes lane 0 to `to[slot]`.
    ///
    /// # Safety
    /// `slot` is below the length of `to`.
    unsafe fn put_first(self, reg: Self::Reg, to: &mut [Label], slot: u32);

    /// Returns `from[i]` in lane `i`.
    fn load_labels(self, from: &[Label]) -> Self::Reg;

    /// Writes lane `i` to `to[i]`.
    fn store_labels(self, reg: Self::Reg, to: &mut [Label]);

    /// Returns the 16 bytes from `i * stride` in lane `i`.
    fn load(self, bytes: &[u8], stride: usize) -> Self::Reg;

    /// Writes lane `i` to the 16 bytes from `i * stride`.
    fn store(self, reg: Self::Reg, bytes: &mut [u8], stride: usize);

    /// Returns two registers whose lanes take turns: those of the first are the 16 bytes from
    /// `32 i`, those of the second the 16 bytes from `32 i + 16`.
    #[inline(always)]
    fn load_pairs(self, bytes: &[u8]) -> [Self::Reg; 2] {
        [self.load(bytes, 32), self.load(&bytes[16..], 32)]
    }

    /// Writes what [`Isa::load_pairs`] reads.
    #[inline(always)]
    fn store_pairs(self, pair: [Self::Reg; 2], bytes: &mut [u8]) {
        self.store(pair[0], bytes, 32);
        self.store(pair[1], &mut bytes[16..], 32);
    }

    /// Swaps lanes `2 i` and `2 i + 1`, of which there are at least two.
    fn swap_lanes(self, reg: Self::Reg) -> Self::Reg;

    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;

    fn and(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;

    /// Swaps the halves of every lane.
    fn swap(self, reg: Self::Reg) -> Self::Reg;

    /// Puts the low half of `low` into the low half, the low half of `high` into the high half.
    fn join_low(self, low: Self::Reg, high: Self::Reg) -> Self::Reg;

    /// Multiplies both halves by `x` in GF(2^64) modulo `x^64 + x^4 + x^3 + x + 1`.
    fn double_halves(self, reg: Self::Reg) -> Self::Reg;

    /// Returns all ones in the lanes whose lowest bit is set and zero in the others.
    fn colour_mask(self, reg: Self::Reg) -> Self::Reg;

    /// Returns the lowest bit of lane `i` as bit `i`.
    fn colours(self, reg: Self::Reg) -> u32;

    /// Returns bit 64 of lane `i` as bit `i`.
    #[inline(always)]
    fn high_colours(self, reg: Self::Reg) -> u32 {
        self.colours(self.swap(reg))
    }

    /// Returns all ones in lane `i` where bit `i` is set and zero elsewhere.
    fn mask(self, bits: u32) -> Self::Reg;

    /// Returns bit `i` of `bits`, for each `i` below [`MAX_WIDTH`], as bit `stride * i`.
    ///
    /// Neither here nor elsewhere is there a branch or a table that depends on the bits.
    #[inline(always)]
    fn spread(self, bits: u32, stride: u32) -> u64 {
        let mut out = 0;
        for i in 0..MAX_WIDTH as u32 {
            out |= u64::from(bits >> i & 1) << (stride * i);
        }
        out
    }

    /// Returns bit `stride * i` of `packed`, for each `i` below [`MAX_WIDTH`], as bit `i`.
    #[inline(always)]
    fn collect(self, packed: u64, stride: u32) -> u32 {
        let mut out = 0;
        for i in 0..MAX_WIDTH as u32 {
            out |= ((packed >> (stride * i) & 1) as u32) << i;
        }
        out
    }

    /// Encrypts lane `i` of `blocks[k][b][n]` under the key that `numbers` has for the gate
    /// `n * LANES + i`.
    fn encrypt_numbered<const N: usize, const B: usize, const K: usize>(
        self,
        cache: &mut Self::Keys,
        numbers: KeyNumbers,
        blocks: [[[Self::Reg; N]; B]; K],
    ) -> [[[Self::Reg; N]; B]; K];

    /// Returns for how many gates from `gate` on the keys of both tweaks are expanded.
    fn tweaks_ready(self, cache: &Self::Keys, gate: u64) -> usize;

    /// Expands the keys of the first gate and of some that follow, unless they are there.
    fn prepare_tweaks(self, cache: &mut Self::Keys, numbers: TweakNumbers);

    /// Encrypts `blocks[b]` of one gate, whose keys are ready: the first of two lanes under the key
    /// of the first tweak, the second under that of the second.
    fn encrypt_ready<const N: usize, const B: usize>(
        self,
        cache: &Self::Keys,
        numbers: TweakNumbers,
        blocks: [[Self::Reg; N]; B],
    ) -> [[Self::Reg; N]; B];

    /// Encrypts `blocks[k][b][n]` under the keys in the lanes of `keys[k][n]`.
    fn encrypt_keyed<const N: usize, const B: usize, const K: usize>(
        self,
        keys: [[Self::Reg; N]; K],
        blocks: [[[Self::Reg; N]; B]; K],
    ) -> [[[Self::Reg; N]; B]; K];

    /// Encrypts all blocks under one key.
    fn encrypt_scheduled<const N: usize, const B: usize>(
        self,
        schedule: &Schedule,
        blocks: [[Self::Reg; N]; B],
    ) -> [[Self::Reg; N]; B];
}

/// Public keys that each serve a run of gates: gate `i` of a group has the key
/// `start ^ ((gate + i) >> log_gates)`.
#[derive(Clone, Copy)]
pub(crate) struct KeyNumbers {
    pub(crate) start: u128,
    pub(crate) gate: u64,
    pub(crate) log_gates: u32,
}

/// Public keys that serve one tweak each: the tweak `k`, 0 or 1, of gate `i` of a group has the key
/// `start ^ (2 (gate + i) + k)`.
#[derive(Clone, Copy)]
pub(crate) struct TweakNumbers {
    pub(crate) start: u128,
    pub(crate) gate: u64,
}

/// `N` registers of one instruction set, handled together.
#[derive(Clone, Copy)]
pub(crate) struct Wide<I, const N: usize>(pub(crate) I);

/// The labels of one group of gates.
pub(crate) type Lanes<I, const N: usize> = [<I as Isa>::Reg; N];

/// Applies an operation register by register.
macro_rules! each {
    ($self:ident . $op:ident ( $($arg:ident),+ )) => {{
        each!(@result out $($arg)+);
        for n in 0..N {
            out[n] = $self.0.$op($($arg[n]),+);
        }
        out
    }};
    (@result $out:ident $first:ident $($rest:ident)*) => { let mut $out = $first; };
}

#[expect(
    clippy::needless_range_loop,
    reason = "counted loops over constant bounds always unroll; closures would lose the target features"
)]
impl<I: Isa, const N: usize> Wide<I, N> {
    /// Gates handled together.
    pub(crate) const WIDTH: usize = {
        assert!(I::LANES * N <= MAX_WIDTH);
        I::LANES * N
    };

    #[inline(always)]
    pub(crate) fn splat(self, value: u128) -> Lanes<I, N> {
        [self.0.splat(value); N]
    }

    #[inline(always)]
    pub(crate) fn counter(self, low: u64, step: u64, high: u64) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            let offset = (n * I::LANES) as u64 * step;
            out[n] = self.0.counter(low.wrapping_add(offset), step, high);
        }
        out
    }

    /// # Safety
    /// The first [`Wide::WIDTH`] numbers of `index` are below the length of `from`.
    #[inline(always)]
    pub(crate) unsafe fn gather(self, from: &[Label], index: &Index) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            // SAFETY: what the caller promises.
            out[n] = unsafe { self.0.gather(from, &index[n * I::LANES..]) };
        }
        out
    }

    /// # Safety
    /// The first [`Wide::WIDTH`] numbers of `index` are below the length of `to`.
    #[inline(always)]
    pub(crate) unsafe fn scatter(self, lanes: Lanes<I, N>, to: &mut [Label], index: &Index) {
        for n in 0..N {
            // SAFETY: what the caller promises.
            unsafe { self.0.scatter(lanes[n], to, &index[n * I::LANES..]) };
        }
    }

    /// The first [`Wide::WIDTH`] labels.
    #[inline(always)]
    pub(crate) fn load_labels(self, from: &[Label]) -> Lanes<I, N> {
        let from = &from[..Self::WIDTH];
        let mut out = self.splat(0);
        for n in 0..N {
            out[n] = self.0.load_labels(&from[n * I::LANES..]);
        }
        out
    }

    #[inline(always)]
    pub(crate) fn store_labels(self, lanes: Lanes<I, N>, to: &mut [Label]) {
        let to = &mut to[..Self::WIDTH];
        for n in 0..N {
            self.0.store_labels(lanes[n], &mut to[n * I::LANES..]);
        }
    }

    /// See [`Isa::load_pairs`].
    #[inline(always)]
    pub(crate) fn load_pairs(self, bytes: &[u8]) -> [Lanes<I, N>; 2] {
        let bytes = &bytes[..32 * Self::WIDTH];
        let mut out = [self.splat(0); 2];
        for n in 0..N {
            [out[0][n], out[1][n]] = self.0.load_pairs(&bytes[n * I::LANES * 32..]);
        }
        out
    }

    #[inline(always)]
    pub(crate) fn store_pairs(self, pair: [Lanes<I, N>; 2], bytes: &mut [u8]) {
        let bytes = &mut bytes[..32 * Self::WIDTH];
        for n in 0..N {
            let pair = [pair[0][n], pair[1][n]];
            self.0.store_pairs(pair, &mut bytes[n * I::LANES * 32..]);
        }
    }

    #[inline(always)]
    pub(crate) fn load(self, bytes: &[u8], stride: usize) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            out[n] = self.0.load(&bytes[n * I::LANES * stride..], stride);
        }
        out
    }

    #[inline(always)]
    pub(crate) fn store(self, lanes: Lanes<I, N>, bytes: &mut [u8], stride: usize) {
        for n in 0..N {
            self.0
                .store(lanes[n], &mut bytes[n * I::LANES * stride..], stride);
        }
    }

    #[inline(always)]
    pub(crate) fn xor(self, a: Lanes<I, N>, b: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.xor(a, b))
    }

    #[inline(always)]
    pub(crate) fn and(self, a: Lanes<I, N>, b: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.and(a, b))
    }

    #[inline(always)]
    pub(crate) fn swap(self, a: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.swap(a))
    }

    /// Swaps the labels `2 i` and `2 i + 1`.
    #[inline(always)]
    pub(crate) fn swap_lanes(self, a: Lanes<I, N>) -> Lanes<I, N> {
        let mut out = a;
        for n in 0..N {
            out[n] = if I::LANES == 1 {
                a[(n ^ 1) % N]
            } else {
                self.0.swap_lanes(a[n])
            };
        }
        out
    }

    #[inline(always)]
    pub(crate) fn join_low(self, low: Lanes<I, N>, high: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.join_low(low, high))
    }

    #[inline(always)]
    pub(crate) fn double_halves(self, a: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.double_halves(a))
    }

    #[inline(always)]
    pub(crate) fn colour_mask(self, a: Lanes<I, N>) -> Lanes<I, N> {
        each!(self.colour_mask(a))
    }

    /// The lowest bits of all lanes; bit `i` is lane `i`.
    #[inline(always)]
    pub(crate) fn colours(self, a: Lanes<I, N>) -> u32 {
        let mut bits = 0;
        for n in 0..N {
            bits |= self.0.colours(a[n]) << (n * I::LANES);
        }
        bits
    }

    /// Bits 64 of all lanes.
    #[inline(always)]
    pub(crate) fn high_colours(self, a: Lanes<I, N>) -> u32 {
        let mut bits = 0;
        for n in 0..N {
            bits |= self.0.high_colours(a[n]) << (n * I::LANES);
        }
        bits
    }

    #[inline(always)]
    pub(crate) fn mask(self, bits: u32) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            out[n] = self.0.mask(bits >> (n * I::LANES));
        }
        out
    }

    /// All ones in the lanes whose bit 64 is set and zero in the others.
    #[inline(always)]
    pub(crate) fn high_colour_mask(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.colour_mask(self.swap(a))
    }

    #[inline(always)]
    pub(crate) fn not(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.xor(a, self.splat(!0))
    }

    /// Moves the low half of every lane to the high half and clears the low half.
    #[inline(always)]
    pub(crate) fn low_to_high(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.join_low(self.splat(0), a)
    }

    /// Moves the high half of every lane to the low half and clears the high half.
    #[inline(always)]
    pub(crate) fn high_to_low(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.join_low(self.swap(a), self.splat(0))
    }

    /// Copies the low half of every lane to the high half.
    #[inline(always)]
    pub(crate) fn repeat_low(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.join_low(a, a)
    }

    /// Copies the high half of every lane to the low half.
    #[inline(always)]
    pub(crate) fn repeat_high(self, a: Lanes<I, N>) -> Lanes<I, N> {
        self.repeat_low(self.swap(a))
    }

    /// The linear orthomorphism of the half-gates hash: `(high, low)` becomes
    /// `(high ^ low, high)`.
    #[inline(always)]
    pub(crate) fn sigma(self, a: Lanes<I, N>) -> Lanes<I, N> {
        let high = self.and(a, self.splat(!0 << 64));
        self.xor(self.swap(a), high)
    }

    #[inline(always)]
    pub(crate) fn encrypt_numbered<const B: usize, const K: usize>(
        self,
        cache: &mut I::Keys,
        numbers: KeyNumbers,
        blocks: [[Lanes<I, N>; B]; K],
    ) -> [[Lanes<I, N>; B]; K] {
        self.0.encrypt_numbered(cache, numbers, blocks)
    }

    /// Encrypts `blocks[k]` of a group of gates under the keys of the tweaks `k`.
    #[inline(always)]
    pub(crate) fn encrypt_tweaked<const B: usize>(
        self,
        numbers: TweakNumbers,
        blocks: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        let keys = self.counter(numbers.gate.wrapping_mul(2), 2, 0);
        let keys = self.xor(self.splat(numbers.start), keys);
        // An even number plus one is an exclusive or.
        self.encrypt_keyed([keys, self.xor(keys, self.splat(1))], blocks)
    }

    #[inline(always)]
    pub(crate) fn encrypt_keyed<const B: usize, const K: usize>(
        self,
        keys: [Lanes<I, N>; K],
        blocks: [[Lanes<I, N>; B]; K],
    ) -> [[Lanes<I, N>; B]; K] {
        self.0.encrypt_keyed(keys, blocks)
    }

    #[inline(always)]
    pub(crate) fn encrypt_scheduled<const B: usize>(
        self,
        schedule: &Schedule,
        blocks: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        self.0.encrypt_scheduled(schedule, blocks)
    }
}

#[cfg(test)]
mod tests;
