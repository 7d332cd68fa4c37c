//! A policy that always chooses the same transport.

use transpute_transport::{
    Registry, Security, TransportError,
    auto::{self, AutoOptions, Pick, Policy, RaceProgress, Won},
};

/// A policy that always chooses the same transport.
pub(crate) struct Always(pub(crate) Pick);

impl Policy for Always {
    fn decide(&self, _: &RaceProgress) -> Option<Pick> {
        Some(self.0.clone())
    }
}

/// Races with a policy that always chooses the same transport.
pub(crate) async fn race_for(
    pick: &str,
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<Won, TransportError> {
    race_among(pick, address, security, options, &Registry::with_builtins()).await
}

/// Races between the transports of a registry with a policy that always chooses the same one.
pub(crate) async fn race_among(
    pick: &str,
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
) -> Result<Won, TransportError> {
    let policy = Always(Pick::from(pick));
    auto::race_among(address, security, options, registry, &policy).await
}
