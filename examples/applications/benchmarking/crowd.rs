//! Many companies in one program: to try it out, and to measure it.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use transpute::Identity;

use crate::{
    company::{Company, Parting, Venue},
    failure::Failure,
    statistics::Statistics,
};

/// In which order companies upload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// All at once.
    Concurrent,
    /// Each when both servers have acknowledged the one before.
    Sequential,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Played {
    /// From the start until both servers had acknowledged every upload.
    pub(crate) uploaded: Duration,
    /// From the start until every company had its results.
    pub(crate) elapsed: Duration,
    /// How long it takes in the open, on this machine.
    pub(crate) plain: Duration,
    /// What all of them have.
    pub(crate) statistics: Statistics,
}

/// Has every company take part, and compares what each of them learns with a plain computation.
///
/// # Errors
/// [`Failure::Wrong`] if any learns something else; the first [`Failure`] of any.
pub(crate) async fn play(
    venue: &Venue,
    companies: Vec<(Identity, u32)>,
    order: Order,
) -> Result<Played, Failure> {
    let figures: Vec<u32> = companies.iter().map(|(_, figure)| *figure).collect();
    if figures.is_empty() {
        return Err(Failure::Usage("there are no companies".into()));
    }
    let computing = Instant::now();
    let statistics = Statistics::of(&figures);
    let plain = computing.elapsed();
    let mut left = 2 * companies.len();
    let started = Instant::now();
    let (accepted, mut acknowledged) = mpsc::unbounded_channel();
    let mut playing = JoinSet::new();
    let mut wrong = 0;
    let mut partings = Vec::with_capacity(figures.len());
    let mut judge = |outcome: Result<Result<(Statistics, Parting), Failure>, _>| {
        let (learnt, parting) = outcome.map_err(|_| Failure::Broken)??;
        wrong += usize::from(learnt != statistics);
        partings.push(parting);
        Ok::<_, Failure>(())
    };
    for (identity, figure) in companies {
        let (venue, accepted) = (venue.clone(), accepted.clone());
        let company = Company::new(identity, figure);
        playing.spawn(async move { company.take_part(&venue, accepted).await });
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
    let mut leaving: JoinSet<()> = (partings.into_iter()).map(Parting::say_goodbye).collect();
    while leaving.join_next().await.is_some() {}
    if wrong > 0 {
        return Err(Failure::Wrong(wrong));
    }
    Ok(Played {
        uploaded,
        elapsed,
        plain,
        statistics,
    })
}
