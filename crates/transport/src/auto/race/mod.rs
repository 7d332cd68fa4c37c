//! The connecting end of `auto`. It opens all connections at once. The connection that the policy
//! chooses becomes the link.

mod attempts;

use std::sync::Arc;

use self::attempts::Race;
use super::{AutoOptions, Pick, Policy, RaceProgress};
use crate::{Link, Registry, Security, TransportError};

/// The result of a successful race.
#[derive(Debug)]
#[non_exhaustive]
pub struct Won {
    /// The link.
    pub link: Link,
    /// The progress of the race at the time of the choice.
    pub progress: RaceProgress,
    /// The transport that was chosen.
    pub pick: Pick,
    /// Earlier choices of the policy whose connections failed, with the error messages.
    pub failed: Vec<(Pick, String)>,
}

/// Connects to `host:port` over several transports at once. The connection of the transport that
/// the policy chooses becomes the link.
///
/// The choice costs no round trip: it is sent before the first bytes of the link, and the first
/// read checks the listener's answer. The first read fails if the listener refuses the choice or
/// rejects this end's identity. The other connections are closed.
///
/// # Errors
/// Returns [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer). Returns
/// [`HandshakeError::PeerRefusedUs`](crate::HandshakeError::PeerRefusedUs) if the listener rejects
/// this end's identity during the race. Returns [`ConnectError::NotUp`](crate::ConnectError::NotUp)
/// if no connection was established or stayed established. Returns
/// [`ConnectError::NotOffered`](crate::ConnectError::NotOffered) if the listener offers no
/// transport that this end supports.
pub async fn race(
    address: &str,
    security: &Security,
    options: AutoOptions,
    policy: &dyn Policy,
) -> Result<Won, TransportError> {
    race_among(
        address,
        security,
        options,
        &Registry::with_builtins(),
        policy,
    )
    .await
}

/// Connects like [`race()`], over the transports of a registry.
///
/// # Errors
/// See [`race()`].
pub async fn race_among(
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
    policy: &dyn Policy,
) -> Result<Won, TransportError> {
    let mut race = Race::begin(address, security, options, registry)?;
    let mut failed = Vec::new();
    let mut wanted: Option<Pick> = None;
    race.changed().await;
    loop {
        if let Some(pick) = wanted.take()
            && let Some(error) = race.progress.stage(pick.transport()).error()
        {
            failed.push((pick, error.root().to_string()));
        }
        if let Some(refusal) = race.refusal() {
            return Err(refusal);
        }
        race.progress.elapsed = race.started.elapsed();
        let pick = match policy.decide(&race.progress) {
            Some(pick) if race.progress.stage(pick.transport()).up().is_some() => pick,
            pick => {
                wanted = pick.filter(|it| race.progress.stage(it.transport()).is_pending());
                let is_settled = race.stream().is_none_or(|stage| !stage.is_pending());
                if is_settled && race.udp_due.is_some() {
                    // TCP is established or has failed, and the policy has not decided. So start
                    // the delayed UDP handshakes now.
                    race.begin_udp();
                }
                if race.changed().await {
                    continue;
                }
                race.first_up().ok_or_else(|| race.failure())?
            }
        };
        match race.take(&pick).await {
            Ok(link) => {
                return Ok(Won {
                    link,
                    progress: race.progress,
                    pick,
                    failed,
                });
            }
            Err(error) => {
                tracing::warn!(transport = %pick, %error, "the transport that was picked failed");
                failed.push((pick.clone(), error.to_string()));
                if let Some(index) = race.find(pick.transport()) {
                    race.end(index, Some(&Arc::new(error)));
                }
            }
        }
    }
}

/// Connects to `host:port` over several transports at once, waits until each connection has
/// measured the path or failed, and closes all connections.
///
/// A probe does not connect to a listener that uses one transport without `auto`, because the
/// listener would take the connection for a link. Unlike a race, a probe does not give up UDP after
/// [`AutoOptions::udp_patience`], but waits for the whole [`AutoOptions::choice_timeout`].
///
/// # Errors
/// See [`race()`].
pub async fn probe(
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<RaceProgress, TransportError> {
    probe_among(address, security, options, &Registry::with_builtins()).await
}

/// Measures the path like [`probe`], over the transports of a registry.
///
/// # Errors
/// See [`race()`].
pub async fn probe_among(
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
) -> Result<RaceProgress, TransportError> {
    let options = AutoOptions {
        takes_named: false,
        udp_patience: options.choice_timeout,
        ..options
    };
    let mut race = Race::begin(address, security, options, registry)?;
    race.begin_udp();
    while race.changed().await {}
    race.progress.elapsed = race.started.elapsed();
    match (race.refusal(), race.first_up()) {
        (Some(refusal), _) => Err(refusal),
        (None, None) => Err(race.failure()),
        (None, Some(_)) => {
            race.leave().await?;
            Ok(race.progress)
        }
    }
}
