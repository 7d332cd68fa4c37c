//! The setup of tests: two servers in this process, and keys of companies.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle};
use transpute::{
    Identity, Role, TransportChoice,
    transport::{Link, Security},
};
use zeroize::Zeroizing;

use crate::{
    company::{Company, RoundConfig, ServerAddress},
    failure::Failure,
    round::{Members, RoundId},
    server::{Report, Server, ServerConfig, Timeouts},
    statistics::Statistics,
    transports,
    wire::{Message, Upload, UploadId, receive, send},
};

/// The name of the round.
const ROUND: &str = "setup";

/// A time limit that no test reaches.
pub(super) const LONG: Duration = Duration::from_secs(300);

/// The result of a company.
pub(super) type CompanyResult = Result<Statistics, Failure>;

pub(super) struct Setup {
    pub(super) round_config: RoundConfig,
    pub(super) round: RoundId,
    identities: Vec<Option<Identity>>,
    servers: [JoinHandle<Result<Report, Failure>>; 2],
}

impl Setup {
    /// Starts both servers for this number of companies.
    pub(super) async fn new(listed: usize, min_companies: Option<usize>, limits: Timeouts) -> Self {
        let identities: Vec<_> = (0..listed).map(|_| Identity::generate().unwrap()).collect();
        let members = Members::new(identities.iter().map(Identity::fingerprint)).unwrap();
        let keys = || Arc::new(Identity::generate().unwrap());
        let (garbler, evaluator) = (keys(), keys());
        let plan = plan(&members, min_companies, limits);
        let first = Server::bind(plan(Role::Garbler, &garbler, &evaluator))
            .await
            .unwrap();
        let second = Server::bind(ServerConfig {
            garbler: Some(first.address()),
            between: first.between().unwrap(),
            ..plan(Role::Evaluator, &evaluator, &garbler)
        })
        .await
        .unwrap();
        let place = |server: &Server, identity: &Identity| ServerAddress {
            address: server.address(),
            fingerprint: identity.fingerprint(),
        };
        let round_config = RoundConfig {
            round: ROUND.into(),
            garbler: place(&first, &garbler),
            evaluator: place(&second, &evaluator),
            transport: transports::named("tcp").unwrap(),
            timeout: LONG,
        };
        let (garbler, evaluator) = (garbler.fingerprint(), evaluator.fingerprint());
        Self {
            round: RoundId::new(ROUND, &garbler, &evaluator).unwrap(),
            round_config,
            identities: identities.into_iter().map(Some).collect(),
            servers: [first, second].map(|server| tokio::spawn(server.run())),
        }
    }

    /// Removes the key of a company from the setup and returns it.
    pub(super) fn key(&mut self, number: usize) -> Identity {
        self.identities[number].take().unwrap()
    }

    /// Starts an honest company in a task. Returns the handle of the task.
    pub(super) fn honest(&mut self, number: usize, figure: u32) -> JoinHandle<CompanyResult> {
        let company = Company::new(self.key(number), figure);
        let round_config = self.round_config.clone();
        tokio::spawn(async move {
            let (accepted, _) = mpsc::unbounded_channel();
            let (statistics, links) = company.take_part(&round_config, accepted).await?;
            links.close().await;
            Ok(statistics)
        })
    }

    /// Connects as a company to the server with this role. The caller sends the messages.
    pub(super) async fn link(&self, identity: &Arc<Identity>, role: Role) -> Link {
        let place = match role {
            Role::Garbler => &self.round_config.garbler,
            Role::Evaluator => &self.round_config.evaluator,
        };
        let security = Security::tls(identity.clone(), [place.fingerprint]);
        let transport = &self.round_config.transport;
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

    /// Connects as a company and sends a message. Returns the server's answer and the connection.
    pub(super) async fn send(
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

    /// Waits until both servers have ended. Returns their results, the garbler's first.
    pub(super) async fn end(self) -> [Result<Report, Failure>; 2] {
        let [garbler, evaluator] = self.servers;
        [garbler.await.unwrap(), evaluator.await.unwrap()]
    }
}

/// Returns the description of a link between test parties.
fn info() -> transpute::transport::LinkInfo {
    let mut info = transpute::transport::LinkInfo::new("tcp", "", "");
    info.encrypted = true;
    info
}

/// Returns a function that creates configurations of servers for these companies.
pub(super) fn plan(
    members: &Members,
    min_companies: Option<usize>,
    limits: Timeouts,
) -> impl Fn(Role, &Arc<Identity>, &Arc<Identity>) -> ServerConfig {
    move |role, own, other| ServerConfig {
        role,
        round: ROUND.into(),
        members: members.clone(),
        min_companies,
        identity: own.clone(),
        other: other.fingerprint(),
        listen: "127.0.0.1:0".into(),
        between: "127.0.0.1:0".into(),
        garbler: None,
        transport: "tcp".into(),
        computation: TransportChoice::Named("tcp".into()),
        limits,
    }
}

/// Returns time limits with this deadline.
pub(super) fn limits(deadline: Duration) -> Timeouts {
    Timeouts {
        deadline,
        upload: LONG,
        results: Duration::from_secs(1),
    }
}
