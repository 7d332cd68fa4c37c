//! The handshake of the baseline protocols, which compares the parameters of both parties.

use rand::{Rng, rngs::StdRng};

use crate::{
    baseline::{Key, PartyState, Task},
    division::{Approach, Shares, to_u32},
    fast,
    wire::{Channel, Kind, ProtocolError},
};

/// Length of a hello in bytes: version, approach, sign, four numbers and a nonce.
const HELLO_LEN: usize = 3 + 4 * 4 + NONCE_LEN;

const NONCE_LEN: usize = 32;

/// The version of the baseline protocols.
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

/// Iterates over the parameters in a hello: the name and the value of each.
fn parameters(hello: &[u8]) -> impl Iterator<Item = (&'static str, u64)> {
    const PARAMETERS: [(&str, usize); 7] = [
        ("the version", 1),
        ("the approach (1 fast, 2 newton)", 1),
        ("the sign bit of numbers (1 if they have one)", 1),
        ("the width of the dividend", 4),
        ("the width of the divisor", 4),
        ("the number of bits after the point", 4),
        ("the size of the key", 4),
    ];
    let mut rest = hello;
    PARAMETERS.into_iter().map(move |(name, len)| {
        let (bytes, more) = rest.split_at(len.min(rest.len()));
        rest = more;
        let value = bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
        (name, value)
    })
}

/// Exchanges hellos and the public key, and checks that the parameters are equal.
///
/// # Errors
/// Returns [`ProtocolError::Disagreement`] if parameters differ. Returns errors of the link.
pub(crate) async fn exchange(
    mut channel: Channel,
    task: Task,
    shares: Shares,
    key: &Key,
) -> Result<PartyState, ProtocolError> {
    let mut rng: StdRng = rand::make_rng();
    let mut nonce = [0; NONCE_LEN];
    rng.fill_bytes(&mut nonce);
    let ours = hello(&task, &nonce);
    channel.put(Kind::Hello, &ours);
    if let Key::Secret(key) = key {
        channel.put(Kind::Key, &key.public().to_bytes());
        channel.flush().await?;
        // The encrypted shares are sent before the peer's hello arrives, which saves half a round
        // trip.
        if task.approach == Approach::Fast {
            let encrypted = fast::encrypt_shares(key.public(), &shares, &mut rng);
            channel.put(Kind::Shares, &encrypted);
        }
    }
    // A send error is returned only after the peer's hello was compared, because the hello may show
    // why the peer has closed the link.
    let sent = channel.flush().await;
    let theirs = channel.receive(Kind::Hello, HELLO_LEN).await?;
    for ((field, ours), (_, theirs)) in parameters(&ours).zip(parameters(&theirs)) {
        if ours != theirs {
            return Err(ProtocolError::Disagreement {
                field,
                ours,
                theirs,
            });
        }
    }
    sent?;
    // Both parties hash the hellos in the same order: first that of the party with the key.
    let (first, second) = match key {
        Key::Secret(_) => (&ours[..], &theirs[..]),
        Key::OfPeer => (&theirs[..], &ours[..]),
    };
    let session = blake3::Hasher::new_derive_key("transpute forecast v1: session")
        .update(first)
        .update(second)
        .finalize();
    Ok(PartyState {
        channel,
        task,
        shares,
        session: session.into(),
        rng,
    })
}
