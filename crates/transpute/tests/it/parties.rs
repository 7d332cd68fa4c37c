//! Tests of two parties through the public interface, over loopback.

use std::{net::TcpStream, sync::Arc, time::Duration};

use transpute::{
    Bits, Error, Identity, OutputPolicy, Party, Registry, SessionError, TransportChoice,
    TransportError,
    select::PaperRules,
    transport::{ConnectError, RegistryError, auto::Offer},
};

use crate::adder::{adder, number};

#[tokio::test]
async fn strangers_do_not_end_a_plaintext_listener() {
    let circuit = adder();
    let listening = Party::garbler(&circuit)
        .plaintext()
        .output_to(OutputPolicy::Both)
        .listen("127.0.0.1:0")
        .await
        .unwrap();
    let address = listening.local_address();
    let garbler = tokio::spawn(listening.run(number(40_000)));
    let preamble = b"transpute/1 plaintext \x09auto auto";
    let strangers: Vec<TcpStream> = [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        preamble,
        &[&preamble[..], &[0; 1000]].concat(),
        &[&preamble[..], &[0x04, 92, 0, 0, 0], b"HELO"].concat(),
    ]
    .iter()
    .map(|said| {
        let mut stream = TcpStream::connect(&address).unwrap();
        std::io::Write::write_all(&mut stream, said).unwrap();
        stream
    })
    .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let evaluator = Party::evaluator(&circuit)
        .plaintext()
        .output_to(OutputPolicy::Both)
        .connect(&address)
        .run(number(30_000))
        .await
        .unwrap();
    assert_eq!(evaluator.bits(), number(70_000 % (1 << 16)));
    assert_eq!(garbler.await.unwrap().unwrap().bits(), evaluator.bits());
    assert!(evaluator.report.path.bytes_sent >= evaluator.report.session.bytes_sent);
    drop(strangers);
}

#[tokio::test]
async fn both_need_protection_or_the_wish_to_do_without() {
    let circuit = adder();
    let bare = Party::evaluator(&circuit).connect("127.0.0.1:1");
    assert!(matches!(
        bare.run(number(1)).await,
        Err(Error::Unprotected("identity"))
    ));
    let unpinned = Party::garbler(&circuit).identity(Identity::generate().unwrap());
    assert!(matches!(
        unpinned.listen("127.0.0.1:0").await.err(),
        Some(Error::Unprotected("fingerprint of the peer"))
    ));
}

