//! Tests of single gates: known answers, all combinations of inputs, and the attack that a weak
//! hash allows.

use aes::{
    Aes128,
    cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use transpute_circuit::{Circuit, Gate, Op, OutputBit, Program};

use super::*;
use crate::{
    Backend, Scheme, Seed,
    chunk::{Cursor, Runs},
    dispatch::Dispatch,
    engine::Lanes,
    seed::{RandomBits, SecretPrg},
};

const START: u128 = 0x0f0e0d0c0b0a09080706050403020100;
const NONCE: u64 = 0x1122_3344_5566_7788;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn label(text: &str) -> Label {
    Label::from_bytes(hex(text).try_into().unwrap())
}

/// Returns a program of one gate on two input bits, which are inverted as requested.
fn gate(op: Op, invert_a: bool, invert_b: bool) -> Program {
    let mut gates = Vec::new();
    let mut operands = [0, 1];
    for (operand, invert) in operands.iter_mut().zip([invert_a, invert_b]) {
        if invert {
            gates.push(Gate {
                op: Op::Not,
                a: *operand,
                b: 0,
            });
            *operand = 1 + gates.len() as u32;
        }
    }
    let [a, b] = operands;
    gates.push(Gate { op, a, b });
    let out = 1 + gates.len() as u32;
    let program = Program::compile(&Circuit::new(vec![2], vec![1], gates, vec![out]).unwrap());
    assert_eq!(program.gates().len(), 1);
    program
}

/// Returns the output slot of a one-gate program, and whether the output is inverted.
fn slots_of(program: &Program) -> (usize, bool) {
    match program.outputs() {
        [OutputBit::Slot { slot, invert }] => (*slot as usize, *invert),
        outputs => panic!("unexpected outputs {outputs:?}"),
    }
}

/// A gate with all random choices fixed.
struct Case {
    scheme: Scheme,
    program: Program,
    id: u64,
    /// Labels of the operands, indexed by value.
    inputs: [[Label; 2]; 2],
    random_bits: [bool; 2],
}

impl Case {
    fn delta(&self) -> Label {
        self.inputs[0][0] ^ self.inputs[0][1]
    }

    /// Returns the chunk and both labels of the output slot.
    fn garble(&self, backend: Backend) -> (Vec<u8>, [Label; 2]) {
        self.garble_with(backend, PerTweak { start: START })
    }

    fn garble_with(&self, backend: Backend, hash: impl PairHash) -> (Vec<u8>, [Label; 2]) {
        let span = Cursor::default().span(&self.program, self.scheme, 64, 1);
        let mut chunk = vec![0; span.bytes()];
        let spare = self.program.slot_count();
        let per_slot = self.scheme.labels_per_slot();
        let mut slots = vec![Label::ZERO; (spare + 1) * per_slot];
        let place = &mut |loads: &[Load], slots: &mut [Label]| {
            for load in loads {
                let pair = self.inputs[load.input as usize];
                slots[per_slot * load.slot as usize..][..per_slot]
                    .copy_from_slice(&pair[..per_slot]);
            }
        };
        let prg = SecretPrg::new(&Seed::from_bytes([0; 32]));
        let [mut first, second] = self.random_bits.map(RandomBits::constant);
        let tables = TableWriter::new(&mut chunk, span.ciphertext_bytes);
        let delta = self.delta();
        let runs = Runs::new(&self.program, &span, self.scheme.is_free_xor());
        let (spare, id) = (spare as u32, self.id);
        match self.scheme {
            Scheme::HalfGates | Scheme::FixedKey => {
                let kernel = HalfGatesGarble::new(hash, delta, tables);
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
            Scheme::ThreeHalves => {
                let mut random_bits = [first, second];
                let kernel = ThreeHalvesGarble {
                    start: START,
                    delta,
                    prg: &prg,
                    random_bits: &mut random_bits,
                    tables,
                };
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
            Scheme::Prf => {
                let kernel = PrfGarble {
                    nonce: NONCE,
                    prg: &prg,
                    random_bits: &mut first,
                    tables,
                };
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
        }
        let (out, _) = slots_of(&self.program);
        let labels = match self.scheme {
            Scheme::Prf => [slots[2 * out], slots[2 * out + 1]],
            _ => [slots[out], slots[out] ^ delta],
        };
        (chunk, labels)
    }

    fn evaluate(&self, backend: Backend, chunk: &[u8], values: [bool; 2]) -> Label {
        let span = Cursor::default().span(&self.program, self.scheme, 64, 1);
        let spare = self.program.slot_count();
        let mut slots = vec![Label::ZERO; spare + 1];
        let place = &mut |loads: &[Load], slots: &mut [Label]| {
            for load in loads {
                let input = load.input as usize;
                slots[load.slot as usize] = self.inputs[input][usize::from(values[input])];
            }
        };
        let tables = TableReader::new(chunk, span.ciphertext_bytes);
        let runs = Runs::new(&self.program, &span, self.scheme.is_free_xor());
        let (spare, id) = (spare as u32, self.id);
        let start = START;
        match self.scheme {
            Scheme::HalfGates | Scheme::FixedKey => {
                let hash = PerTweak { start };
                let kernel = HalfGatesEvaluate { hash, tables };
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
            Scheme::ThreeHalves => {
                let kernel = ThreeHalvesEvaluate { start, tables };
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
            Scheme::Prf => {
                let nonce = NONCE;
                let kernel = PrfEvaluate { nonce, tables };
                run(backend, (kernel, place, &mut slots[..], spare, runs, id));
            }
        }
        slots[slots_of(&self.program).0]
    }
}

fn run<K: Kernel>(
    backend: Backend,
    (kernel, place, slots, spare, runs, first_id): (
        K,
        LoadInputs<'_>,
        &mut [Label],
        u32,
        Runs<'_>,
        u64,
    ),
) {
    // SAFETY: the programs are compiled, so their slots are valid, and `slots` has room for all
    // labels.
    let job = unsafe { ChunkJob::new(kernel, place, slots, spare, 1, runs, first_id) };
    Dispatch::new(backend).unwrap().run(job);
}

fn known_inputs() -> [[Label; 2]; 2] {
    let delta = label("0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    let (a, b) = (
        label("00112233445566778899aabbccddeeff"),
        label("ffeeddccbbaa99887766554433221100"),
    );
    [[a, a ^ delta], [b, b ^ delta]]
}

#[test]
fn half_gates_give_the_known_table() {
    let case = Case {
        scheme: Scheme::HalfGates,
        program: gate(Op::And, false, false),
        id: 5,
        inputs: known_inputs(),
        random_bits: [false; 2],
    };
    for backend in Backend::available() {
        let (chunk, [c0, _]) = case.garble(backend);
        let table = "e7ef46646ade6cb8b26664f2989d86f2d299a63d80d41e019f9ef3e2df5d58dd";
        assert_eq!(chunk, hex(table), "{backend}");
        assert_eq!(c0.to_bytes()[..], hex("4ff048280db97aabd7146e4e782a67a5"));
    }
}

#[test]
fn three_halves_give_the_known_table() {
    let case = Case {
        scheme: Scheme::ThreeHalves,
        program: gate(Op::And, false, false),
        id: 5,
        inputs: known_inputs(),
        random_bits: [true, false],
    };
    for backend in Backend::available() {
        let (chunk, [c0, _]) = case.garble(backend);
        let table = "72c57c545978b9169d0b9d9ce7b69baeb3be51594c12a61210";
        assert_eq!(chunk, hex(table), "{backend}");
        assert_eq!(c0.to_bytes()[..], hex("1c556007d93610d1fafeb2a48b123680"));
    }
}

#[test]
fn prf_gates_give_the_known_tables() {
    let [[a, _], [b, _]] = known_inputs();
    let inputs = [
        [a, label("a1b2c3d4e5f60718293a4b5c6d7e8f90")],
        [b, label("0a1b2c3d4e5f60718293a4b5c6d7e8f9")],
    ];
    let case = |op, id, table, labels: [&'static str; 2]| {
        let case = Case {
            scheme: Scheme::Prf,
            program: gate(op, false, false),
            id,
            inputs,
            random_bits: [true; 2],
        };
        for backend in Backend::available() {
            let (chunk, found) = case.garble(backend);
            assert_eq!(chunk, hex(table), "{backend}");
            for (found, expected) in found.into_iter().zip(labels) {
                assert_eq!(found.to_bytes()[..], hex(expected), "{backend}");
            }
        }
    };
    case(
        Op::Xor,
        7,
        "4fe64e37804bdf3c28efae59c2f2cd14",
        [
            "67365cd5e16579d5251646043259a8df",
            "14ba0fe756f72ad05f96763d99ad56cb",
        ],
    );
    case(
        Op::And,
        8,
        "5261750b3a6c45a212a8a35b5b63b59fc64dc05390d9572f2e7509a6254d220b0f",
        [
            "350da4e11e896f9dcdeb1c758e64072b",
            "f86e1aa3603fe8a9afea400988f831ad",
        ],
    );
}

fn random_label(rng: &mut StdRng) -> Label {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    Label::from_bytes(bytes)
}

/// Returns labels of both operands with the given permute bits.
fn random_inputs(rng: &mut StdRng, scheme: Scheme, permute: [bool; 2]) -> [[Label; 2]; 2] {
    let delta = random_label(rng).with_colour(true);
    permute.map(|permute| {
        let zero = random_label(rng).with_colour(permute);
        let one = if scheme.is_free_xor() {
            zero ^ delta
        } else {
            random_label(rng).with_colour(!permute)
        };
        [zero, one]
    })
}

#[test]
fn single_gates_are_correct_in_all_cases() {
    let mut rng = StdRng::seed_from_u64(1);
    let bits = |n: u32, i: u32| n >> i & 1 == 1;
    for scheme in Scheme::ALL {
        // Bits of n: inversions, permute bits, random bits, operation. XOR gates have tables only
        // in prf, and never inversions.
        for n in 0..128 {
            let op = if bits(n, 6) { Op::Xor } else { Op::And };
            if op == Op::Xor && (scheme != Scheme::Prf || bits(n, 0) || bits(n, 1)) {
                continue;
            }
            let invert = [bits(n, 0), bits(n, 1)];
            let case = Case {
                scheme,
                program: gate(op, invert[0], invert[1]),
                id: u64::from(n) * 7,
                inputs: random_inputs(&mut rng, scheme, [bits(n, 2), bits(n, 3)]),
                random_bits: [bits(n, 4), bits(n, 5)],
            };
            let (_, negated) = slots_of(&case.program);
            for backend in Backend::available() {
                let (chunk, labels) = case.garble(backend);
                assert_ne!(labels[0].colour(), labels[1].colour());
                for values in [[false, false], [false, true], [true, false], [true, true]] {
                    let [a, b] = [values[0] ^ invert[0], values[1] ^ invert[1]];
                    let expected = negated ^ if op == Op::Xor { a ^ b } else { a & b };
                    let found = case.evaluate(backend, &chunk, values);
                    assert_eq!(
                        found.to_bytes(),
                        labels[usize::from(expected)].to_bytes(),
                        "{scheme} {backend} case {n} values {values:?}"
                    );
                }
            }
        }
    }
}

/// The hash of half gates without sigma, which leaks the offset.
struct WithoutSigma;

impl PairHash for WithoutSigma {
    #[inline(always)]
    fn pair<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        mut operands: [[Lanes<I, N>; B]; 2],
    ) -> [[Lanes<I, N>; B]; 2] {
        for input in operands.as_flattened_mut() {
            // Sigma has order three, so two more applications undo the first.
            *input = w.sigma(w.sigma(*input));
        }
        PerTweak { start: START }.pair(w, keys, id, operands)
    }

    #[inline(always)]
    fn ready<I: Isa>(&self, _isa: I, _keys: &I::Keys, _id: u64) -> usize {
        0
    }

    #[inline(always)]
    fn prepare<I: Isa>(&self, isa: I, keys: &mut I::Keys, id: u64) {
        PerTweak { start: START }.prepare(isa, keys, id);
    }

    #[inline(always)]
    fn one<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        id: u64,
        mut operands: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        for input in &mut operands {
            *input = w.sigma(w.sigma(*input));
        }
        PerTweak { start: START }.one(w, keys, id, operands)
    }
}

/// Inverts the hash of the inactive first operand, given the active label `a` and its input to AES.
/// Returns a candidate for the offset, which is correct at a gate whose second permute bit is set.
fn recover(tg: u128, id: u64, a: u128, input: u128) -> u128 {
    let aes = Aes128::new(&Array((START ^ u128::from(2 * id)).to_le_bytes()));
    let mut block = Array(input.to_le_bytes());
    aes.encrypt_block(&mut block);
    let hash = u128::from_le_bytes(block.into()) ^ input;
    let mut block = Array((tg ^ hash ^ a).to_le_bytes());
    aes.decrypt_block(&mut block);
    u128::from_le_bytes(block.into()) ^ input
}

#[test]
fn the_offset_does_not_leak_but_would_without_sigma() {
    let sigma = |x: u128| (x >> 64) | ((x >> 64) ^ (x & u128::from(u64::MAX))) << 64;
    assert_eq!(
        Label(sigma(known_inputs()[0][0].0)).to_bytes()[..],
        hex("8899aabbccddeeff8888888888888888")
    );
    let mut rng = StdRng::seed_from_u64(2);
    for id in 0..64 {
        let permute = [id % 2 == 1, id / 2 % 2 == 1];
        let case = Case {
            scheme: Scheme::HalfGates,
            program: gate(Op::And, false, false),
            id,
            inputs: random_inputs(&mut rng, Scheme::HalfGates, permute),
            random_bits: [false; 2],
        };
        let (delta, a) = (case.delta().0, case.inputs[0][0].0);
        let tg = |chunk: &[u8]| u128::from_le_bytes(chunk[..16].try_into().unwrap());
        let (broken, _) = case.garble_with(Backend::Portable, WithoutSigma);
        let recovered = recover(tg(&broken), id, a, a);
        assert_eq!(recovered == delta, permute[1], "gate {id}");

        let (chunk, _) = case.garble(Backend::Portable);
        for with in [a, sigma(a)] {
            for input in [a, sigma(a)] {
                let recovered = recover(tg(&chunk), id, with, input);
                assert!(![delta, sigma(delta)].contains(&recovered), "gate {id}");
            }
        }
    }
}
