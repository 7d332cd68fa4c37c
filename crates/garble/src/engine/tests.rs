//! Compares every instruction set with known answers and with the portable one.

use proptest::prelude::*;

use super::*;
use crate::Backend;
use crate::dispatch::{Dispatch, Job};

/// The example of FIPS-197, appendix B: key, plaintext, ciphertext.
const FIPS_197: [[u8; 16]; 3] = [
    [
        0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f,
        0x3c,
    ],
    [
        0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d, 0x31, 0x31, 0x98, 0xa2, 0xe0, 0x37, 0x07,
        0x34,
    ],
    [
        0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb, 0xdc, 0x11, 0x85, 0x97, 0x19, 0x6a, 0x0b,
        0x32,
    ],
];

/// The results of all operations on eight labels.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    labels: Vec<u128>,
    bits: Vec<u32>,
}

/// Runs every operation on all labels, group by group.
struct Probe<'a> {
    input: &'a [Label; MAX_WIDTH],
    trace: &'a mut Trace,
}

impl Probe<'_> {
    #[inline(always)]
    fn record<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        group: usize,
        tag: usize,
        v: Lanes<I, N>,
    ) {
        let mut bytes = [0; 24 * MAX_WIDTH];
        w.store(v, &mut bytes, 24);
        for i in 0..Wide::<I, N>::WIDTH {
            let at = tag * MAX_WIDTH + group + i;
            if self.trace.labels.len() <= at {
                self.trace.labels.resize(at + 1, 0);
            }
            self.trace.labels[at] = Portable.load(&bytes[24 * i..], 16);
        }
    }

    #[inline(always)]
    fn record_bits<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        group: usize,
        tag: usize,
        bits: u32,
    ) {
        self.trace
            .bits
            .resize(self.trace.bits.len().max(tag + 1), 0);
        self.trace.bits[tag] |= bits << group;
        assert_eq!(bits >> Wide::<I, N>::WIDTH, 0);
        let _ = w;
    }

    #[inline(always)]
    fn operations<I: Isa, const N: usize>(&mut self, w: Wide<I, N>) {
        let width = Wide::<I, N>::WIDTH;
        let mut keys = I::Keys::default();
        for group in (0..MAX_WIDTH).step_by(width) {
            let mut index = [0; MAX_WIDTH];
            let mut other = [0; MAX_WIDTH];
            for i in 0..width {
                index[i] = (group + i) as u32;
                other[i] = ((group + i) * 5 + 3) as u32 % 8;
            }
            // SAFETY: all indices are below the number of labels.
            let [a, b] = unsafe { [w.gather(self.input, &index), w.gather(self.input, &other)] };
            let mut bytes = [0; 40 * MAX_WIDTH];
            w.store(a, &mut bytes, 40);
            let loaded = w.load(&bytes, 40);
            let mut slots = [Label::ZERO; MAX_WIDTH];
            // SAFETY: all indices are below the number of labels.
            let scattered = unsafe {
                w.scatter(b, &mut slots, &index);
                w.gather(&slots, &index)
            };
            let mut pairs = [0; 32 * MAX_WIDTH];
            w.store_pairs([a, b], &mut pairs);
            let [first_of_pair, second_of_pair] = w.load_pairs(&pairs);
            w.store_labels(a, &mut slots[group..]);
            let neighbours = w.load_labels(&slots[group..]);
            w.store(b, &mut bytes, 16);
            let together = w.load(&bytes, 16);
            let first = group as u64;
            let mut tag = 0;
            for v in [
                a,
                b,
                loaded,
                scattered,
                first_of_pair,
                second_of_pair,
                neighbours,
                together,
                w.xor(a, b),
                w.and(a, b),
                w.swap(a),
                w.join_low(a, b),
                w.double_halves(a),
                w.colour_mask(a),
                w.mask(0b1010_0110 >> group),
                w.low_to_high(a),
                w.high_to_low(a),
                w.repeat_low(a),
                w.repeat_high(a),
                w.sigma(a),
                w.high_colour_mask(a),
                w.not(a),
                w.counter((u64::MAX - 3).wrapping_add(first * 3), 3, 77),
                w.splat(self.input[0].0),
            ] {
                self.record(w, group, tag, v);
                tag += 1;
            }
            for log_gates in [55, 5, 3, 2, 1, 0] {
                let numbers = KeyNumbers {
                    start: self.input[1].0,
                    // The first gate is arbitrary, except if one key serves all gates.
                    gate: if log_gates > 5 {
                        0
                    } else {
                        (self.input[2].0 as u64 >> 8) + first
                    },
                    log_gates,
                };
                let blocks = w.encrypt_numbered(&mut keys, numbers, [[a, b], [b, a]]);
                for v in blocks.into_iter().flatten() {
                    self.record(w, group, tag, v);
                    tag += 1;
                }
                keys = I::Keys::default();
            }
            for v in w
                .encrypt_keyed([a], [[a, b, w.xor(a, b)]])
                .into_iter()
                .flatten()
            {
                self.record(w, group, tag, v);
                tag += 1;
            }
            let operands = [
                [a, b],
                [b, a],
                [w.xor(a, b), a],
                [w.swap(a), b],
                [w.swap(b), a],
            ];
            let operand_keys = [a, b, w.xor(a, b), w.swap(a), w.sigma(b)];
            for v in w
                .encrypt_keyed(operand_keys, operands)
                .into_iter()
                .flatten()
            {
                self.record(w, group, tag, v);
                tag += 1;
            }
            for bits in 0..1 << MAX_WIDTH {
                for stride in [1, 4, 5] {
                    let spread = w.0.spread(bits, stride);
                    assert_eq!(spread, Portable.spread(bits, stride));
                    assert_eq!(w.0.collect(spread, stride), bits);
                    // Bits at other positions are ignored.
                    let others = Portable.spread((1 << MAX_WIDTH) - 1, stride);
                    assert_eq!(w.0.collect(spread | !others, stride), bits);
                }
            }
            self.record_bits(w, group, 0, w.colours(a));
            self.record_bits(w, group, 1, w.high_colours(a));
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Width {
    Wide,
    Half,
    Pair,
    Narrow,
}

const WIDTHS: [Width; 4] = [Width::Wide, Width::Half, Width::Pair, Width::Narrow];

struct AtWidth<'a>(Probe<'a>, Width);

impl Job for AtWidth<'_> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        mut self,
        wide: Wide<I, N>,
        half: Wide<I, M>,
        pair: Wide<J, P>,
        narrow: Wide<L, 1>,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>,
    {
        match self.1 {
            Width::Wide => self.0.operations(wide),
            Width::Half => self.0.operations(half),
            Width::Pair => self.0.operations(pair),
            Width::Narrow => self.0.operations(narrow),
        }
    }
}

