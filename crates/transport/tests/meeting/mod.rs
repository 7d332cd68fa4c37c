//! Helpers for two parties that connect over one of several transports.

use std::{sync::Arc, time::Duration};

use transpute_transport::{Identity, Security, auto::AutoOptions};

/// Returns options for machines that are busy with other tests.
pub(crate) fn patient() -> AutoOptions {
    let mut options = AutoOptions::default();
    options.udp_patience = Duration::from_secs(4);
    options.choice_timeout = Duration::from_millis(4500);
    options
}

/// Returns two parties that have pinned each other.
pub(crate) fn pinned() -> (Security, Security) {
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    (Security::tls(a, [of_b]), Security::tls(b, [of_a]))
}
