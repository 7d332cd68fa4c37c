//! Forward error correction: blocks with losses are recovered completely or rejected.

use std::collections::BTreeMap;

use proptest::prelude::*;
use transpute_rudp::fec::{
    BlockEncoder, DecoderLimits, DecoderStore, FecError, MAX_SYMBOLS, ParityId, SymbolOutcome,
};

/// Returns segments whose bytes depend on position, index and seed.
fn segments(lengths: &[usize], seed: u8) -> Vec<Vec<u8>> {
    (lengths.iter().enumerate())
        .map(|(n, &length)| (0..length).map(|k| (k * 31 + n * 7) as u8 ^ seed).collect())
        .collect()
}

fn encode(segments: &[Vec<u8>], parity: usize) -> Vec<Vec<u8>> {
    let mut encoder = BlockEncoder::new(1472).unwrap();
    for (n, segment) in segments.iter().enumerate() {
        assert_eq!(usize::from(encoder.push(segment).unwrap()), n);
    }
    encoder
        .finish(parity)
        .unwrap()
        .map(<[u8]>::to_vec)
        .collect()
}

fn id(block: u64, segments: usize, parity: usize, index: usize) -> ParityId {
    ParityId {
        block,
        start: 1000,
        segments: segments as u8,
        parity: parity as u8,
        index: index as u8,
    }
}

/// Sends all symbols that are not lost, in this order, and returns the recovered segments.
fn transmit(
    store: &mut DecoderStore,
    block: u64,
    data: &[Vec<u8>],
    parity: &[Vec<u8>],
    lost: &[usize],
    parity_first: bool,
) -> (Option<SymbolOutcome>, BTreeMap<u64, Vec<u8>>) {
    let mut recovered = BTreeMap::new();
    let mut last = None;
    let mut order: Vec<_> = (0..data.len() + parity.len()).collect();
    if parity_first {
        order.reverse();
    }
    for n in order.into_iter().filter(|n| !lost.contains(n)) {
        let deliver = |offset: u64, segment: &[u8]| {
            assert!(recovered.insert(offset, segment.to_vec()).is_none());
        };
        let outcome = match n.checked_sub(data.len()) {
            None => store.insert_data(block, n as u8, &data[n], deliver),
            Some(index) => {
                let id = id(block, data.len(), parity.len(), index);
                store.insert_parity(id, &parity[index], deliver)
            }
        };
        match outcome.unwrap() {
            SymbolOutcome::Stored | SymbolOutcome::Ignored => {}
            done => last = Some(done),
        }
    }
    (last, recovered)
}