fn trace(backend: Backend, width: Width, input: &[Label; MAX_WIDTH]) -> Trace {
    let mut trace = Trace::default();
    let probe = Probe {
        input,
        trace: &mut trace,
    };
    Dispatch::new(backend).unwrap().run(AtWidth(probe, width));
    trace
}

#[test]
fn aes_gives_the_known_answer() {
    let [key, plain, cipher] = FIPS_197.map(u128::from_le_bytes);
    let mut input = [Label(key); MAX_WIDTH];
    // Lane 2 holds the key, and lane 5 = (2 * 5 + 3) % 8 holds the block that lane 2 encrypts.
    input[5] = Label(plain);
    for backend in Backend::available() {
        for width in WIDTHS {
            let trace = trace(backend, width, &input);
            // Encrypted under the shared key of lane 1, and under the key of its own lane.
            assert_eq!(trace.labels[24 * MAX_WIDTH + 5], cipher, "{backend}");
            assert_eq!(
                trace.labels[(24 + 6 * 4 + 1) * MAX_WIDTH + 2],
                cipher,
                "{backend}"
            );
        }
    }
}

proptest! {
    #[test]
    fn all_instruction_sets_agree(words in any::<[u128; MAX_WIDTH]>()) {
        let input = words.map(Label);
        let expected = trace(Backend::Portable, Width::Narrow, &input);
        for backend in Backend::available() {
            for width in WIDTHS {
                prop_assert_eq!(&trace(backend, width, &input), &expected, "{} {:?}", backend, width);
            }
        }
    }
}
