//! Two servers of this process, and keys of companies.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle};
use transpute::{
    Choice, Identity, Role,
    transport::{Link, Security},
};
use zeroize::Zeroizing;

use crate::{
    company::{Company, Place, Venue},
    failure::Failure,
    round::{Members, RoundId},
    server::{Limits, Plan, Report, Server},
    statistics::Statistics,
    transports,
    wire::{Message, Upload, UploadId, receive, send},
};

/// The name of the round.
const ROUND: &str = "stage";

/// Longer than any test takes.
pub(super) const LONG: Duration = Duration::from_secs(300);

/// What companies come to in the end.
pub(super) type Learnt = Result<Statistics, Failure>;

pub(super) struct Stage {
    pub(super) venue: Venue,
    pub(super) round: RoundId,
    identities: Vec<Option<Identity>>,
    servers: [JoinHandle<Result<Report, Failure>>; 2],
}

impl Stage {
    /// Starts both servers for so many companies.
    pub(super) async fn new(listed: usize, least: Option<usize>, limits: Limits) -> Self {
        let identities: Vec<_> = (0..listed).map(|_| Identity::generate().unwrap()).collect();
        let members = Members::new(identities.iter().map(Identity::fingerprint)).unwrap();
        let keys = || Arc::new(Identity::generate().unwrap());
        let (garbler, evaluator) = (keys(), keys());
        let plan = plan(&members, least, limits);
        let first = Server::bind(plan(Role::Garbler, &garbler, &evaluator))
            .await
            .unwrap();
        let second = Server::bind(Plan {
            garbler: Some(first.address()),
            between: first.between().unwrap(),
            ..plan(Role::Evaluator, &evaluator, &garbler)
        })
        .await
        .unwrap();
        let place = |server: &Server, identity: &Identity| Place {
            address: server.address(),
            fingerprint: identity.fingerprint(),
        };
        let venue = Venue {
            round: ROUND.into(),
            garbler: place(&first, &garbler),
            evaluator: place(&second, &evaluator),
            transport: transports::named("tcp").unwrap(),
            patience: LONG,
        };
        let (garbler, evaluator) = (garbler.fingerprint(), evaluator.fingerprint());
        Self {
            round: RoundId::new(ROUND, &garbler, &evaluator).unwrap(),
            venue,
            identities: identities.into_iter().map(Some).collect(),
            servers: [first, second].map(|server| tokio::spawn(server.run())),
        }
    }

    /// Takes the key of a company.
    pub(super) fn key(&mut self, number: usize) -> Identity {
        self.identities[number].take().unwrap()
    }

    /// Has a company take part.
    pub(super) fn honest(&mut self, number: usize, figure: u32) -> JoinHandle<Learnt> {
        let company = Company::new(self.key(number), figure);
        let venue = self.venue.clone();
        tokio::spawn(async move {
            let (accepted, _) = mpsc::unbounded_channel();
            let (statistics, parting) = company.take_part(&venue, accepted).await?;
            parting.say_goodbye().await;
            Ok(statistics)
        })
    }

    /// Connects a company to a server, for it to do as it likes.
    pub(super) async fn link(&self, identity: &Arc<Identity>, role: Role) -> Link {
        let place = match role {
            Role::Garbler => &self.venue.garbler,
            Role::Evaluator => &self.venue.evaluator,
        };
        let security = Security::tls(identity.clone(), [place.fingerprint]);
        let transport = &self.venue.transport;
        transport.connect(&place.address, &security).await.unwrap()
    }

    /// Returns an upload for this round.
    pub(super) fn upload(&self, id: UploadId, share: u32) -> Upload {
        Upload {
            round: self.round,
            id,
            bits: 32,
            share: Zeroizing::new(share),
        }
    }

    /// Sends a message as a company, and returns the answer with the link.
    pub(super) async fn say(
        &self,
        identity: &Arc<Identity>,
        role: Role,
        message: Message,
    ) -> (Message, Link) {
        let mut link = self.link(identity, role).await;
        let (reader, mut writer) = link.into_parts();
        send(&mut writer, &message).await.unwrap();
        link = Link::new(reader, writer, info(), None);
        let answer = receive(link.reader_mut(), "an answer").await.unwrap();
        (answer, link)
    }

    /// Waits for both servers.
    pub(super) async fn end(self) -> [Result<Report, Failure>; 2] {
        let [garbler, evaluator] = self.servers;
        [garbler.await.unwrap(), evaluator.await.unwrap()]
    }
}

/// What tests know of a link.
fn info() -> transpute::transport::LinkInfo {
    transpute::transport::LinkInfo {
        transport: "tcp",
        local_address: String::new(),
        peer_address: String::new(),
        peer_fingerprint: None,
        encrypted: true,
        cipher: None,
        timings: Default::default(),
    }
}

/// Makes plans of servers for these companies.
pub(super) fn plan(
    members: &Members,
    least: Option<usize>,
    limits: Limits,
) -> impl Fn(Role, &Arc<Identity>, &Arc<Identity>) -> Plan {
    move |role, own, other| Plan {
        role,
        round: ROUND.into(),
        members: members.clone(),
        least,
        identity: own.clone(),
        other: other.fingerprint(),
        listen: "127.0.0.1:0".into(),
        between: "127.0.0.1:0".into(),
        garbler: None,
        transport: "tcp".into(),
        computation: Choice::Named("tcp".into()),
        limits,
    }
}

/// Limits for tests in which everybody comes, and for such in which somebody does not.
pub(super) fn limits(deadline: Duration) -> Limits {
    Limits {
        deadline,
        first_words: LONG,
        linger: Duration::from_secs(1),
    }
}
