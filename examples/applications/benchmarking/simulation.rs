//! Runs many companies in one process, for trials and measurements.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use transpute::Identity;

use crate::{
    company::{Company, OpenLinks, RoundConfig},
    failure::Failure,
    statistics::Statistics,
};

/// The order in which companies upload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// All at once.
    Concurrent,
    /// Each after both servers have acknowledged the upload of the one before.
    Sequential,
}

/// The times and the result of a simulation.
#[derive(Debug)]
pub(crate) struct Simulated {
    /// Time from the start until both servers had acknowledged every upload.
    pub(crate) uploaded: Duration,
    /// Time from the start until every company had its results.
    pub(crate) elapsed: Duration,
    /// Time of the plain computation on this machine.
    pub(crate) plain: Duration,
    /// The statistics, which all companies learned.
    pub(crate) statistics: Statistics,
}

/// Runs every company and compares the results of each with a plain computation.
///
/// # Errors
/// Returns [`Failure::Wrong`] if a company learns other results; otherwise the first [`Failure`] of
/// a company.
pub(crate) async fn simulate(
    round_config: &RoundConfig,
    companies: Vec<(Identity, u32)>,
    order: Order,
) -> Result<Simulated, Failure> {
    let figures: Vec<u32> = companies.iter().map(|(_, figure)| *figure).collect();
    if figures.is_empty() {
        return Err(Failure::Usage("expected at least one company".into()));
    }
    let computing = Instant::now();
    let statistics = Statistics::of(&figures);
    let plain = computing.elapsed();
    let mut left = 2 * companies.len();
    let started = Instant::now();
    let (accepted, mut acknowledged) = mpsc::unbounded_channel();
    let mut playing = JoinSet::new();
    let mut wrong = 0;
    let mut open_links = Vec::with_capacity(figures.len());
    let mut judge = |outcome: Result<Result<(Statistics, OpenLinks), Failure>, _>| {
        let (learnt, links) = outcome.map_err(|_| Failure::Broken)??;
        wrong += usize::from(learnt != statistics);
        open_links.push(links);
        Ok::<_, Failure>(())
    };
    for (identity, figure) in companies {
        let (round_config, accepted) = (round_config.clone(), accepted.clone());
        let company = Company::new(identity, figure);
        playing.spawn(async move { company.take_part(&round_config, accepted).await });
        if order == Order::Concurrent {
            continue;
        }
        for _ in 0..2 {
            tokio::select! {
                _ = acknowledged.recv() => left -= 1,
                Some(outcome) = playing.join_next() => judge(outcome)?,
            }
        }
    }
    drop(accepted);
    while left > 0 {
        tokio::select! {
            biased;
            heard = acknowledged.recv() => left = if heard.is_some() { left - 1 } else { 0 },
            Some(outcome) = playing.join_next() => judge(outcome)?,
        }
    }
    let uploaded = started.elapsed();
    while let Some(outcome) = playing.join_next().await {
        judge(outcome)?;
    }
    let elapsed = started.elapsed();
    let mut leaving: JoinSet<()> = (open_links.into_iter()).map(OpenLinks::close).collect();
    while leaving.join_next().await.is_some() {}
    if wrong > 0 {
        return Err(Failure::Wrong(wrong));
    }
    Ok(Simulated {
        uploaded,
        elapsed,
        plain,
        statistics,
    })
}
