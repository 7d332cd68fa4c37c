//! What a serving party computes, and with which inputs.

use std::{fmt, net::SocketAddr, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Program};
use transpute_session::{
    AbortReason, Config, Decline, Field, Inputs, OtChoice, OtPlan, Proposal, Repeat, Role,
    SessionError,
};
use transpute_transport::{Fingerprint, LinkInfo};

use super::{Departure, Turned};
use crate::{Error, Outcome, Party};

/// A computation that peers may ask for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Offered {
    /// The role of the party that serves.
    pub role: Role,
    /// What is computed. Peers ask for it by [`Program::digest`].
    pub program: Arc<Program>,
    /// Whose the inputs are.
    pub split: InputSplit,
    /// Scheme, who learns the outputs, and all else that peers must propose too, except the batch size. With
    /// [`OtChoice::Direct`] proposals are declined whose oblivious transfers may not be direct.
    pub config: Config,
    /// The most evaluations that a peer may ask for in one run.
    pub max_batch: u64,
}

impl Offered {
    /// Offers what `party` computes, one evaluation a run, or as many as its [`Config::batch`].
    ///
    /// # Errors
    /// [`Error::Split`]; [`ConfigError::TooManyForDirect`](transpute_session::ConfigError::TooManyForDirect) if the party demands direct transfers of more bits than can be direct.
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

    /// Says whether a peer's proposal is one of this computation, where the peer leaves `role` to this side.
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

/// Who is served.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The number of the connection, from 1.
    pub connection: u64,
    /// What the connection runs over, and who is at its other end.
    pub link: LinkInfo,
}

impl Peer {
    /// Returns by what the peer is known, and its connections are counted.
    #[must_use]
    pub fn id(&self) -> PeerId {
        PeerId::of(&self.link)
    }
}

/// By what a peer is known: its key if it proved to hold one, else the part of its address that it can hardly change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum PeerId {
    /// The pinned key.
    Key(Fingerprint),
    /// An IPv4 address, the first half of an IPv6 address, or what else the transport gives for one.
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

/// A run that a peer asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Who asks.
    pub peer: Arc<Peer>,
    /// The number of the run on its connection among those of this role, from 1.
    pub number: u32,
    /// Which of the computations that are offered, by its place in the list.
    pub offered: usize,
    /// The role of this side.
    pub role: Role,
    /// What is computed.
    pub program: Arc<Program>,
    /// Evaluations.
    pub batch: u64,
    pub(super) config: Config,
}

/// Something that happened at a serving party.
#[derive(Debug)]
#[non_exhaustive]
pub enum News<'a> {
    /// A peer is connected.
    Joined(&'a Peer),
    /// A peer was turned away.
    Turned(&'a Peer, Turned),
    /// A run was not done.
    Declined(&'a Peer, Decline),
    /// A run is over.
    Ended(&'a Request, &'a Result<Outcome, Error>),
    /// A connection is over.
    Left(&'a Peer, &'a Departure),
}

/// The application behind a serving party: it gives this party's private inputs.
///
/// A closure `Fn(&Request) -> Result<Bits, Decline>` is one, if the inputs are at hand.
pub trait Service: Send + Sync + 'static {
    /// Returns this party's inputs for a run, or why it should not be. Requests of many peers come at the same time;
    /// this may wait, as long as [`Limits::run_time`](super::Limits::run_time).
    fn input(
        &self,
        request: &Request,
    ) -> impl Future<Output = Result<Box<dyn Inputs>, Decline>> + Send;

    /// Hears what happens. It must not block.
    fn hear(&self, news: News<'_>) {
        let _ = news;
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

/// A run that is given up because of the machine or application here.
pub(super) const OWN_FAULT: Decline = Decline::Reason(AbortReason::Local);
