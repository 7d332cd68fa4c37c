//! A policy that always picks the same transport.

use transpute_transport::{
    Security, TransportError,
    auto::{self, AutoOptions, Pick, Policy, Progress, Won},
};

/// Picks the same transport whatever the race has learnt.
pub(crate) struct Always(pub(crate) Pick);

impl Policy for Always {
    fn decide(&self, _: &Progress) -> Option<Pick> {
        Some(self.0)
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
