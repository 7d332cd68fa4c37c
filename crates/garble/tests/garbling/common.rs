//! Circuits and helpers shared by the integration tests.

use std::sync::Arc;

use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
use transpute_garble::{
    Backend, EvaluatedOutputs, Evaluator, GarbledOutputs, Garbler, Label, Params, Scheme, Seed,
};

/// A linear congruential generator, so that the numbers never change.
pub(crate) struct Lcg(pub(crate) u64);

impl Lcg {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn bits(&mut self, len: usize) -> Bits {
        (0..len).map(|_| self.below(2) == 1).collect()
    }
}

/// Returns a circuit of random gates of every kind, with three input values.
pub(crate) fn random_circuit(seed: u64, gates: usize) -> Circuit {
    let mut rng = Lcg(seed);
    let widths: Vec<u32> = (0..3).map(|_| rng.below(40) as u32).collect();
    let inputs: u32 = widths.iter().sum();
    // Operands are chosen from a window of recent wires, so that depth and width vary.
    let window = 1 + rng.below(400);
    let mut made: Vec<Gate> = Vec::with_capacity(gates);
    for i in 0..gates {
        let wires = u64::from(inputs) + i as u64;
        // Constants are rare, because folding would remove most of the circuit.
        let op = match rng.below(200) {
            0 => Op::Zero,
            1 => Op::One,
            2..10 => Op::Copy,
            10..40 => Op::Not,
            40..120 => Op::Xor,
            _ => Op::And,
        };
        let mut operand = || match wires {
            0 => None,
            _ if rng.below(8) == 0 => Some(rng.below(wires) as u32),
            _ => Some((wires - 1 - rng.below(window.min(wires))) as u32),
        };
        let gate = match (op, operand(), operand()) {
            (Op::Zero | Op::One, ..) | (_, None, _) | (_, _, None) => Gate {
                op: if op == Op::One { Op::One } else { Op::Zero },
                a: 0,
                b: 0,
            },
            (Op::Not | Op::Copy, Some(a), _) => Gate { op, a, b: 0 },
            (_, Some(a), Some(b)) => Gate { op, a, b },
        };
        made.push(gate);
    }
    let wires = u64::from(inputs) + gates as u64;
    let outputs: Vec<u32> = match wires {
        0 => Vec::new(),
        _ => (0..rng.below(60 + gates as u64 / 2))
            .map(|_| (wires - 1 - rng.below(wires)) as u32)
            .collect(),
    };
    Circuit::new(widths, vec![outputs.len() as u32], made, outputs).unwrap()
}

/// Both parties of a garbling, in one process.
pub(crate) struct Pair {
    pub(crate) garbler: Garbler,
    pub(crate) evaluator: Evaluator,
    pub(crate) split: InputSplit,
    instance: u64,
}

impl Pair {
    pub(crate) fn new(
        program: &Arc<Program>,
        split: InputSplit,
        params: Params,
        backend: Backend,
    ) -> Self {
        let seed = Seed::from_bytes([0x5e; 32]);
        Self {
            garbler: Garbler::new(program.clone(), &split, params, seed, backend).unwrap(),
            evaluator: Evaluator::new(program.clone(), &split, params, backend).unwrap(),
            split,
            instance: 0,
        }
    }

    /// Begins the next instance at both parties, with the right labels.
    pub(crate) fn begin(&mut self, inputs: &Bits) {
        let part = |of_garbler| -> Bits {
            (self.split.ranges(of_garbler))
                .flatten()
                .map(|i| inputs.get(i as usize))
                .collect()
        };
        let (mine, theirs) = (part(true), part(false));
        let mut pairs = Vec::new();
        self.garbler
            .evaluator_label_pairs(self.instance, 0..theirs.len(), &mut pairs);
        let labels: Vec<Label> = (pairs.iter().zip(theirs.iter()))
            .map(|(pair, bit)| pair[usize::from(bit)])
            .collect();
        let sent = (self.garbler.params().scheme.sends_garbler_labels()).then(|| {
            let mut bytes = Vec::new();
            self.garbler
                .garbler_labels(self.instance, 0..mine.len(), &mine, &mut bytes);
            let (labels, rest) = bytes.as_chunks::<16>();
            assert!(rest.is_empty());
            labels.iter().copied().map(Label::from_bytes).collect()
        });
        let sent: Option<Vec<Label>> = sent;
        self.garbler.begin_instance(&mine).unwrap();
        self.evaluator
            .begin_instance(sent.as_deref(), &labels)
            .unwrap();
        self.instance += 1;
    }

    /// Garbles the rest of the instance and returns the chunks.
    pub(crate) fn chunks(&mut self, limit: usize) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        while !self.garbler.is_instance_done() {
            let mut chunk = Vec::new();
            let last = self.garbler.garble_chunk(limit, &mut chunk).unwrap();
            assert_eq!(last, self.garbler.is_instance_done());
            chunks.push(chunk);
        }
        chunks
    }

    /// Evaluates chunks and takes the outputs of both parties.
    pub(crate) fn finish(
        &mut self,
        chunks: &[Vec<u8>],
        limit: usize,
    ) -> (GarbledOutputs, EvaluatedOutputs) {
        for chunk in chunks {
            assert_eq!(self.evaluator.next_chunk_len(limit), Some(chunk.len()));
            self.evaluator.evaluate_chunk(chunk, limit).unwrap();
        }
        assert_eq!(self.evaluator.next_chunk_len(limit), None);
        (
            self.garbler.take_outputs().unwrap(),
            self.evaluator.take_outputs().unwrap(),
        )
    }
}

/// Returns parameters that never change.
pub(crate) fn fixed_params(scheme: Scheme, rekey_period: u32) -> Params {
    Params {
        scheme,
        rekey_period,
        start: *b"start of the key",
        nonce: 0x0123_4567_89ab_cdef,
        input_seed: *b"seed of inputs..",
    }
}

/// Returns parameters for every scheme, and for half gates with several re-key periods.
pub(crate) fn all_params() -> Vec<Params> {
    let mut all: Vec<Params> = (Scheme::ALL.into_iter())
        .map(|scheme| fixed_params(scheme, 1))
        .collect();
    for period in [2, 4, 16, 1024, 1 << 20] {
        all.push(fixed_params(Scheme::HalfGates, period));
    }
    all
}
