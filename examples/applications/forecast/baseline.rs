//! What the two baseline protocols have in common: the link, and who is who.
//!
//! The evaluator has the role of the papers' Alice, who holds the key, the garbler that of Bob.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rand::rngs::StdRng;
use transpute::{
    Choice, Identity, Registry, Role,
    transport::{Link, Security, Transport},
};
use transpute_examples::Place;

use crate::{
    division::{Approach, Division, Quotient, Shares, to_u32},
    fast, greeting, newton,
    paillier::{PublicKey, SecretKey},
    wire::{Channel, Kind, ProtocolError},
};

/// The transport unless another is asked for.
const TRANSPORT: &str = "tcp";

/// How long to try again while nobody listens yet.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Bits by which shares may be longer than the numbers, so that random ones hide them.
pub(crate) const SHARE_SLACK: u32 = 64;

/// What to compute and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Task {
    /// One of the two baselines.
    pub(crate) approach: Approach,
    /// The division.
    pub(crate) division: Division,
    /// Size of the modulus of the encryption, in bits.
    pub(crate) key_bits: u32,
}

/// What a party has in the end.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// The quotient.
    pub(crate) quotient: Quotient,
    /// From the start of connecting, or of waiting for the peer, until there was a link.
    pub(crate) connect: Duration,
    /// From the link until the quotient was known.
    pub(crate) online: Duration,
    /// To make the key, before connecting.
    pub(crate) setup: Duration,
    /// Bytes sent and received.
    pub(crate) bytes: [u64; 2],
    /// Name of the transport.
    pub(crate) transport: &'static str,
}

/// A party's side of a protocol, with the greeting behind it.
pub(crate) struct Side {
    /// To the peer.
    pub(crate) channel: Channel,
    /// What is computed.
    pub(crate) task: Task,
    /// This party's part of it.
    pub(crate) shares: Shares,
    /// What binds oblivious transfers to this run.
    pub(crate) session: [u8; 32],
    /// This party's source of randomness.
    pub(crate) rng: StdRng,
}

/// The key, as far as a party has it.
pub(crate) enum Key {
    /// The evaluator's.
    Secret(Box<SecretKey>),
    /// The garbler learns it from its peer.
    OfPeer,
}

impl Key {
    /// Makes the key of a role.
    ///
    /// # Errors
    /// [`ProtocolError::Paillier`] for a size that there is not.
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

/// Computes with a peer, or both parties here; returns what each of them learned.
///
/// # Errors
/// Any of a bad combination of arguments, a bad key file, the connection or the protocol.
pub(crate) async fn divide(
    place: &Place,
    task: Task,
    shares: impl Fn(Role) -> Shares,
) -> Result<Vec<(Role, Finished)>, Box<dyn std::error::Error>> {
    check(task)?;
    let name = match &place.ends.transport {
        Choice::Auto => TRANSPORT,
        Choice::Named(name) => name,
    };
    let transport = Registry::with_builtins().get(name)?;
    let Some(role) = place.role else {
        return both(&*transport, task, shares).await;
    };
    let ends = &place.ends;
    let (Some(identity), Some(peer)) = (&ends.identity, ends.peer) else {
        return Err("a party alone needs --identity and --peer".into());
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
        _ => return Err("a party alone needs either --listen or --connect".into()),
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
                if matches!(error.root(), transpute::TransportError::Connect(transpute::transport::ConnectError::Connect { .. }))
                    && Instant::now() + RETRY_PAUSE < deadline =>
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
/// [`ProtocolError`].
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
    // Exponentiations would keep the tasks of the link waiting.
    let computing = tokio::task::spawn_blocking(move || {
        runtime.block_on(async {
            let mut side = greeting::greet(Channel::new(link), task, shares, &key).await?;
            let quotient = match (task.approach, role, key) {
                (Approach::Fast, Role::Evaluator, Key::Secret(key)) => {
                    fast::evaluator(&mut side, &key).await
                }
                (Approach::Newton, Role::Evaluator, Key::Secret(key)) => {
                    newton::evaluator(&mut side, &key).await
                }
                (Approach::Fast, Role::Garbler, Key::OfPeer) => {
                    let key = side.peer_key().await?;
                    fast::garbler(&mut side, &key).await
                }
                (Approach::Newton, Role::Garbler, Key::OfPeer) => {
                    let key = side.peer_key().await?;
                    newton::garbler(&mut side, &key).await
                }
                _ => Err(ProtocolError::Value("work that is not this role's")),
            }?;
            let online = started.elapsed();
            let bytes = side.channel.bytes();
            side.channel.close().await?;
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

/// Checks that the numbers of a division have room under the key.
///
/// # Errors
/// [`ProtocolError::KeyTooShort`].
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

impl Side {
    /// Receives the key that the peer announced.
    async fn peer_key(&mut self) -> Result<PublicKey, ProtocolError> {
        let bits = self.task.key_bits;
        let bytes = self.channel.receive(Kind::Key, bits as usize / 8).await?;
        Ok(PublicKey::from_bytes(bits, &bytes)?)
    }
}
