//! The computations that a server offers, and the application that provides its inputs.

use std::{fmt, net::SocketAddr, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Program};
use transpute_session::{
    AbortReason, Config, Decline, Field, Inputs, OtChoice, OtPlan, Proposal, Repeat, Role,
    SessionError,
};
use transpute_transport::{Fingerprint, LinkInfo};

use super::{Disconnection, Rejection};
use crate::{Error, Outcome, Party};

/// A computation that peers may propose.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Offered {
    /// The role of the server.
    pub role: Role,
    /// The compiled circuit. Peers propose it by [`Program::digest`].
    pub program: Arc<Program>,
    /// The owner of each input value.
    pub split: InputSplit,
    /// The settings of the runs. Peers must propose the same, except for the batch size. With
    /// [`OtChoice::Direct`], the server declines a proposal that excludes direct transfers.
    pub config: Config,
    /// Maximum number of evaluations in one run.
    pub max_batch: u64,
}

impl Offered {
    /// Offers the computation of `party`, with at most [`Config::batch`] evaluations per run.
    ///
    /// # Errors
    /// Returns [`Error::Split`] if the party's [`garbler_inputs`](Party::garbler_inputs) contain
    /// the number of an input value that the circuit does not have. Returns
    /// [`ConfigError::TooManyForDirect`](transpute_session::ConfigError::TooManyForDirect) if the
    /// party demands direct transfers of more bits than allowed.
    pub fn new(party: &Party) -> Result<Self, Error> {
        let split = party.split()?;
        let (settings, bits) = (party.settings(), split.evaluator_bits() as u64);
        OtPlan::new(settings.ot, settings.base_ot, bits).map_err(SessionError::from)?;
        Ok(Self {
            role: party.role(),
            program: party.program().clone(),
            split,
            max_batch: party.settings().batch,
            config: party.settings().clone(),
        })
    }

    /// Compares a proposal with this computation. Returns the settings of the run, or the reason to
    /// decline it. `role` is the role that the peer leaves to this side.
    pub(super) fn settle(&self, role: Role, proposal: &Proposal) -> Result<Config, Decline> {
        let field = if role != self.role {
            Field::Role
        } else if !(1..=self.max_batch).contains(&proposal.batch) {
            Field::Batch
        } else if proposal.is_prepared {
            Field::Prepared
        } else if self.config.ot == OtChoice::Direct && !proposal.may_be_direct {
            Field::Ot
        } else {
            let mut config = self.config.clone();
            config.batch = proposal.batch;
            return Ok(config);
        };
        Err(Decline::Field(field))
    }
}

/// A connected peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The number of the connection at this server, from 1. Rejected connections have numbers too.
    pub connection: u64,
    /// Describes the link: transport, addresses, and the key of the peer.
    pub link: LinkInfo,
}

impl Peer {
    /// Returns the identifier by which the server counts the connections of a peer.
    #[must_use]
    pub fn id(&self) -> PeerId {
        PeerId::of(&self.link)
    }
}

/// The identifier of a peer: its key if it is authenticated, otherwise the part of its address that
/// it cannot easily change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum PeerId {
    /// The fingerprint of the key that the peer has proved to hold.
    Key(Fingerprint),
    /// The peer's IPv4 address, the /64 network of its IPv6 address, or the text of another kind of
    /// address.
    Address(String),
}

impl PeerId {
    fn of(link: &LinkInfo) -> Self {
        if let Some(key) = link.peer_fingerprint {
            return Self::Key(key);
        }
        Self::Address(match link.peer_address.parse::<SocketAddr>() {
            Ok(address) => match address.ip().to_canonical() {
                std::net::IpAddr::V4(v4) => v4.to_string(),
                std::net::IpAddr::V6(v6) => {
                    let network = v6.to_bits() & !u128::from(u64::MAX);
                    format!("{}/64", std::net::Ipv6Addr::from_bits(network))
                }
            },
            Err(_) => link.peer_address.clone(),
        })
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Address(address) => f.write_str(address),
        }
    }
}

/// A run that a peer proposes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The peer that proposes the run.
    pub peer: Arc<Peer>,
    /// The number of the run, from 1, among the runs of its connection in which the server has the
    /// same role.
    pub number: u32,
    /// The index of the computation in the `offered` argument of
    /// [`Listening::serve_all`](crate::Listening::serve_all).
    pub offered: usize,
    /// The role of the server.
    pub role: Role,
    /// The compiled circuit.
    pub program: Arc<Program>,
    /// Number of evaluations that the peer proposes.
    pub batch: u64,
    pub(super) config: Config,
}

/// An event at a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerEvent<'a> {
    /// A peer connected.
    Connected(&'a Peer),
    /// A peer was rejected.
    Rejected(&'a Peer, Rejection),
    /// A run was declined.
    Declined(&'a Peer, Decline),
    /// A run ended.
    RunEnded(&'a Request, &'a Result<Outcome, Error>),
    /// A connection ended.
    Disconnected(&'a Peer, &'a Disconnection),
}

/// The application behind a server. It provides the server's private inputs.
///
/// Closures `Fn(&Request) -> Result<Bits, Decline>` implement it, for inputs that are available at
/// once. All evaluations of a run then have the same input.
pub trait Service: Send + Sync + 'static {
    /// Returns the server's inputs for a run, or the reason to decline it. Requests of many peers
    /// arrive concurrently. The future may take at most
    /// [`Limits::run_time`](super::Limits::run_time).
    fn input(
        &self,
        request: &Request,
    ) -> impl Future<Output = Result<Box<dyn Inputs>, Decline>> + Send;

    /// Receives an event of the server. This method must not block.
    fn on_event(&self, event: ServerEvent<'_>) {
        let _ = event;
    }
}

impl<F> Service for F
where
    F: Fn(&Request) -> Result<Bits, Decline> + Send + Sync + 'static,
{
    async fn input(&self, request: &Request) -> Result<Box<dyn Inputs>, Decline> {
        Ok(Box::new(Repeat(self(request)?)))
    }
}

/// The reason to decline a run that cannot start because this machine or its application failed.
pub(super) const LOCAL_FAILURE: Decline = Decline::Reason(AbortReason::Local);