#[tokio::test]
async fn what_cannot_work_is_said_before_anything_is_sent() {
    let circuit = adder();
    let party = || Party::evaluator(&circuit).plaintext();
    let unknown = party().transport("pigeon").connect("127.0.0.1:1");
    assert!(matches!(
        unknown.run(number(1)).await,
        Err(Error::Transport(TransportError::Registry(
            RegistryError::UnknownTransport { .. }
        )))
    ));
    let foreign = party().garbler_inputs([2]).connect("127.0.0.1:1");
    assert!(matches!(foreign.run(number(1)).await, Err(Error::Split(_))));
    let refused = party()
        .transport(TransportChoice::Auto)
        .connect("127.0.0.1:1");
    let refused = refused.run(number(1)).await;
    assert!(
        matches!(&refused, Err(Error::Transport(error)) if matches!(error.root(), TransportError::Connect(ConnectError::Connect { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_input_of_the_wrong_width_fails_both_sides() {
    let circuit = adder();
    let listening = Party::garbler(&circuit)
        .plaintext()
        .listen("127.0.0.1:0")
        .await
        .unwrap();
    let address = listening.local_address();
    let connecting = Party::evaluator(&circuit).plaintext().connect(address);
    let (garbler, evaluator) = tokio::join!(
        listening.run_batch(Box::new(vec![Bits::from_u128(1, 15)])),
        connecting.run(number(2)),
    );
    assert!(matches!(garbler, Err(Error::Session(_))), "{garbler:?}");
    assert!(
        matches!(evaluator, Err(Error::Session(SessionError::PeerAborted(_)))),
        "{evaluator:?}"
    );
}

/// No peer exists, so a party that waited for one or called it would fail in another way.
#[tokio::test]
async fn an_input_of_the_wrong_width_is_an_error_before_the_peer_is_reached() {
    let circuit = adder();
    let is_input_error = |error: &Error| {
        matches!(error, Error::Session(SessionError::Input { instance: 0, source })
            if source.to_string() == "15 bits given where 16 are due")
    };
    let listening = Party::garbler(&circuit)
        .plaintext()
        .listen("127.0.0.1:0")
        .await
        .unwrap();
    let error = listening.run(Bits::from_u128(1, 15)).await.unwrap_err();
    assert!(is_input_error(&error), "{error:?}");
    let connecting = Party::evaluator(&circuit)
        .plaintext()
        .connect("127.0.0.1:1");
    let error = connecting.run(Bits::from_u128(1, 15)).await.unwrap_err();
    assert!(is_input_error(&error), "{error:?}");
}

/// The party that connects chooses among the transports that the listener offers, and both learn
/// the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_party_that_connects_chooses_among_what_is_offered() {
    let circuit = adder();
    let identity = || Identity::generate().unwrap();
    for (offered, chooser) in [(vec!["quic"], "rule"), (vec!["rudp", "tcp"], "paper")] {
        let (alice, bob) = (identity(), identity());
        let (alice_is, bob_is) = (alice.fingerprint(), bob.fingerprint());
        let listening = Party::garbler(&circuit)
            .identity(alice)
            .peer(bob_is)
            .offer(Offer::of(offered.iter().copied()).unwrap())
            .listen("127.0.0.1:0")
            .await
            .unwrap();
        let mut evaluator = Party::evaluator(&circuit).identity(bob).peer(alice_is);
        if chooser == "paper" {
            evaluator = evaluator.chooser(Arc::new(PaperRules));
        }
        let connecting = evaluator.connect(listening.local_address());
        // If one side fails, the other would wait in vain.
        let (garbler, evaluator) = tokio::try_join!(
            listening.run(number(40_000)),
            connecting.run(number(30_000))
        )
        .unwrap();
        assert_eq!(evaluator.bits(), number(70_000 % (1 << 16)));
        let selection = evaluator.report.selection.unwrap();
        assert_eq!(selection.choice.chooser, chooser);
        assert_eq!(selection.choice.winner().name(), offered[0]);
        for report in [&garbler.report.link, &evaluator.report.link] {
            assert_eq!(report.transport, offered[0]);
        }
        assert!(garbler.report.selection.is_none());
        assert_eq!(garbler.report.reason, "chosen by the party that connected");
        assert_eq!(evaluator.report.reason, selection.choice.reason);
    }
}

#[tokio::test]
async fn only_what_is_registered_can_be_offered_or_chosen() {
    let circuit = adder();
    let mut registry = Registry::new();
    for name in ["tcp", "quic"] {
        let transport = Registry::with_builtins().get(name).unwrap();
        registry.register(transport).unwrap();
    }
    let listening = |offer| {
        Party::garbler(&circuit)
            .plaintext()
            .registry(registry.clone())
            .offer(Offer::of([offer]).unwrap())
            .listen("127.0.0.1:0")
    };
    assert!(matches!(
        listening("rudp").await.err(),
        Some(Error::Transport(TransportError::Registry(
            RegistryError::UnknownTransport { .. }
        )))
    ));
    let listening = listening("tcp").await.unwrap();
    let connecting = Party::evaluator(&circuit)
        .plaintext()
        .registry(registry.clone())
        .connect(listening.local_address());
    let (_, evaluator) = tokio::join!(listening.run(number(1)), connecting.run(number(2)));
    let selection = evaluator.unwrap().report.selection.unwrap();
    let choice = &selection.choice;
    assert_eq!(choice.winner().as_str(), "tcp");
    assert_eq!(choice.ranking().len() + choice.excluded.len(), 2);
}
