//! Every instruction set against known answers and against the portable one.

use proptest::prelude::*;

use super::*;
use crate::backend::{Backend, Dispatch, Job};

/// FIPS-197, appendix B: key, plaintext, ciphertext.
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

/// What a machine computes from eight labels, for comparison across machines.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    labels: Vec<u128>,
    bits: Vec<u32>,
}

/// Runs every operation on the first `WIDTH` labels, group by group.
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
        for group in (0..MAX_WIDTH).step_by(width) {
            let mut index = [0; MAX_WIDTH];
            let mut other = [0; MAX_WIDTH];
            for i in 0..width {
                index[i] = (group + i) as u32;
                other[i] = ((group + i) * 5 + 3) as u32 % 8;
            }
            let a = w.gather(self.input, &index);
            let b = w.gather(self.input, &other);
            let mut bytes = [0; 40 * MAX_WIDTH];
            w.store(a, &mut bytes, 40);
            let loaded = w.load(&bytes, 40);
            let mut slots = [Label::ZERO; MAX_WIDTH];
            w.scatter(b, &mut slots, &index);
            let scattered = w.gather(&slots, &index);
            let first = group as u64;
            let mut tag = 0;
            for v in [
                a,
                b,
                loaded,
                scattered,
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
                w.counter((u64::MAX - 3).wrapping_add(first * 3), 3, 77),
                w.splat(self.input[0].0),
            ] {
                self.record(w, group, tag, v);
                tag += 1;
            }
            let schedule = w.schedule(self.input[1].0);
            for v in w.encrypt(&schedule, [a, b]) {
                self.record(w, group, tag, v);
                tag += 1;
            }
            for v in w.encrypt_keyed(a, [a, b, w.xor(a, b)]) {
                self.record(w, group, tag, v);
                tag += 1;
            }
            self.record_bits(w, group, 0, w.colours(a));
            self.record_bits(w, group, 1, w.high_colours(a));
        }
    }
}

struct Both<'a>(Probe<'a>, bool);

impl Job for Both<'_> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, J: Isa<Schedule = I::Schedule>>(
        mut self,
        wide: Wide<I, N>,
        narrow: Wide<J, 1>,
    ) {
        if self.1 {
            self.0.operations(narrow);
        } else {
            self.0.operations(wide);
        }
    }
}

fn trace(backend: Backend, narrow: bool, input: &[Label; MAX_WIDTH]) -> Trace {
    let mut trace = Trace::default();
    let probe = Probe {
        input,
        trace: &mut trace,
    };
    Dispatch::new(backend).unwrap().run(Both(probe, narrow));
    trace
}

#[test]
fn aes_gives_the_known_answer() {
    let [key, plain, cipher] = FIPS_197.map(u128::from_le_bytes);
    let mut input = [Label(key); MAX_WIDTH];
    // Lane 2 holds the key and lane 5 = (2 * 5 + 3) % 8 the block that lane 2 encrypts.
    input[5] = Label(plain);
    for backend in Backend::available() {
        for narrow in [false, true] {
            let trace = trace(backend, narrow, &input);
            // Under the one key of lane 1, and under its own key.
            assert_eq!(trace.labels[18 * MAX_WIDTH + 5], cipher, "{backend}");
            assert_eq!(trace.labels[21 * MAX_WIDTH + 2], cipher, "{backend}");
        }
    }
}

proptest! {
    #[test]
    fn all_instruction_sets_agree(words in any::<[u128; MAX_WIDTH]>()) {
        let input = words.map(Label);
        let expected = trace(Backend::Portable, true, &input);
        for backend in Backend::available() {
            for narrow in [false, true] {
                prop_assert_eq!(&trace(backend, narrow, &input), &expected, "{}", backend);
            }
        }
    }
}
