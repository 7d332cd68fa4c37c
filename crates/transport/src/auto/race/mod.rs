//! The connecting end: opens everything at once, and makes the connection that the policy picks the link.

mod attempts;

use std::sync::Arc;

use self::attempts::Race;
use super::{AutoOptions, Pick, Policy, Progress};
use crate::{Link, Registry, Security, TransportError};

/// The result of a race.
#[derive(Debug)]
#[non_exhaustive]
pub struct Won {
    /// The link.
    pub link: Link,
    /// What the race had learnt when the link was picked.
    pub progress: Progress,
    /// What was picked.
    pub pick: Pick,
    /// Earlier picks of the policy that failed, and why.
    pub failed: Vec<(Pick, String)>,
}

/// Connects to `host:port` over several transports at once and makes the one that the policy picks the link.
///
/// The pick costs no round trip: it is sent in front of the first bytes of the link, and the listener's answer is checked at
/// the first read. A listener that refuses the pick, or this end's identity, shows there. Connections that were not picked
/// are closed.
///
/// # Errors
/// [`TransportError::NoPinnedPeer`]; [`TransportError::PeerRefusedUs`] as soon as it is known; [`TransportError::NotUp`] if
/// no connection came up or stayed up; [`TransportError::NotOffered`] if the listener offers nothing that this end takes.
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

/// Connects as [`race()`] does, over the transports of a registry.
///
/// # Errors
/// As [`race()`].
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
                    // TCP alone does not settle it.
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

/// Connects to `host:port` over several transports at once, waits until each connection has come up or failed and the path is
/// measured, and closes them all.
///
/// A listener that uses one transport by its name would take the connection for a link, so a probe does not connect to it. A race
/// stops waiting for UDP when an answer is overdue; a probe waits for [`AutoOptions::choice_timeout`].
///
/// # Errors
/// As [`race`].
pub async fn probe(
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<Progress, TransportError> {
    probe_among(address, security, options, &Registry::with_builtins()).await
}

/// Measures as [`probe`] does, over the transports of a registry.
///
/// # Errors
/// As [`race()`].
pub async fn probe_among(
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
) -> Result<Progress, TransportError> {
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
