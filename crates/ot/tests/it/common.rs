//! Helpers shared by the integration tests.

use std::convert::Infallible;

use rand::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use transpute_ot::{BASE_COUNT, CotReceiver, CotSender, Extension, OtError};

/// A generator that does not depend on library versions: SHA-256 of a seed and a counter.
pub(crate) struct TestRng {
    seed: u64,
    counter: u64,
}

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }
}

impl TryRng for TestRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.try_next_u64()? as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for part in dst.chunks_mut(32) {
            let digest = Sha256::new()
                .chain_update(self.seed.to_le_bytes())
                .chain_update(self.counter.to_le_bytes())
                .finalize();
            self.counter += 1;
            part.copy_from_slice(&digest[..part.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for TestRng {}

/// Returns random key pairs, and the keys that `delta` chooses, in place of base OTs.
pub(crate) fn dealt_keys(delta: u128, seed: u64) -> (Vec<u128>, Vec<[u128; 2]>) {
    let mut rng = TestRng::new(seed);
    let mut key =
        || u128::from(rng.try_next_u64().unwrap()) << 64 | u128::from(rng.try_next_u64().unwrap());
    let pairs: Vec<[u128; 2]> = (0..BASE_COUNT).map(|_| [key(), key()]).collect();
    let keys = (0..BASE_COUNT)
        .map(|i| pairs[i][(delta >> i & 1) as usize])
        .collect();
    (keys, pairs)
}

/// Returns both parties of an extension after the setup.
pub(crate) fn extension(kind: Extension, delta: u128, sid: &[u8; 32]) -> (CotSender, CotReceiver) {
    let (keys, pairs) = dealt_keys(delta, 1);
    let mut sender = CotSender::new(kind, delta, &keys, sid);
    let (receiver, setup) = CotReceiver::new(kind, &pairs, sid);
    assert_eq!(setup.len(), kind.setup_len());
    sender.setup(&setup).unwrap();
    (sender, receiver)
}

/// Returns the challenge: the hash of the corrections.
pub(crate) fn challenge(corrections: &[u8]) -> [u8; 32] {
    Sha256::digest(corrections).into()
}

/// The messages of one segment and the receiver's rows.
pub(crate) struct Sent {
    pub(crate) corrections: Vec<u8>,
    pub(crate) check: Vec<u8>,
    pub(crate) t: Vec<u128>,
}

/// Runs one segment at the receiver. Returns its messages and rows.
pub(crate) fn send(receiver: &mut CotReceiver, choices: &[u64], n: usize, seed: u64) -> Sent {
    let (mut corrections, mut check, mut t) = (Vec::new(), Vec::new(), Vec::new());
    let segment = receiver.extend(choices, n, &mut TestRng::new(seed), &mut corrections);
    segment.prove(&challenge(&corrections), &mut check, &mut t);
    Sent {
        corrections,
        check,
        t,
    }
}

/// Runs one segment at the sender. Returns the sender's rows if the check holds.
pub(crate) fn receive(
    sender: &mut CotSender,
    n: usize,
    corrections: &[u8],
    check: &[u8],
) -> Result<Vec<u128>, OtError> {
    let unchecked = sender.extend(n, corrections, &challenge(corrections))?;
    Ok(sender.check(unchecked, check)?.to_vec())
}

/// Returns the lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
