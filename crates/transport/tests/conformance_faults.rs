//! The conformance suite passes a correct transport that is not part of the crate, and finds the fault in broken ones.

mod toy;

use std::time::Duration;

use toy::{Fault, Toy};
use transpute_transport::conformance::{self, Options, Port};

fn options() -> Options {
    let mut options = Options::default();
    options.port = Port::Other;
    options.payload = 256 * 1024;
    options.max_buffered = 2 << 20;
    // What hangs is to be reported soon; the others finish in milliseconds.
    options.check_timeout = Duration::from_secs(5);
    options
}

async fn failures(fault: Fault) -> Vec<String> {
    match conformance::run(&Toy::new(fault), &options()).await {
        Ok(_) => Vec::new(),
        Err(error) => {
            let failed: Vec<_> = error
                .report
                .failures()
                .map(|check| check.name.clone())
                .collect();
            println!("{error}");
            failed
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_correct_third_party_transport_conforms() {
    assert_eq!(failures(Fault::None).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_is_found() {
    let failed = failures(Fault::FlipsABit).await;
    assert!(failed.contains(&"tls/duplex-bulk".into()), "{failed:?}");
    assert!(failed.contains(&"plaintext/duplex-bulk".into()));
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_does_nothing_is_found() {
    let failed = failures(Fault::IgnoresFlush).await;
    assert!(failed.contains(&"tls/small-writes".into()), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_does_nothing_is_found() {
    let failed = failures(Fault::IgnoresShutdown).await;
    assert!(failed.contains(&"tls/half-close".into()), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_buffer_without_bound_is_found() {
    let expected = ["tls/back-pressure", "plaintext/back-pressure"];
    assert_eq!(failures(Fault::BuffersEverything).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_that_looks_complete_is_found() {
    assert_eq!(failures(Fault::HidesTruncation).await, ["tls/peer-drop"]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_trusts_anyone_is_found() {
    let expected = ["tls/wrong-pin-seen-by-listener"];
    assert_eq!(failures(Fault::ListenerTrustsAnyone).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_trusts_anyone_is_found() {
    let expected = ["tls/wrong-pin-seen-by-connector"];
    assert_eq!(failures(Fault::ConnectorTrustsAnyone).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_missing_check_of_the_mode_is_found() {
    let expected = ["tls/security-mismatch", "plaintext/security-mismatch"];
    assert_eq!(failures(Fault::IgnoresMode).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_statistics_handle_that_keeps_the_link_open_is_found() {
    let expected = ["tls/statistics", "plaintext/statistics"];
    assert_eq!(failures(Fault::StatisticsHoldTheLink).await, expected);
}
