//! Tests that the transport fulfils its contract, and that its code is the one in the
//! documentation.
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use transpute::{
    Identity, Registry,
    transport::{
        BindError, ConnectError, HandshakeError, Security, Transport, TransportError,
        conformance::{self, ConformanceOptions, Mode, Port},
    },
};

use super::unix::Unix;

#[tokio::test]
async fn it_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ConformanceOptions::default();
    options.address = folder.path().join("socket").display().to_string();
    options.modes = vec![Mode::Tls, Mode::Plaintext];
    options.port = Port::Other;
    let mut registry = Registry::new();
    registry.register(Arc::new(Unix::default())).unwrap();
    for text in ["unix", "unix:buffer=8192"] {
        let transport = registry.get(text).unwrap();
        let report = conformance::run(&*transport, &options)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        assert!(report.checks.len() > 30, "{report}");
    }
}

#[tokio::test]
async fn a_peer_with_another_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket").display().to_string();
    let [a, b, c] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
    let listening = Security::tls(Arc::clone(&a), [b.fingerprint()]);
    let mut listener = Unix::default().listen(&path, &listening).await.unwrap();
    let stranger = Security::tls(Arc::clone(&c), [a.fingerprint()]);
    let friend = Security::tls(Arc::clone(&b), [a.fingerprint()]);
    let connecting = async {
        let mut refused = Unix::default().connect(&path, &stranger).await.unwrap();
        let error = refused.reader_mut().read_u8().await.unwrap_err();
        let error = TransportError::from_io(error);
        assert!(
            matches!(
                error,
                TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })
            ),
            "{error}"
        );
        Unix::default().connect(&path, &friend).await.unwrap()
    };
    let (accepted, connected) = tokio::join!(listener.accept(), connecting);
    let accepted = accepted.unwrap();
    assert_eq!(accepted.info().peer_fingerprint, Some(b.fingerprint()));
    assert_eq!(connected.info().peer_fingerprint, Some(a.fingerprint()));
}

#[tokio::test]
async fn a_path_in_use_and_a_path_of_nobody_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket").display().to_string();
    let unix = Unix::default();
    let nobody = unix.connect(&path, &Security::Plaintext).await;
    assert!(
        matches!(nobody, Err(TransportError::Connect(ConnectError::Connect { address, .. })) if address == path)
    );
    let _first = unix.listen(&path, &Security::Plaintext).await.unwrap();
    let second = unix.listen(&path, &Security::Plaintext).await;
    assert!(
        matches!(second, Err(TransportError::Bind(BindError::Listen { address, .. })) if address == path)
    );
}

#[test]
fn settings_are_checked() {
    let mut registry = Registry::new();
    registry.register(Arc::new(Unix::default())).unwrap();
    for (text, message) in [
        ("unix:buffer=0", "expected bytes from 4096"),
        (
            "unix:mtu=9000",
            "transport unix has no setting \"mtu\"; it has: buffer",
        ),
    ] {
        let error = registry.get(text).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_page_shows_this_code() {
    const PAGE: &str = include_str!("../../docs/bring-your-own-transport.md");
    const SOURCES: [&str; 4] = [
        include_str!("unix.rs"),
        include_str!("tuning.rs"),
        include_str!("main.rs"),
        include_str!("tests.rs"),
    ];
    let flat = |text: &str| -> String {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let sources = SOURCES.map(flat);
    let blocks: Vec<_> = PAGE.split("```rust\n").skip(1).collect();
    assert!(blocks.len() > 5, "only {} blocks", blocks.len());
    for block in blocks {
        let block = flat(block.split("```").next().unwrap_or_default());
        assert!(
            sources.iter().any(|source| source.contains(&block)),
            "the sources do not have this block:\n{block}"
        );
    }
}

#[test]
fn it_is_short() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = include_str!("unix.rs").lines().filter(is_code).count();
    assert!(lines < 80, "{lines} lines");
}