fn offsets(data: &[Vec<u8>]) -> Vec<u64> {
    let mut at = 1000;
    (data.iter())
        .map(|segment| {
            at += segment.len() as u64;
            at - segment.len() as u64
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_losses_up_to_the_parity_are_recovered(
        lengths in prop::collection::vec(1usize..=1472, 1..=60),
        parity in 1usize..=12,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 12),
        seed: u8,
        parity_first: bool,
    ) {
        let data = segments(&lengths, seed);
        let symbols = encode(&data, parity);
        let mut lost: Vec<_> = picks[..parity].iter().map(|pick| pick.index(data.len() + parity)).collect();
        lost.sort_unstable();
        lost.dedup();
        let mut store = DecoderStore::new(DecoderLimits::default());
        let (outcome, recovered) = transmit(&mut store, 7, &data, &symbols, &lost, parity_first);
        let at = offsets(&data);
        let missing = lost.iter().filter(|&&n| n < data.len()).count();
        for &n in lost.iter().filter(|&&n| n < data.len()) {
            prop_assert_eq!(&recovered[&at[n]], &data[n]);
        }
        // Parity before data may recover segments that would have arrived later. They must be
        // correct, too.
        for (offset, segment) in &recovered {
            let n = at.binary_search(offset).unwrap();
            prop_assert_eq!(segment, &data[n]);
        }
        prop_assert!(recovered.len() >= missing);
        // Without any parity symbol the size of the block is not known, so its data stay until the
        // block is forgotten.
        if lost.len() - missing < parity {
            prop_assert!(outcome.is_some());
            prop_assert_eq!((store.held_bytes(), store.held_blocks()), (0, 0));
        }
    }

    #[test]
    fn nothing_is_recovered_after_one_loss_too_many(
        count in 3usize..=60,
        parity in 1usize..=3,
        seed: u8,
    ) {
        let data = segments(&vec![100; count], seed);
        let symbols = encode(&data, parity);
        let lost: Vec<_> = (0..=parity.min(count - 1)).collect();
        prop_assume!(lost.len() > parity);
        let mut store = DecoderStore::new(DecoderLimits::default());
        let (outcome, recovered) = transmit(&mut store, 0, &data, &symbols, &lost, false);
        prop_assert_eq!(outcome, None);
        prop_assert!(recovered.is_empty());
        // The retransmission of one segment completes the block.
        let mut late = Vec::new();
        let outcome = store.insert_data(0, 0, &data[0], |_, segment| late.push(segment.to_vec()));
        prop_assert_eq!(outcome, Ok(SymbolOutcome::Recovered(parity)));
        prop_assert_eq!(&late[..], &data[1..=parity]);
    }

    #[test]
    fn random_input_neither_panics_nor_exceeds_the_limits(
        steps in prop::collection::vec(
            (any::<bool>(), 0u64..6, any::<u8>(), any::<u8>(), 0u8..8, 0usize..40, any::<u8>(), any::<u64>()),
            0..400,
        ),
    ) {
        let mut limits = DecoderLimits::default();
        limits.blocks = 4;
        limits.bytes = 2000;
        limits.remembered = 16;
        limits.max_segment = 32;
        let mut store = DecoderStore::new(limits);
        for (data, block, a, b, c, length, fill, start) in steps {
            let bytes = vec![fill; length];
            let block = if a == 255 { u64::MAX - block } else { block };
            let outcome = if data {
                store.insert_data(block, b % 12, &bytes, |_, _| {})
            } else {
                let id = ParityId { block, start, segments: a % 12, parity: c, index: b % 8 };
                store.insert_parity(id, &bytes, |_, _| {})
            };
            let _ = outcome;
            prop_assert!(store.held_bytes() <= limits.bytes && store.held_blocks() <= limits.blocks);
        }
    }
}

#[test]
fn a_block_without_loss_is_not_decoded() {
    let data = segments(&[1400; 200], 3);
    let symbols = encode(&data, 2);
    let mut store = DecoderStore::new(DecoderLimits::default());
    let (outcome, recovered) = transmit(&mut store, 0, &data, &symbols, &[], false);
    assert_eq!(outcome, Some(SymbolOutcome::Complete));
    assert!(recovered.is_empty());
    // Late packets and duplicates of the block's packets do not start a new block.
    assert_eq!(
        store.insert_data(0, 3, &data[3], |_, _| {}),
        Ok(SymbolOutcome::Ignored)
    );
    assert_eq!(store.held_blocks(), 0);
}

#[test]
fn parity_agrees_with_the_document() {
    // Computed by hand from docs/rudp.md: the coefficients are 01 01, 7f fc and e2 ff.
    let parity = encode(&[vec![1], vec![2, 4]], 3);
    assert_eq!(parity, [[0, 3, 3, 4], [0, 154, 154, 215], [0, 1, 1, 219]]);
}

#[test]
fn short_blocks_have_short_parity() {
    let data = segments(&[5, 9, 1], 0);
    assert_eq!(encode(&data, 2)[0].len(), 11);
    assert!(encode(&data, 0).is_empty());
}

#[test]
fn the_encoder_rejects_invalid_segments_and_blocks() {
    let mut encoder = BlockEncoder::new(100).unwrap();
    let length = |got| FecError::SegmentLength { got, max: 100 };
    assert_eq!(encoder.push(&[]), Err(length(0)));
    assert_eq!(encoder.push(&[0; 101]), Err(length(101)));
    assert!(BlockEncoder::new(0).is_err() && BlockEncoder::new(10_000).is_err());
    assert!(encoder.finish(1).is_err());
    for _ in 0..MAX_SYMBOLS - 1 {
        encoder.push(&[1]).unwrap();
    }
    let full = FecError::BlockSize {
        segments: 255,
        parity: 1,
    };
    assert_eq!(encoder.push(&[1]), Err(full));
    assert!(encoder.finish(2).is_err());
    assert!(encoder.is_empty());
}

#[test]
fn contradictions_are_errors() {
    let data = segments(&[40; 4], 1);
    let symbols = encode(&data, 2);
    let mut store = DecoderStore::new(DecoderLimits::default());
    let conflict = |what| Err(FecError::Conflict { what });
    store.insert_data(0, 0, &data[0], |_, _| {}).unwrap();
    assert_eq!(
        store.insert_data(0, 0, &data[1], |_, _| {}),
        conflict("segment")
    );
    store
        .insert_parity(id(0, 4, 2, 0), &symbols[0], |_, _| {})
        .unwrap();
    let mut parity = |id, symbol: &[u8]| store.insert_parity(id, symbol, |_, _| {});
    assert_eq!(parity(id(0, 4, 2, 0), &symbols[1]), conflict("parity"));
    assert_eq!(parity(id(0, 5, 2, 1), &symbols[1]), conflict("shape"));
    assert_eq!(parity(id(0, 4, 2, 1), &symbols[1][..40]), conflict("shape"));
    for got in [2, 1475] {
        let rejected = Err(FecError::SymbolLength { got });
        assert_eq!(parity(id(1, 4, 2, 1), &vec![0; got]), rejected);
    }
    assert!(matches!(
        parity(id(1, 0, 2, 1), &symbols[1]),
        Err(FecError::BlockSize { .. })
    ));
    assert!(matches!(
        parity(id(1, 4, 2, 2), &symbols[1]),
        Err(FecError::BlockSize { .. })
    ));
    assert!(matches!(
        parity(id(1, 250, 6, 2), &symbols[1]),
        Err(FecError::BlockSize { .. })
    ));
    assert_eq!(
        store.insert_data(0, 4, &data[1], |_, _| {}),
        conflict("size")
    );
    assert_eq!(
        store.insert_data(0, 3, &[0; 41], |_, _| {}),
        conflict("symbol length")
    );
    // The segment has an index beyond the block size of the parity symbol.
    store.insert_data(9, 5, &data[0], |_, _| {}).unwrap();
    assert_eq!(
        store.insert_parity(id(9, 4, 2, 0), &symbols[0], |_, _| {}),
        conflict("size")
    );
}

#[test]
fn a_block_that_decodes_to_invalid_segments_is_corrupt() {
    let data = segments(&[40; 4], 1);
    let mut symbols = encode(&data, 1);
    symbols[0][0] ^= 0x80;
    let mut store = DecoderStore::new(DecoderLimits::default());
    for n in 1..4 {
        store
            .insert_data(0, n, &data[usize::from(n)], |_, _| {})
            .unwrap();
    }
    let outcome = store.insert_parity(id(0, 4, 1, 0), &symbols[0], |_, _| unreachable!());
    assert_eq!(outcome, Err(FecError::Corrupt));
    assert_eq!(store.held_bytes(), 0);
}

#[test]
fn the_oldest_block_is_given_up_for_a_newer_one() {
    let mut limits = DecoderLimits::default();
    limits.blocks = 2;
    let mut store = DecoderStore::new(limits);
    for block in [5, 7, 6] {
        store.insert_data(block, 0, &[1; 10], |_, _| {}).unwrap();
    }
    assert_eq!((store.held_blocks(), store.held_bytes()), (2, 20));
    // Block 5 is given up, and block 3 is older than all that are held.
    assert_eq!(
        store.insert_data(5, 1, &[1; 10], |_, _| {}),
        Ok(SymbolOutcome::Ignored)
    );
    assert_eq!(
        store.insert_data(3, 1, &[1; 10], |_, _| {}),
        Ok(SymbolOutcome::Ignored)
    );
    // After a much larger block number, blocks thousands of numbers behind are not accepted.
    store.insert_data(1 << 40, 0, &[1; 10], |_, _| {}).unwrap();
    assert_eq!(
        store.insert_data(6, 1, &[1; 10], |_, _| {}),
        Ok(SymbolOutcome::Ignored)
    );
    assert_eq!(store.held_blocks(), 1);
}

/// Returns the processor time of this thread, in seconds, so that other work on the machine does
/// not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos: f64 = text.split(' ').next().unwrap().parse().unwrap();
    nanos * 1e-9
}

