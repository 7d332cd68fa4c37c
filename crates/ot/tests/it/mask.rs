//! Tests of chosen messages from correlated OT.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use transpute_ot::{MAX_INDEX, MaskHash};

const SID: [u8; 32] = [5; 32];

/// Computes the hash from its definition, with single AES calls.
fn reference(sid: &[u8; 32], x: u128, index: u64) -> u128 {
    let digest = Sha256::new()
        .chain_update("transpute OT mask v1")
        .chain_update(sid)
        .finalize();
    let cipher = Aes128::new_from_slice(&digest[..16]).unwrap();
    let permute = |x: u128| {
        let mut block = x.to_le_bytes().into();
        cipher.encrypt_block(&mut block);
        u128::from_le_bytes(block.into())
    };
    let mut tweak = [0; 16];
    tweak[..8].copy_from_slice(&index.to_le_bytes());
    tweak[15] = 1;
    permute(permute(x) ^ u128::from_le_bytes(tweak)) ^ permute(x)
}

#[test]
fn agrees_with_the_definition_and_the_golden_value() {
    let hash = MaskHash::new(&SID);
    for len in [0, 1, 63, 64, 127, 128, 129, 300] {
        let inputs: Vec<u128> = (0..len)
            .map(|i| i * i * 12_345_678_901_234_567_890)
            .collect();
        let mut values = inputs.clone();
        hash.hash(1000, &mut values);
        for (i, (x, h)) in inputs.iter().zip(&values).enumerate() {
            assert_eq!(
                *h,
                reference(&SID, *x, 1000 + i as u64),
                "value {i} of {len}"
            );
        }
    }
    let mut value = [0x0011_2233_4455_6677_8899_aabb_ccdd_eeff];
    hash.hash(1, &mut value);
    assert_eq!(
        format!("{:032x}", value[0]),
        "aa500f5501df90eb8e08db1a73c32cbe"
    );
}

#[test]
fn only_the_chosen_message_is_unmasked() {
    let delta = 0x8000_0000_0000_0000_0000_0000_0000_0001;
    for n in [0_usize, 1, 63, 64, 65, 128, 129, 1000] {
        let choices: Vec<u64> = (0..n.div_ceil(64) as u64)
            .map(|i| 0x0f0f_1234_5678_9abc ^ i)
            .collect();
        let chosen = |i: usize| choices[i / 64] >> (i % 64) & 1;
        let q: Vec<u128> = (0..n as u128).map(|i| i << 64 | 77).collect();
        let t: Vec<u128> = (0..n)
            .map(|i| q[i] ^ (delta * u128::from(chosen(i))))
            .collect();
        let messages: Vec<[u128; 2]> = (0..n as u128).map(|i| [2 * i, 2 * i + 1]).collect();

        let hash = MaskHash::new(&SID);
        let (mut masked, mut received) = (Vec::new(), Vec::new());
        hash.mask(9, &q, delta, &messages, &mut masked);
        hash.unmask(9, &t, &choices, &masked, &mut received);
        assert_eq!(received.len(), n);
        for i in 0..n {
            assert_eq!(
                received[i],
                messages[i][chosen(i) as usize],
                "OT {i} of {n}"
            );
            // The receiver's hash does not unmask the other message.
            let other = masked[i][1 - chosen(i) as usize];
            assert_ne!(
                other ^ reference(&SID, t[i], 9 + i as u64),
                messages[i][1 - chosen(i) as usize]
            );
        }

        // Another session or another index does not unmask anything.
        for (sid, start) in [([6; 32], 9), (SID, 10)] {
            let mut wrong = Vec::new();
            MaskHash::new(&sid).unmask(start, &t, &choices, &masked, &mut wrong);
            assert!(wrong.iter().zip(&received).all(|(a, b)| a != b));
        }
    }
}

#[test]
fn the_last_index_is_usable() {
    MaskHash::new(&SID).hash(MAX_INDEX - 2, &mut [1, 2]);
}

#[test]
#[should_panic(expected = "OT index over 2^56")]
fn indices_do_not_wrap() {
    MaskHash::new(&SID).hash(MAX_INDEX - 1, &mut [1, 2]);
}
