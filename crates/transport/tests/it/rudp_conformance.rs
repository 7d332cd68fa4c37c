//! The reliable-UDP transport passes the conformance suite.

use transpute_transport::{
    Registry, Rudp,
    conformance::{self, Mode, Port},
};

#[tokio::test]
async fn rudp_conforms() {
    let mut options = conformance::ConformanceOptions::default();
    options.modes = vec![Mode::Tls, Mode::Unpinned, Mode::Plaintext];
    options.port = Port::Udp;
    let report = conformance::run(&Rudp::default(), &options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    assert_eq!(report.checks.len(), 53);
}

/// The suite passes with other rate controllers and without the probe train.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rudp_conforms_with_other_settings() {
    let mut options = conformance::ConformanceOptions::default();
    options.port = Port::Udp;
    options.payload = 1 << 20;
    let registry = Registry::with_builtins();
    for (seed, text) in (2..).zip([
        "rudp:probe=off,fec=off",
        #[cfg(feature = "sabul")]
        "rudp:cc=sabul",
        "rudp:cc=fixed,rate=1g",
    ]) {
        options.seed = seed;
        let rudp = registry.get(text).unwrap();
        if let Err(error) = conformance::run(&*rudp, &options).await {
            panic!("{text}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rudp_conforms_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let mut options = conformance::ConformanceOptions::default();
    options.address = "[::1]:0".into();
    options.port = Port::Udp;
    options.payload = 1 << 20;
    options.seed = 5;
    if let Err(error) = conformance::run(&Rudp::default(), &options).await {
        panic!("{error}");
    }
}
