//! The transport of several TCP connections passes the conformance suite.

use transpute_transport::{
    Registry,
    conformance::{self, Mode},
};

async fn conforms(text: &str, payload: usize, links: usize) {
    let transport = Registry::with_builtins().get(text).unwrap();
    let mut options = conformance::ConformanceOptions::default();
    options.modes = vec![Mode::Tls, Mode::Unpinned, Mode::Plaintext];
    options.payload = payload;
    options.links = links;
    let report = conformance::run(&*transport, &options)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    println!("{report}");
    assert_eq!(report.checks.len(), 53);
}

#[tokio::test]
async fn eight_connections_conform() {
    conforms("tcp-striped", 8 << 20, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_numbers_of_connections_conform() {
    for (text, links) in [
        ("tcp-striped:n=1", 16),
        ("tcp-striped:n=3,cc=reno", 16),
        // A listener runs 128 handshakes at once.
        ("tcp-striped:n=32", 4),
    ] {
        conforms(text, 1 << 20, links).await;
    }
}
