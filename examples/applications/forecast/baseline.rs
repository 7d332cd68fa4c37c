//! The common parts of the two baseline protocols: connecting, roles and checks.
//!
//! The evaluator is Alice in the paper, who holds the Paillier key. The garbler is Bob.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rand::rngs::StdRng;
use transpute::{
    Identity, Registry, Role, TransportChoice,
    transport::{Link, Security, Transport},
};
use transpute_examples::Place;

use crate::{
    division::{Approach, Division, Quotient, Shares, to_u32},
    fast, handshake, newton,
    paillier::{PublicKey, SecretKey},
    wire::{Channel, Kind, ProtocolError},
};

/// The transport that is used if none is named.
const DEFAULT_TRANSPORT: &str = "tcp";

/// Pause before the next attempt after a connection has failed.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Number of bits that a share has in addition to those of the shared number, so that a random
/// share statistically hides the number.
pub(crate) const SHARE_SLACK: u32 = 64;

/// The parameters of a computation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Task {
    /// The baseline protocol.
    pub(crate) approach: Approach,
    /// The division.
    pub(crate) division: Division,
    /// Size of the Paillier modulus, in bits.
    pub(crate) key_bits: u32,
}

/// The result and costs of a party.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// The quotient.
    pub(crate) quotient: Quotient,
    /// Time from the start of connecting or listening to the established link.
    pub(crate) connect: Duration,
    /// Time from the established link to the quotient.
    pub(crate) online: Duration,
    /// Time to generate the key, before connecting.
    pub(crate) setup: Duration,
    /// Number of bytes that this party sent, and number that it received.
    pub(crate) bytes: [u64; 2],
    /// The name of the transport.
    pub(crate) transport: &'static str,
}

/// The state of a party after the handshake.
pub(crate) struct PartyState {
    /// The channel to the peer.
    pub(crate) channel: Channel,
    /// The parameters of the computation.
    pub(crate) task: Task,
    /// This party's shares.
    pub(crate) shares: Shares,
    /// A value unique to this run, to which oblivious transfers are bound.
    pub(crate) session: [u8; 32],
    /// This party's random number generator.
    pub(crate) rng: StdRng,
}

/// The Paillier key of a party.
pub(crate) enum Key {
    /// The evaluator's secret key.
    Secret(Box<SecretKey>),
    /// The garbler receives the public key from its peer.
    OfPeer,
}

impl Key {
    /// Returns the key of a role. Generates it for the evaluator.
    ///
    /// # Errors
    /// Returns [`ProtocolError::Paillier`] if the size is not supported.
    pub(crate) fn of(role: Role, bits: u32) -> Result<Self, ProtocolError> {
        Ok(match role {
            Role::Evaluator => {
                let key = SecretKey::generate(bits, &mut rand::make_rng::<StdRng>())?;
                Self::Secret(Box::new(key))
            }
            Role::Garbler => {
                crate::paillier::check_bits(bits)?;
                Self::OfPeer
            }
        })
    }
}

/// Runs one party, or both in this process. Returns the results of each.
///
/// # Errors
/// Returns errors of arguments, key files, the connection and the protocol.
pub(crate) async fn divide(
    place: &Place,
    task: Task,
    shares: impl Fn(Role) -> Shares,
) -> Result<Vec<(Role, Finished)>, Box<dyn std::error::Error>> {
    check(task)?;
    let name = match &place.ends.transport {
        TransportChoice::Auto => DEFAULT_TRANSPORT,
        TransportChoice::Named(name) => name,
    };
    let transport = Registry::with_builtins().get(name)?;
    let Some(role) = place.role else {
        return both(&*transport, task, shares).await;
    };
    let ends = &place.ends;
    let (Some(identity), Some(peer)) = (&ends.identity, ends.peer) else {
        return Err("expected --identity and --peer with --role".into());
    };
    let security = Security::tls(Arc::new(Identity::load(identity)?), [peer]);
    let started = Instant::now();
    let key = Key::of(role, task.key_bits)?;
    let setup = started.elapsed();
    let started = Instant::now();
    let link = match (&ends.listen, &ends.connect) {
        (Some(address), None) => {
            let mut listener = transport.listen(address, &security).await?;
            eprintln!("listening on {}", listener.local_address());
            listener.accept().await?
        }
        (None, Some(address)) => {
            let wait = Duration::from_secs(ends.wait);
            connect(&*transport, address, &security, wait).await?
        }
        _ => return Err("expected either --listen or --connect with --role".into()),
    };
    let connect = started.elapsed();
    let finished = run(link, role, task, shares(role), key).await?;
    Ok(vec![(
        role,
        Finished {
            connect,
            setup,
            ..finished
        },
    )])
}

