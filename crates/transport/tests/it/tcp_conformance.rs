//! The TCP transport passes the conformance suite, in TLS with and without pins and in plaintext.

use transpute_transport::{
    Tcp,
    conformance::{self, Mode},
};

#[tokio::test]
async fn tcp_conforms() {
    let mut options = conformance::ConformanceOptions::default();
    options.modes = vec![Mode::Tls, Mode::Unpinned, Mode::Plaintext];
    let report = conformance::run(&Tcp::default(), &options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    // 17 checks of each of the three kinds of link, and two checks of pinned keys.
    assert_eq!(report.checks.len(), 53);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_conforms_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let mut options = conformance::ConformanceOptions::default();
    options.address = "[::1]:0".into();
    options.payload = 1 << 20;
    options.seed = 2;
    if let Err(error) = conformance::run(&Tcp::default(), &options).await {
        panic!("{error}");
    }
}