/// Prints the throughput of the erasure code.
#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-rudp --test fec -- --ignored --nocapture speed"]
fn speed() {
    let data = segments(&[1440; 200], 9);
    let bytes = 200.0 * 1440.0;
    for parity in [2, 3, 4, 8, 10, 20] {
        let mut encoder = BlockEncoder::new(1440).unwrap();
        let mut symbols = Vec::new();
        let rounds = 300u32;
        let start = cpu_seconds();
        for _ in 0..rounds {
            for segment in &data {
                encoder.push(segment).unwrap();
            }
            symbols = encoder
                .finish(parity)
                .unwrap()
                .map(<[u8]>::to_vec)
                .collect();
        }
        let encoded = (cpu_seconds() - start) / f64::from(rounds);
        let mut store = DecoderStore::new(DecoderLimits::default());
        let lost: Vec<_> = (0..parity).map(|n| n * 9).collect();
        let start = cpu_seconds();
        for round in 0..rounds {
            transmit(&mut store, u64::from(round), &data, &symbols, &lost, false);
        }
        let decoded = (cpu_seconds() - start) / f64::from(rounds);
        let start = cpu_seconds();
        for round in 0..rounds {
            transmit(
                &mut store,
                1000 + u64::from(round),
                &data,
                &symbols,
                &[],
                false,
            );
        }
        let kept = (cpu_seconds() - start) / f64::from(rounds);
        println!(
            "k 200, m {parity:2}: encode {:6.0} MB/s, decode {:6.0} MB/s, without loss {:6.0} MB/s",
            bytes / encoded / 1e6,
            bytes / decoded / 1e6,
            bytes / kept / 1e6
        );
    }
}
