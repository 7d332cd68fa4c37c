//! The transport of several TCP connections passes the conformance suite.

use transpute_transport::{Registry, conformance};

async fn conforms(text: &str, payload: usize) {
    let transport = Registry::with_builtins().get(text).unwrap();
    let mut options = conformance::Options::default();
    options.payload = payload;
    let report = conformance::run(&*transport, &options)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    println!("{report}");
    assert_eq!(report.checks.len(), 28);
}

#[tokio::test]
async fn eight_connections_conform() {
    conforms("tcp-striped", 8 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_numbers_of_connections_conform() {
    for text in [
        "tcp-striped:n=1",
        "tcp-striped:n=3,cc=reno",
        "tcp-striped:n=32",
    ] {
        conforms(text, 1 << 20).await;
    }
}