async fn both(
    transport: &dyn Transport,
    task: Task,
    shares: impl Fn(Role) -> Shares,
) -> Result<Vec<(Role, Finished)>, Box<dyn std::error::Error>> {
    let [one, other] = [Identity::generate()?, Identity::generate()?];
    let (one_is, other_is) = (one.fingerprint(), other.fingerprint());
    let setup = Instant::now();
    let key = Key::of(Role::Evaluator, task.key_bits)?;
    let setup = setup.elapsed();
    let started = Instant::now();
    let listening = Security::tls(Arc::new(one), [other_is]);
    let mut listener = transport.listen("127.0.0.1:0", &listening).await?;
    let address = listener.local_address();
    let connecting = Security::tls(Arc::new(other), [one_is]);
    let (accepted, connected) =
        tokio::join!(listener.accept(), transport.connect(&address, &connecting));
    let (accepted, connected) = (accepted?, connected?);
    let connect = started.elapsed();
    let (garbler, evaluator) = tokio::join!(
        run(
            accepted,
            Role::Garbler,
            task,
            shares(Role::Garbler),
            Key::OfPeer
        ),
        run(
            connected,
            Role::Evaluator,
            task,
            shares(Role::Evaluator),
            key
        ),
    );
    Ok(vec![
        (
            Role::Garbler,
            Finished {
                connect,
                ..garbler?
            },
        ),
        (
            Role::Evaluator,
            Finished {
                connect,
                setup,
                ..evaluator?
            },
        ),
    ])
}

async fn connect(
    transport: &dyn Transport,
    address: &str,
    security: &Security,
    wait: Duration,
) -> Result<Link, ProtocolError> {
    let deadline = Instant::now() + wait;
    loop {
        match transport.connect(address, security).await {
            Err(error)
                if matches!(
                    error.root(),
                    transpute::TransportError::Connect(
                        transpute::transport::ConnectError::Connect { .. }
                    )
                ) && Instant::now() + RETRY_PAUSE < deadline =>
            {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            other => return Ok(other?),
        }
    }
}

/// Runs one party over a link.
///
/// # Errors
/// Returns [`ProtocolError`] if the parameters are invalid, or the link or the protocol fails.
pub(crate) async fn run(
    link: Link,
    role: Role,
    task: Task,
    shares: Shares,
    key: Key,
) -> Result<Finished, ProtocolError> {
    check(task)?;
    check_shares(task, &shares)?;
    let transport = link.info().transport;
    let started = Instant::now();
    let runtime = tokio::runtime::Handle::current();
    // The protocol runs on a thread that may block, because its exponentiations would delay the
    // tasks of the link.
    let computing = tokio::task::spawn_blocking(move || {
        runtime.block_on(async {
            let mut state = handshake::exchange(Channel::new(link), task, shares, &key).await?;
            let quotient = match (task.approach, role, key) {
                (Approach::Fast, Role::Evaluator, Key::Secret(key)) => {
                    fast::evaluator(&mut state, &key).await
                }
                (Approach::Newton, Role::Evaluator, Key::Secret(key)) => {
                    newton::evaluator(&mut state, &key).await
                }
                (Approach::Fast, Role::Garbler, Key::OfPeer) => {
                    let key = state.peer_key().await?;
                    fast::garbler(&mut state, &key).await
                }
                (Approach::Newton, Role::Garbler, Key::OfPeer) => {
                    let key = state.peer_key().await?;
                    newton::garbler(&mut state, &key).await
                }
                _ => Err(ProtocolError::Value("a message of the other role")),
            }?;
            let online = started.elapsed();
            let bytes = state.channel.bytes();
            state.channel.close().await?;
            Ok((quotient, online, bytes))
        })
    });
    let (quotient, online, bytes) = (computing.await).unwrap_or(Err(ProtocolError::Session(
        transpute::SessionError::Cancelled,
    )))?;
    Ok(Finished {
        quotient,
        connect: Duration::ZERO,
        online,
        setup: Duration::ZERO,
        bytes,
        transport,
    })
}

/// Checks that the key is long enough for the division.
///
/// # Errors
/// Returns [`ProtocolError::KeyTooShort`] if the key is too short.
pub(crate) fn check(task: Task) -> Result<(), ProtocolError> {
    let needed = match task.approach {
        Approach::Newton => newton::key_bits(&task.division),
        _ => fast::key_bits(&task.division),
    };
    if task.key_bits < needed {
        return Err(ProtocolError::KeyTooShort {
            needed,
            found: task.key_bits,
        });
    }
    Ok(())
}

fn check_shares(task: Task, shares: &Shares) -> Result<(), ProtocolError> {
    let limit = to_u32(task.division.width()) + SHARE_SLACK;
    for share in [&shares.dividend, &shares.divisor] {
        if share.bits() > limit {
            return Err(ProtocolError::ShareTooLong {
                limit,
                found: share.bits(),
            });
        }
    }
    Ok(())
}

impl PartyState {
    /// Receives the peer's public key.
    async fn peer_key(&mut self) -> Result<PublicKey, ProtocolError> {
        let bits = self.task.key_bits;
        let bytes = self.channel.receive(Kind::Key, bits as usize / 8).await?;
        Ok(PublicKey::from_bytes(bits, &bytes)?)
    }
}
