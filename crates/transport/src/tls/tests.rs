//! Tests of handshakes in memory, without sockets.

use std::io::Cursor;

use rustls::{ClientConnection, Connection, ServerConnection};

use super::*;

fn connections(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> (Connection, Connection) {
    (
        ClientConnection::new(client, server_name()).unwrap().into(),
        ServerConnection::new(server).unwrap().into(),
    )
}

/// Exchanges records until both sides are idle, or one fails.
fn shake(client: &mut Connection, server: &mut Connection) -> [Option<rustls::Error>; 2] {
    let mut errors = [None, None];
    for _ in 0..10 {
        for side in 0..2 {
            let (from, to) = if side == 0 {
                (&mut *client, &mut *server)
            } else {
                (&mut *server, &mut *client)
            };
            let mut wire = Vec::new();
            while from.wants_write() {
                from.write_tls(&mut wire).unwrap();
            }
            let mut wire = Cursor::new(wire);
            while wire.position() < wire.get_ref().len() as u64 {
                to.read_tls(&mut wire).unwrap();
                if let Err(error) = to.process_new_packets() {
                    errors[1 - side].get_or_insert(error);
                    break;
                }
            }
        }
    }
    errors
}

fn identities() -> (Arc<Identity>, Arc<Identity>) {
    let generate = || Arc::new(Identity::generate().unwrap());
    (generate(), generate())
}

fn pinned(identity: &Arc<Identity>, peers: &[Fingerprint]) -> Security {
    Security::tls(Arc::clone(identity), peers)
}

fn unpinned(identity: &Arc<Identity>) -> Security {
    Security::Unpinned {
        identity: Arc::clone(identity),
    }
}

fn client_of(security: &Security) -> Arc<ClientConfig> {
    client_config(security, &["tcp"], "tcp").unwrap().unwrap()
}

fn server_of(security: &Security) -> Arc<ServerConfig> {
    server_config(security, &["tcp"], "tcp").unwrap().unwrap()
}

/// A client's first flight must not need more than the two packets of 1,200 bytes that QUIC sends
/// at once.
#[test]
fn the_first_flight_with_a_post_quantum_key_share_is_short() {
    let (ours, theirs) = identities();
    let config = client_of(&pinned(&ours, &[theirs.fingerprint()]));
    let mut client = ClientConnection::new(config, server_name()).unwrap();
    let mut hello = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut hello).unwrap();
    }
    // The key share of X25519MLKEM768 alone has 1,216 bytes.
    assert!(
        (1_217..2_200).contains(&hello.len()),
        "{} bytes",
        hello.len()
    );
}

#[test]
fn pinned_peers_meet_with_a_post_quantum_key_agreement() {
    let (ours, theirs) = identities();
    let (mut client, mut server) = connections(
        client_of(&pinned(&ours, &[[0; 32].into(), theirs.fingerprint()])),
        server_of(&pinned(&theirs, &[ours.fingerprint()])),
    );
    let [client_error, server_error] = shake(&mut client, &mut server);
    assert!(client_error.is_none() && server_error.is_none());
    let seen = established(&client, Pinning::Pinned, "tcp").unwrap();
    assert_eq!(seen.peer.unwrap(), theirs.fingerprint());
    assert_eq!(
        seen.cipher.unwrap(),
        "X25519MLKEM768 TLS13_AES_256_GCM_SHA384"
    );
    assert_eq!(
        established(&server, Pinning::Pinned, "tcp").unwrap().peer,
        Some(ours.fingerprint())
    );
}

#[test]
fn each_side_refuses_a_key_that_is_not_pinned() {
    let (ours, theirs) = identities();
    let stranger = Fingerprint::from([7; 32]);

    let (mut client, mut server) = connections(
        client_of(&pinned(&ours, &[stranger])),
        server_of(&pinned(&theirs, &[ours.fingerprint()])),
    );
    let [client_error, server_error] = shake(&mut client, &mut server).map(Option::unwrap);
    assert!(matches!(
        explain(&client_error),
        HandshakeError::WrongPeer { found, expected } if found == theirs.fingerprint() && expected == [stranger]
    ));
    assert!(matches!(
        explain(&server_error),
        HandshakeError::PeerRefusedUs { .. }
    ));
    // The client must not have finished, so nothing that it writes can reach the server.
    assert!(client.is_handshaking());

    let (mut client, mut server) = connections(
        client_of(&pinned(&ours, &[theirs.fingerprint()])),
        server_of(&pinned(&theirs, &[stranger])),
    );
    let [client_error, server_error] = shake(&mut client, &mut server).map(Option::unwrap);
    assert!(matches!(
        explain(&server_error),
        HandshakeError::WrongPeer { found, .. } if found == ours.fingerprint()
    ));
    assert!(matches!(
        explain(&client_error),
        HandshakeError::PeerRefusedUs { .. }
    ));
}

