//! The QUIC transport passes the conformance suite with either driver.

use transpute_transport::{
    Quic, QuicDriver, QuicOptions,
    conformance::{self, Mode, Port},
};

fn options() -> conformance::ConformanceOptions {
    let mut options = conformance::ConformanceOptions::default();
    // QUIC has no plaintext.
    options.modes = vec![Mode::Tls, Mode::Unpinned];
    options.port = Port::Udp;
    options
}

#[tokio::test]
async fn quic_conforms() {
    let report = conformance::run(&Quic::default(), &options())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    // 17 checks of each kind of link, and the two about pins.
    assert_eq!(report.checks.len(), 36);
}

#[tokio::test]
async fn quic_conforms_on_the_runtime_of_its_caller() {
    let mut quic = QuicOptions::default();
    quic.driver = QuicDriver::Caller;
    let mut options = options();
    options.payload = 1 << 20;
    options.seed = 2;
    if let Err(error) = conformance::run(&Quic::new(quic), &options).await {
        panic!("{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_conforms_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let mut options = options();
    options.address = "[::1]:0".into();
    options.payload = 1 << 20;
    options.seed = 3;
    if let Err(error) = conformance::run(&Quic::default(), &options).await {
        panic!("{error}");
    }
}
