//! Peers with other keys or other settings.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::harness::{CIPHERTEXT, KEY, KEYS, PLAINTEXT, Party, aes, meet, transpute};

#[test]
fn parties_that_disagree_both_say_so() {
    let garbler = || Party::new("garbler", "add:8").input(0, "dec:1");
    let evaluator = || Party::new("evaluator", "add:8").input(1, "dec:2");
    for (setting, field) in [
        (&["--scheme", "three-halves"][..], "garbling scheme"),
        (&["--batch", "2"], "batch size"),
        (&["--output-to", "both"], "output recipient"),
        (&["--chunk", "1024"], "chunk length"),
        (&["--base-ot", "ml-kem-768"], "base OT"),
        (&["--rekey-period", "2"], "re-key period"),
        (&["--no-output-check"], "output check"),
    ] {
        for party in meet(garbler(), evaluator().and(setting.iter().copied())) {
            party.fails(5, field);
        }
    }
    // A demand of one party is fulfilled unless the other party demands something else.
    let demanding = || garbler().and(["--ot", "iknp"]);
    for party in meet(demanding(), evaluator().and(["--ot", "direct"])) {
        party.fails(5, "oblivious transfer");
    }
    for party in meet(demanding(), evaluator()) {
        party.expect(0);
    }
    let other = Party::new("evaluator", "sub:8").input(1, "dec:2");
    for (party, name) in meet(garbler(), other).into_iter().zip(["add:8", "sub:8"]) {
        let told = party.fails(
            5,
            "; compare the digests that `transpute circuit info` prints",
        );
        let info = transpute(["circuit", "info", "--json", name])
            .expect(0)
            .json();
        let digest = info["program"]["digest"].as_str().unwrap();
        let own = format!("disagree on the circuit: {name} ({digest}) here, ");
        assert!(told.stderr.contains(&own), "{}", told.stderr);
    }
    let all = evaluator()
        .and(["--garbler-inputs", "none"])
        .input(0, "dec:1");
    for party in meet(garbler(), all) {
        party.fails(5, "garbler's input values");
    }
}

#[test]
fn two_garblers_do_not_agree() {
    let listening = Party::new("garbler", "add:8").input(0, "dec:1");
    let connecting = Party::bare("garbler", "add:8")
        .and(["--identity", KEYS.evaluator.path.to_str().unwrap()])
        .and(["--peer", &KEYS.garbler.fingerprint])
        .input(0, "dec:1");
    for party in meet(listening, connecting) {
        party.fails(
            5,
            "role: garbler here, garbler at the peer; one party must be --role garbler",
        );
    }
}

#[test]
fn unknown_peers_are_rejected_and_the_pinned_one_is_accepted() {
    let [garbler, evaluator] = aes();
    let (mut listening, address) = garbler.listen();

    // A peer with another key. It receives a refusal.
    let stranger = |identity: &str, peer: &str| {
        Party::bare("evaluator", "aes128").input(1, PLAINTEXT).and([
            "--identity",
            identity,
            "--peer",
            peer,
        ])
    };
    let key = KEYS.stranger.path.to_str().unwrap();
    stranger(key, &KEYS.garbler.fingerprint)
        .connect(&address)
        .finish()
        .fails(
            4,
            &format!(
                "it must be given our fingerprint, which is {}",
                KEYS.stranger.fingerprint
            ),
        );
    // A peer that pinned another key.
    let key = KEYS.evaluator.path.to_str().unwrap();
    stranger(key, &KEYS.stranger.fingerprint)
        .connect(&address)
        .finish()
        .fails(4, &format!("the peer is {}", KEYS.garbler.fingerprint));
    // A peer without encryption.
    Party::plaintext("evaluator", "aes128")
        .input(1, PLAINTEXT)
        .connect(&address)
        .finish()
        .expect(4);
    // The listener rejects connections of programs that use other protocols.
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        &[0xff; 4096],
    ] {
        let mut socket = TcpStream::connect(&address).unwrap();
        let _ = socket.write_all(garbage);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    // A silent connection that stays open while the right peer connects.
    let _silent = TcpStream::connect(&address).unwrap();

    let evaluator = evaluator.connect(&address).finish().expect(0);
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    // The listener reports rejected connections.
    let first = listening.line("");
    assert!(
        first.starts_with(" WARN rejected a connection from 127.0.0.1:") && !first.contains("=0"),
        "{first}"
    );
    listening.finish().expect(0);
}

