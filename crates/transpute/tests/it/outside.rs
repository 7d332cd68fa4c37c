//! Tests a transport outside of the workspace's crates: `auto` chooses it with TLS, and `probe` and
//! `plan` list it. A test of `examples/own_transport` covers its conformance with TLS.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use tokio::net::{TcpListener, TcpStream};
use transpute::{
    Bits, Builder, Identity, OutputPolicy, Party, Registry, UInt,
    auto::Auto,
    select::{Candidate, Chooser, ModelChooser, PathEstimate, Prediction, Ranked, Workload},
    transport::{
        BindError, ConnectError, Link, Listener, Profile, Security, Transport, TransportError,
        auto::Offer,
        secure::{self, Handshakes, Stream},
    },
};

const NAME: &str = "mine";

/// TCP sockets without any options, as another author may write it.
struct Mine;

#[async_trait]
impl Transport for Mine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "a transport of a test"
    }

    fn profile(&self) -> Option<Profile> {
        Some(Profile::default())
    }

    async fn listen(&self, at: &str, s: &Security) -> Result<Box<dyn Listener>, TransportError> {
        let (address, handshakes) = (at.to_owned(), Handshakes::new(s)?);
        match TcpListener::bind(at).await {
            Ok(socket) => Ok(Box::new(Listening(socket, handshakes))),
            Err(source) => Err(TransportError::Bind(BindError::Listen { address, source })),
        }
    }

    async fn connect(&self, to: &str, security: &Security) -> Result<Link, TransportError> {
        let address = to.to_owned();
        let stream = TcpStream::connect(to).await;
        let stream = stream.map_err(|source| ConnectError::Connect { address, source })?;
        let about = Stream::new(NAME, "here", to);
        secure::connect(stream, security, about).await
    }
}

struct Listening(TcpListener, Handshakes);

#[async_trait]
impl Listener for Listening {
    fn local_address(&self) -> String {
        let address: Option<SocketAddr> = self.0.local_addr().ok();
        address.map(|address| address.to_string()).unwrap()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        let (Self(socket, handshakes), address) = (&mut *self, "mine".to_owned());
        let socket = &*socket;
        let next = || async {
            let (stream, peer) = socket.accept().await.map_err(|source| {
                let address = address.clone();
                TransportError::Bind(BindError::Accept { address, source })
            })?;
            let mut about = Stream::new(NAME, "here", peer.to_string());
            about.peer_ip = Some(peer.ip());
            Ok((stream, about))
        };
        handshakes.next(next).await
    }
}

fn registry() -> Registry {
    let mut registry = transpute::auto::registry();
    registry.register(Arc::new(Mine)).unwrap();
    registry
}

/// Prefers the transport of this file.
#[derive(Debug)]
struct Preferring;

impl Chooser for Preferring {
    fn name(&self) -> &str {
        "preferring"
    }

    fn score(&self, _: &PathEstimate, _: &Workload, it: &Candidate, _: &Prediction) -> f64 {
        f64::from(u8::from(it.spec.name() != NAME))
    }

    fn reason(&self, _: &PathEstimate, _: &Workload, _: &[Ranked]) -> String {
        "it is mine".to_owned()
    }
}

fn pinned() -> [Security; 2] {
    let [a, b] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
    let (a_is, b_is) = (a.fingerprint(), b.fingerprint());
    [Security::tls(a, [b_is]), Security::tls(b, [a_is])]
}

#[tokio::test]
async fn auto_picks_it_between_two_parties() {
    let circuit = Builder::build(|b| {
        let ours = b.input::<UInt<8>>();
        let theirs = b.input::<UInt<8>>();
        b.output(ours.gt(&theirs));
    })
    .unwrap();
    let [a, b] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
    let party = |party: Party, ours: &Arc<Identity>, theirs: &Identity| {
        party
            .registry(registry())
            .chooser(Arc::new(Preferring))
            .identity(Arc::clone(ours))
            .peer(theirs.fingerprint())
            .output_to(OutputPolicy::Both)
    };
    let garbler = party(Party::garbler(&circuit), &a, &b);
    let garbler = garbler.listen("127.0.0.1:0").await.unwrap();
    let evaluator = party(Party::evaluator(&circuit), &b, &a).connect(garbler.local_address());
    let (garbled, evaluated) = tokio::join!(
        garbler.run(Bits::from_u128(5, 8)),
        evaluator.run(Bits::from_u128(4, 8)),
    );
    for (results, peer) in [(garbled.unwrap(), &b), (evaluated.unwrap(), &a)] {
        assert_eq!(results.bits().to_string(), "1");
        let link = &results.report.link;
        assert_eq!((link.transport, link.encrypted), (NAME, true));
        assert_eq!(link.peer_fingerprint, Some(peer.fingerprint()));
    }
}

#[tokio::test]
async fn auto_uses_it_where_nothing_else_is_offered() {
    let [listening, connecting] = pinned();
    let mut auto = Auto::default();
    auto.registry = registry();
    auto.offer = Offer::among(&auto.registry, [NAME]).unwrap();
    let mut listener = auto.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let (accepted, connected) =
        tokio::join!(listener.accept(), auto.connect(&address, &connecting));
    assert_eq!(accepted.unwrap().info().transport, NAME);
    assert_eq!(connected.unwrap().info().transport, NAME);
}

#[tokio::test]
async fn a_peer_that_does_not_know_it_uses_another() {
    let [listening, connecting] = pinned();
    let mut knows = Auto::default();
    knows.offer = Offer::of_registry(&registry());
    knows.registry = registry();
    knows.chooser = Arc::new(Preferring);
    for (listens, connects) in [(&knows, &Auto::default()), (&Auto::default(), &knows)] {
        let mut listener = listens.listen("127.0.0.1:0", &listening).await.unwrap();
        let address = listener.local_address();
        let (accepted, connected) =
            tokio::join!(listener.accept(), connects.connect(&address, &connecting));
        assert_ne!(accepted.unwrap().info().transport, NAME);
        assert_ne!(connected.unwrap().info().transport, NAME);
    }
}

#[tokio::test]
async fn a_probe_tries_it() {
    let [listening, connecting] = pinned();
    let mut auto = Auto::default();
    auto.offer = Offer::of_registry(&registry());
    auto.registry = registry();
    let mut listener = auto.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let accepting = tokio::spawn(async move { listener.accept().await });
    let probed = auto.probe(&address, &connecting).await.unwrap();
    let mine = probed.candidates.iter().find(|it| it.spec.name() == NAME);
    assert_eq!(mine.unwrap().unavailable, None);
    accepting.abort();
}

#[test]
fn a_plan_predicts_it_with_a_wide_interval() {
    let path = PathEstimate::of_rtt(0.05).unwrap();
    let work = Workload::transfer(transpute::select::End::Listener, 1_000_000);
    let candidates = Candidate::all(&registry());
    let choice = ModelChooser::default().choose(&path, &work, &candidates);
    let choice = choice.unwrap();
    let find = |name| {
        choice
            .ranking()
            .iter()
            .find(|it| it.transport.name() == name)
    };
    let (mine, tcp) = (
        find(NAME).unwrap().prediction,
        find("tcp").unwrap().prediction,
    );
    assert!(mine.sigma > tcp.sigma, "{} {}", mine.sigma, tcp.sigma);
    assert!((0.5..2.0).contains(&(mine.seconds / tcp.seconds)));
}