#[test]
fn a_copied_certificate_without_its_key_is_refused() {
    let (ours, theirs) = identities();
    // An attacker presents the public certificate of `ours` but signs with another key.
    let thief = Arc::new(Identity::generate().unwrap());
    let stolen = rustls::sign::CertifiedKey::new(
        ours.certified().cert.clone(),
        Arc::clone(&thief.certified().key),
    );
    let mut config = (*client_of(&pinned(&thief, &[theirs.fingerprint()]))).clone();
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(stolen));
    let (mut client, mut server) = connections(
        Arc::new(config),
        server_of(&pinned(&theirs, &[ours.fingerprint()])),
    );
    let [_, server_error] = shake(&mut client, &mut server);
    assert!(
        matches!(server_error, Some(rustls::Error::InvalidCertificate(_))),
        "{server_error:?}"
    );
    assert!(server.is_handshaking());
}

#[test]
fn a_client_without_certificate_or_protocol_name_is_refused() {
    let (ours, theirs) = identities();
    let server = server_of(&pinned(&theirs, &[ours.fingerprint()]));

    let provider = provider::provider();
    let accepted = Accepted::only(&[theirs.fingerprint()]).unwrap();
    let pins = Pins::new(accepted, &provider);
    let mut anonymous = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(pins)
        .with_no_client_auth();
    anonymous.alpn_protocols = vec![PROTOCOL.into()];
    let (mut client, mut end) = connections(Arc::new(anonymous), Arc::clone(&server));
    let [_, error] = shake(&mut client, &mut end);
    assert!(matches!(
        explain(&error.unwrap()),
        HandshakeError::NotTranspute { .. }
    ));

    for (names, refused_by_library) in [(vec![], false), (vec![b"h2".to_vec()], true)] {
        let mut config = (*client_of(&pinned(&ours, &[theirs.fingerprint()]))).clone();
        config.alpn_protocols = names;
        let (mut client, mut end) = connections(Arc::new(config), Arc::clone(&server));
        let [_, error] = shake(&mut client, &mut end);
        let error = match error {
            Some(error) => {
                assert!(refused_by_library);
                explain(&error)
            }
            None => established(&end, Pinning::Pinned, "tcp").err().unwrap(),
        };
        assert!(matches!(error, HandshakeError::NotTranspute { .. }));
    }
}

#[test]
fn nothing_is_trusted_without_a_pin() {
    let (ours, _) = identities();
    assert!(matches!(
        client_config(&pinned(&ours, &[]), &[], ""),
        Err(HandshakeError::NoPinnedPeer)
    ));
    assert!(matches!(
        server_config(&pinned(&ours, &[]), &[], ""),
        Err(HandshakeError::NoPinnedPeer)
    ));
}

#[test]
fn without_pins_strangers_meet_only_if_both_ask_for_it() {
    let (ours, theirs) = identities();
    let (mut client, mut server) =
        connections(client_of(&unpinned(&ours)), server_of(&unpinned(&theirs)));
    let [client_error, server_error] = shake(&mut client, &mut server);
    assert!(client_error.is_none() && server_error.is_none());
    let seen = established(&client, Pinning::Unpinned, "tcp").unwrap();
    assert_eq!(
        seen.cipher.unwrap(),
        "X25519MLKEM768 TLS13_AES_256_GCM_SHA384"
    );
    // A link without pins is never reported as a link to a pinned peer.
    assert_eq!(seen.peer, None);
    for end in [&client, &server] {
        assert!(established(end, Pinning::Pinned, "tcp").is_err());
    }

    // Each side has the other's key pinned, and still rejects a peer that pins nothing.
    for pinned_client in [true, false] {
        let (client, server) = if pinned_client {
            (
                client_of(&pinned(&ours, &[theirs.fingerprint()])),
                server_of(&unpinned(&theirs)),
            )
        } else {
            (
                client_of(&unpinned(&ours)),
                server_of(&pinned(&theirs, &[ours.fingerprint()])),
            )
        };
        let (mut client, mut server) = connections(client, server);
        for error in shake(&mut client, &mut server) {
            let error = explain(&error.unwrap());
            assert!(
                matches!(error, HandshakeError::NotTranspute { .. }),
                "{error}"
            );
        }
        assert!(client.is_handshaking() && server.is_handshaking());
    }
}

/// The client offers an X25519 key share as well, so the server sends no HelloRetryRequest.
#[cfg(feature = "ml-kem")]
#[test]
fn a_peer_without_ml_kem_gets_x25519_without_a_retry() {
    use rustls::{HandshakeKind, NamedGroup, crypto::ring::kx_group::X25519};

    let (ours, theirs) = identities();
    let without_ml_kem = Arc::new(CryptoProvider {
        kx_groups: vec![X25519],
        ..(*provider::provider()).clone()
    });
    for (provider, group) in [
        (without_ml_kem, NamedGroup::X25519),
        (provider::provider(), NamedGroup::X25519MLKEM768),
    ] {
        let pins = Pins::new(Accepted::only(&[ours.fingerprint()]).unwrap(), &provider);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(pins)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(theirs.certified())));
        config.alpn_protocols = vec![PROTOCOL.into()];
        let (mut client, mut server) = connections(
            client_of(&pinned(&ours, &[theirs.fingerprint()])),
            Arc::new(config),
        );
        assert_eq!(shake(&mut client, &mut server), [None, None]);
        assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full));
        let negotiated = client.negotiated_key_exchange_group().unwrap();
        assert_eq!(negotiated.name(), group);
    }
}