/// The garbler uses the default transport, `auto`.
#[test]
fn a_transport_named_on_one_side_is_used_or_both_say_why_not() {
    let [garbler, evaluator] = aes();
    let (mut listening, address) = garbler.listen();
    let udp = evaluator.clone().and(["--transport", "udp"]);
    udp.connect(&address).finish().fails(
        5,
        "this side uses the transport udp and the peer auto (tcp, tcp-striped, quic, rudp): give the same --transport",
    );
    let told = "this side uses the transport auto (tcp, tcp-striped, quic, rudp) and the peer udp";
    // Skip the other lines that the garbler prints, until it reports the refused peer.
    while !listening.line("").contains(told) {}
    let rudp = evaluator.and(["--transport", "rudp"]);
    let evaluator = rudp.connect(&address).finish().expect(0);
    assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
    listening.finish().expect(0);

    // A listener on QUIC has no TCP port.
    let [garbler, evaluator] = aes();
    let (mut listening, address) = garbler.and(["--transport", "quic"]).listen();
    let tcp = evaluator.clone().and(["--transport", "tcp"]);
    tcp.connect(&address)
        .finish()
        .fails(5, "this side uses the transport tcp and the peer quic");
    let rejected = listening.line("");
    assert!(
        rejected.contains("this side uses the transport quic and the peer another one, over TCP"),
        "{rejected}"
    );
    evaluator.connect(&address).finish().expect(0);
    listening.finish().expect(0);
}

#[test]
fn a_transport_named_on_one_side_is_used_in_plaintext_too() {
    let parties = || {
        [
            Party::plaintext("garbler", "aes128").input(0, KEY),
            Party::plaintext("evaluator", "aes128").input(1, PLAINTEXT),
        ]
    };
    for transport in ["tcp", "tcp-striped", "rudp"] {
        for naming in 0..2 {
            let mut parties = parties();
            parties[naming] = parties[naming].clone().and(["--transport", transport]);
            let [listening, connecting] = parties;
            let [garbler, evaluator] = meet(listening, connecting).map(|party| party.expect(0));
            assert_eq!(evaluator.outputs(), [CIPHERTEXT]);
            for party in [garbler, evaluator] {
                assert_eq!(party.json()["transport"], transport);
            }
        }
    }
    // Both sides name a transport, and not the same.
    let [garbler, evaluator] = parties();
    let (mut listening, address) = garbler.and(["--transport", "tcp"]).listen();
    let striped = evaluator.clone().and(["--transport", "tcp-striped"]);
    striped.connect(&address).finish().fails(
        5,
        "this side uses the transport tcp-striped and the peer tcp: give the same --transport",
    );
    let told = "this side uses the transport tcp and the peer tcp-striped";
    while !listening.line("").contains(told) {}
    evaluator.connect(&address).finish().expect(0);
    listening.finish().expect(0);
}

#[test]
fn a_repetition_given_on_one_side_is_named_on_both() {
    let told = "number of runs";
    let remedy = "give the same --repeat on both sides";
    for (garbles, evaluates) in [
        (&["--repeat", "3"][..], &[][..]),
        (&[], &["--repeat", "3"]),
        (&["--repeat", "3", "--pipeline", "2"], &["--repeat", "2"]),
    ] {
        let [garbler, evaluator] = aes();
        for party in meet(
            garbler.and(garbles.iter().copied()),
            evaluator.and(evaluates.iter().copied()),
        ) {
            assert!(party.stderr.contains(told), "{}", party.stderr);
            party.fails(5, remedy);
        }
    }
}

/// A run without `--repeat` is a connection of one run.
#[test]
fn one_repetition_is_the_same_as_none() {
    let [garbler, evaluator] = aes();
    let [garbler, evaluator] = meet(garbler.and(["--repeat", "1"]), evaluator);
    garbler.expect(0);
    assert_eq!(evaluator.expect(0).outputs(), [CIPHERTEXT]);
}

#[test]
fn any_of_several_pinned_peers_may_come() {
    let garbler = Party::new("garbler", "aes128")
        .input(0, KEY)
        .and(["--peer", &KEYS.stranger.fingerprint]);
    let evaluator = Party::bare("evaluator", "aes128")
        .input(1, PLAINTEXT)
        .and(["--json", "--identity", KEYS.stranger.path.to_str().unwrap()])
        .and(["--peer", &KEYS.garbler.fingerprint]);
    let [garbler, _] = meet(garbler, evaluator).map(|party| party.expect(0));
    let json = garbler.json();
    assert_eq!(
        json["peer"]["fingerprint"],
        KEYS.stranger.fingerprint.as_str()
    );
}

#[test]
fn a_listener_in_plaintext_turns_encryption_away() {
    let (listening, address) = Party::plaintext("garbler", "aes128").input(0, KEY).listen();
    let [_, evaluator] = aes();
    evaluator.connect(&address).finish().expect(4);
    let evaluator = Party::plaintext("evaluator", "aes128").input(1, PLAINTEXT);
    evaluator.connect(&address).finish().expect(0);
    listening.finish().expect(0);
}
