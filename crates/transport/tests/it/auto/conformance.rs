//! Every transport that `auto` chooses passes the conformance suite, while all others are tried
//! too.

use transpute_transport::conformance::{self, Mode, Port};

use super::picked::Picked;

async fn conforms(text: &'static str, modes: &[Mode], port: Port, seed: u64) {
    let mut options = conformance::ConformanceOptions::default();
    options.modes = modes.to_vec();
    options.port = port;
    options.payload = 1 << 20;
    options.seed = seed;
    let transport = Picked(text);
    if let Err(error) = conformance::run(&transport, &options).await {
        panic!("{text}: {error}");
    }
}

const ALL: [Mode; 3] = [Mode::Tls, Mode::Unpinned, Mode::Plaintext];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_conforms_when_picked() {
    conforms("tcp", &ALL, Port::Tcp, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripes_conform_when_picked() {
    conforms("tcp-striped:n=3", &ALL, Port::Tcp, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_conforms_when_picked() {
    conforms("quic", &[Mode::Tls, Mode::Unpinned], Port::Udp, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rudp_conforms_when_picked() {
    conforms("rudp", &ALL, Port::Udp, 4).await;
}
