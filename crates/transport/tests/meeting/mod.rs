//! Two parties that connect over one of several transports, for all tests of `auto`.

#![allow(dead_code, reason = "no test uses all of it")]

use std::{sync::Arc, time::Duration};

use transpute_transport::{
    Identity, Security, TransportError,
    auto::{self, AutoListener, AutoOptions, Decision, Pick, Policy, Progress, Won},
};

/// Options for machines that are busy with other tests.
pub(crate) fn patient() -> AutoOptions {
    let mut options = AutoOptions::default();
    options.udp_patience = Duration::from_secs(4);
    options.choice_timeout = Duration::from_millis(4500);
    options
}

/// Two parties that have pinned each other.
pub(crate) fn pinned() -> (Security, Security) {
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    (Security::tls(a, [of_b]), Security::tls(b, [of_a]))
}

/// Picks the same transport whatever the race has learnt.
pub(crate) struct Always(pub(crate) Pick);

impl Policy for Always {
    fn decide(&self, _: &Progress) -> Decision {
        Decision::Pick(self.0)
    }
}

/// Races with a policy that always picks the same transport.
pub(crate) async fn race_for(
    pick: &str,
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<Won, TransportError> {
    let policy = Always(pick.parse().unwrap());
    auto::race(address, security, options, &policy).await
}

/// Serves a listener that is not to accept a link until the future is done.
pub(crate) async fn beside<T>(listener: &mut AutoListener, future: impl Future<Output = T>) -> T {
    tokio::select! {
        output = future => output,
        accepted = listener.next() => panic!("{accepted:?}"),
    }
}
