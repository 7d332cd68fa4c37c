//! The first messages of the baseline protocols: what both parties must have been told alike.

use rand::{Rng, rngs::StdRng};

use crate::{
    baseline::{Key, Side, Task},
    division::{Approach, Shares, to_u32},
    fast,
    wire::{Channel, Kind, ProtocolError},
};

/// Bytes of a hello: a version, the approach, the sign, four numbers, and a nonce.
const HELLO_LEN: usize = 3 + 4 * 4 + NONCE_LEN;

const NONCE_LEN: usize = 32;

/// The version of these protocols.
const VERSION: u8 = 1;

fn hello(task: &Task, nonce: &[u8; NONCE_LEN]) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    let numbers = [
        to_u32(task.division.dividend),
        to_u32(task.division.divisor),
        to_u32(task.division.fraction),
        task.key_bits,
    ];
    let head = [VERSION, task.approach as u8, u8::from(task.division.signed)];
    let all = (head.into_iter())
        .chain(numbers.into_iter().flat_map(u32::to_le_bytes))
        .chain(*nonce);
    for (byte, value) in bytes.iter_mut().zip(all) {
        *byte = value;
    }
    bytes
}

/// Names the parts of a hello that must be the same, and reads them.
fn terms(hello: &[u8]) -> impl Iterator<Item = (&'static str, u64)> {
    const TERMS: [(&str, usize); 7] = [
        ("the version", 1),
        ("the approach (1 fast, 2 newton)", 1),
        ("the sign bit of numbers (1 if they have one)", 1),
        ("the width of the dividend", 4),
        ("the width of the divisor", 4),
        ("the number of bits after the point", 4),
        ("the size of the key", 4),
    ];
    let mut rest = hello;
    TERMS.into_iter().map(move |(name, len)| {
        let (bytes, more) = rest.split_at(len.min(rest.len()));
        rest = more;
        let value = bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
        (name, value)
    })
}

/// Tells the peer what is computed, with the key, and checks that it says the same.
///
/// # Errors
/// [`ProtocolError::Disagreement`] if it does not, and what is wrong with the link.
pub(crate) async fn greet(
    mut channel: Channel,
    task: Task,
    shares: Shares,
    key: &Key,
) -> Result<Side, ProtocolError> {
    let mut rng: StdRng = rand::make_rng();
    let mut nonce = [0; NONCE_LEN];
    rng.fill_bytes(&mut nonce);
    let ours = hello(&task, &nonce);
    channel.put(Kind::Hello, &ours);
    if let Key::Secret(key) = key {
        channel.put(Kind::Key, &key.public().to_bytes());
        channel.flush().await?;
        // It needs nothing of the peer, and would wait half a round trip for its greeting.
        if task.approach == Approach::Fast {
            let encrypted = fast::encrypt_shares(key.public(), &shares, &mut rng);
            channel.put(Kind::Shares, &encrypted);
        }
    }
    // A peer that does not agree may have left, but its greeting says why.
    let sent = channel.flush().await;
    let theirs = channel.receive(Kind::Hello, HELLO_LEN).await?;
    for ((field, ours), (_, theirs)) in terms(&ours).zip(terms(&theirs)) {
        if ours != theirs {
            return Err(ProtocolError::Disagreement {
                field,
                ours,
                theirs,
            });
        }
    }
    sent?;
    // The party with the key first, on both sides.
    let (first, second) = match key {
        Key::Secret(_) => (&ours[..], &theirs[..]),
        Key::OfPeer => (&theirs[..], &ours[..]),
    };
    let session = blake3::Hasher::new_derive_key("transpute forecast v1: session")
        .update(first)
        .update(second)
        .finalize();
    Ok(Side {
        channel,
        task,
        shares,
        session: session.into(),
        rng,
    })
}
