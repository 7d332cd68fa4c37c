//! Tests of `auto`: several transports at one address.

#![cfg(unix)]

mod always;
mod choice;
mod conformance;
#[path = "../meeting/mod.rs"]
mod meeting;
mod messages;
mod picked;
mod race;
#[path = "../relay/mod.rs"]
mod relay;
mod replays;

use transpute_transport::auto::AutoListener;

/// Serves a listener that must not accept a link, until the future completes.
async fn beside<T>(listener: &mut AutoListener, future: impl Future<Output = T>) -> T {
    tokio::select! {
        output = future => output,
        accepted = listener.next() => panic!("{accepted:?}"),
    }
}
