//! The TCP transport passes the conformance suite, in TLS and in plaintext.

use transpute_transport::{Tcp, conformance};

#[tokio::test]
async fn tcp_conforms() {
    let report = conformance::run(&Tcp::default(), &conformance::Options::default())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    // 13 checks in plaintext, and the two about pins in TLS.
    assert_eq!(report.checks.len(), 28);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_conforms_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let mut options = conformance::Options::default();
    options.address = "[::1]:0".into();
    options.payload = 1 << 20;
    options.seed = 2;
    if let Err(error) = conformance::run(&Tcp::default(), &options).await {
        panic!("{error}");
    }
}
