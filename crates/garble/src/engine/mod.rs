//! Labels side by side: the vector operations that gate kernels are written in.
//!
//! [`Isa`] is one instruction set: registers of one, two or four labels and AES on them. [`Wide`]
//! puts several registers together, so that one kernel text serves every instruction set. A value
//! of an `Isa` type is the proof that the CPU has the instructions: it is only made after asking
//! the CPU, which is what makes its methods safe to call.
//!
//! Everything here is `#[inline(always)]`: the intrinsics only become instructions when they are
//! inlined into the one function per back end that enables the target features (see
//! [`Dispatch`](crate::backend::Dispatch)).

#[cfg(target_arch = "x86_64")]
mod aes_ni;
mod portable;
#[cfg(target_arch = "x86_64")]
mod rounds;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use {aes_ni::AesNi, vaes256::Vaes256, vaes512::Vaes512};

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

    /// One register.
    type Reg: Copy;

    /// An expanded AES-128 key.
    type Schedule;

    /// Returns `value` in every lane.
    fn splat(self, value: u128) -> Self::Reg;

    /// Returns `high << 64 | low + i * step` in lane `i`.
    fn counter(self, low: u64, step: u64, high: u64) -> Self::Reg;

    /// Returns `from[index[i]]` in lane `i`.
    fn gather(self, from: &[Label], index: &[u32]) -> Self::Reg;

    /// Writes lane `i` to `to[index[i]]`.
    fn scatter(self, reg: Self::Reg, to: &mut [Label], index: &[u32]);

    /// Returns the 16 bytes from `i * stride` in lane `i`.
    fn load(self, bytes: &[u8], stride: usize) -> Self::Reg;

    /// Writes lane `i` to the 16 bytes from `i * stride`.
    fn store(self, reg: Self::Reg, bytes: &mut [u8], stride: usize);

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

    /// Returns all ones in lane `i` where bit `i` is set and zero elsewhere.
    fn mask(self, bits: u32) -> Self::Reg;

    /// Expands an AES-128 key.
    fn schedule(self, key: u128) -> Self::Schedule;

    /// Encrypts under one key.
    fn encrypt<const N: usize>(
        self,
        schedule: &Self::Schedule,
        blocks: [Self::Reg; N],
    ) -> [Self::Reg; N];

    /// Encrypts `blocks[b][n]` under the keys in the lanes of `keys[n]`.
    fn encrypt_keyed<const N: usize, const B: usize>(
        self,
        keys: [Self::Reg; N],
        blocks: [[Self::Reg; N]; B],
    ) -> [[Self::Reg; N]; B];
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

    #[inline(always)]
    pub(crate) fn gather(self, from: &[Label], index: &Index) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            out[n] = self.0.gather(from, &index[n * I::LANES..]);
        }
        out
    }

    #[inline(always)]
    pub(crate) fn scatter(self, lanes: Lanes<I, N>, to: &mut [Label], index: &Index) {
        for n in 0..N {
            self.0.scatter(lanes[n], to, &index[n * I::LANES..]);
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
        self.colours(self.swap(a))
    }

    #[inline(always)]
    pub(crate) fn mask(self, bits: u32) -> Lanes<I, N> {
        let mut out = self.splat(0);
        for n in 0..N {
            out[n] = self.0.mask(bits >> (n * I::LANES));
        }
        out
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
    pub(crate) fn schedule(self, key: u128) -> I::Schedule {
        self.0.schedule(key)
    }

    #[inline(always)]
    pub(crate) fn encrypt<const B: usize>(
        self,
        schedule: &I::Schedule,
        blocks: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        let mut out = blocks;
        for b in 0..B {
            out[b] = self.0.encrypt(schedule, blocks[b]);
        }
        out
    }

    #[inline(always)]
    pub(crate) fn encrypt_keyed<const B: usize>(
        self,
        keys: Lanes<I, N>,
        blocks: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        self.0.encrypt_keyed(keys, blocks)
    }
}

#[cfg(test)]
mod tests;
