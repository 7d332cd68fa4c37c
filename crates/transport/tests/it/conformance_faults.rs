//! Tests that the conformance suite accepts a correct transport from outside of the crate, and
//! finds the fault in broken ones.

use std::time::Duration;

use transpute_transport::conformance::{self, ConformanceOptions, Mode, Port};

use crate::toy::{Fault, Toy};

fn options() -> ConformanceOptions {
    let mut options = ConformanceOptions::default();
    options.modes = vec![Mode::Tls, Mode::Unpinned, Mode::Plaintext];
    options.port = Port::Other;
    options.payload = 256 * 1024;
    options.max_buffered = 2 << 20;
    // A hang must be reported soon. The others finish in milliseconds.
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
    let expected = in_every_mode("back-pressure");
    assert_eq!(failures(Fault::BuffersEverything).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_that_looks_complete_is_found() {
    let failed = failures(Fault::HidesTruncation).await;
    let expected = [
        "tls/peer-drop",
        "tls/peer-killed",
        "unpinned/peer-drop",
        "unpinned/peer-killed",
    ];
    assert_eq!(failed, expected);
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
    let expected = in_every_mode("security-mismatch");
    assert_eq!(failures(Fault::IgnoresMode).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_statistics_handle_that_keeps_the_link_open_is_found() {
    let expected = in_every_mode("statistics");
    assert_eq!(failures(Fault::StatisticsHoldTheLink).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_block_that_overtakes_another_is_found() {
    let failed = failures(Fault::SwapsTwoBlocks).await;
    for mode in ["tls", "unpinned", "plaintext"] {
        assert!(
            failed.contains(&format!("{mode}/duplex-bulk")),
            "{failed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn too_few_links_at_once_are_found() {
    assert_eq!(failures(Fault::FewLinks).await, in_every_mode("many-links"));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_when_its_sender_leaves_is_found() {
    let failed = failures(Fault::ForgetsOnDrop).await;
    for check in in_every_mode("graceful-close") {
        assert!(failed.contains(&check), "{failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_writer_that_looks_shut_down_is_found() {
    let failed = failures(Fault::DroppedWriterEnds).await;
    for check in in_every_mode("dropped-half") {
        assert!(failed.contains(&check), "{failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_that_spreads_is_found() {
    let failed = failures(Fault::StallSpreads).await;
    for check in in_every_mode("peer-stalled") {
        assert!(failed.contains(&check), "{failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_cut_half_way_that_looks_complete_is_found() {
    let expected = ["tls/peer-killed", "unpinned/peer-killed"];
    assert_eq!(failures(Fault::HidesLateTruncation).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_link_with_pins_to_one_without_is_found() {
    let expected = ["tls/security-mismatch", "unpinned/security-mismatch"];
    assert_eq!(failures(Fault::IgnoresPinning).await, expected);
}

fn in_every_mode(check: &str) -> Vec<String> {
    ["tls", "unpinned", "plaintext"]
        .map(|mode| format!("{mode}/{check}"))
        .into()
}
