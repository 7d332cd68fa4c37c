//! Several registers of one instruction set, used as one vector.

#![expect(
    unsafe_code,
    reason = "label slots are checked once per program, not at every gate"
)]

use super::{Index, Isa, KeyNumbers, MAX_WIDTH, Schedule, TweakNumbers, Vectors};
use crate::Label;

/// A vector of `N` registers of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Wide<I, const N: usize>(pub(crate) I);

/// A vector of labels, one for each gate of a group.
pub(crate) type Lanes<I, const N: usize> = [<I as Vectors>::Reg; N];

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
    /// Number of lanes, which is the number of gates processed together.
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
            // SAFETY: these are `LANES` of the `WIDTH` indices that the caller guarantees to be in
            // bounds.
            out[n] = unsafe { self.0.gather(from, &index[n * I::LANES..]) };
        }
        out
    }

    /// # Safety
    /// The first [`Wide::WIDTH`] numbers of `index` are below the length of `to`.
    #[inline(always)]
    pub(crate) unsafe fn scatter(self, lanes: Lanes<I, N>, to: &mut [Label], index: &Index) {
        for n in 0..N {
            // SAFETY: these are `LANES` of the `WIDTH` indices that the caller guarantees to be in
            // bounds.
            unsafe { self.0.scatter(lanes[n], to, &index[n * I::LANES..]) };
        }
    }

    /// Returns the first [`Wide::WIDTH`] labels.
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

    /// See [`Vectors::load_pairs`].
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

    /// Returns the lowest bit of lane `i` as bit `i`.
    #[inline(always)]
    pub(crate) fn colours(self, a: Lanes<I, N>) -> u32 {
        let mut bits = 0;
        for n in 0..N {
            bits |= self.0.colours(a[n]) << (n * I::LANES);
        }
        bits
    }

    /// Returns bit 64 of lane `i` as bit `i`.
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

    /// Returns all ones in the lanes whose bit 64 is set and zero in the others.
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

    /// Applies the linear orthomorphism of the half-gates hash: `(high, low)` becomes `(high ^ low,
    /// high)`.
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

    /// Encrypts `blocks[k]` of a group of gates. Each lane uses the key of tweak `k` of its gate.
    #[inline(always)]
    pub(crate) fn encrypt_tweaked<const B: usize>(
        self,
        numbers: TweakNumbers,
        blocks: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        let keys = self.counter(numbers.gate.wrapping_mul(2), 2, 0);
        let keys = self.xor(self.splat(numbers.start), keys);
        // The first key number is even, so adding 1 is an XOR.
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
