//! Compares the path at the choice of the transport with the path as measured during the runs of a
//! connection.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use transpute_select::{Candidate, Chooser, DirectionEstimate, PathMonitor, Workload};
use transpute_session::Role;
use transpute_transport::LinkStats;
use transpute_units::KnownPath;

use crate::{Selection, known};

/// Interval between samples of the link's measurements during a run, and minimum interval between
/// samples at the ends of runs. A sample takes some microseconds: a system call for each TCP
/// connection of the link.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The inputs of the choice of the transport, on the side that chose.
pub(crate) struct Chosen {
    pub(crate) selection: Box<Selection>,
    pub(crate) chooser: Arc<dyn Chooser>,
    /// The workload of one run on the connection.
    pub(crate) run: Workload,
}

/// The measurements of the path of a connection, and the choice of its transport.
pub(crate) struct PathWatch {
    monitor: PathMonitor,
    chosen: Option<Chosen>,
    transport: &'static str,
    role: Role,
    stats: LinkStats,
    /// Time of the last sample at the end of a run. Before the first one, the connection's start.
    since: Instant,
    has_looked: bool,
}

/// The present path of a connection, compared with the path for which its transport was chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathReport {
    /// The path for which the transport was chosen. A property that was unknown at the choice has
    /// its first measured value. Rate and loss refer to the direction in which this side sends.
    pub chosen_by: KnownPath,
    /// The path as measured last.
    pub now: KnownPath,
    /// A text that describes how the path became worse; `None` if it did not.
    pub worse: Option<String>,
    /// The transport in use.
    pub transport: String,
    /// The transport that the chooser would choose now, if the path became worse and this transport
    /// is not the one in use. `None` on a side that did not choose.
    pub better: Option<String>,
    /// Predicted time of one run on this connection, for the path as measured last. `None` on a
    /// side that did not choose.
    pub predicted_run: Option<Duration>,
}

/// Writes one line of text, or nothing if the path did not become worse.
impl fmt::Display for PathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(worse) = &self.worse else {
            return Ok(());
        };
        write!(
            f,
            "the path is worse than when {} was chosen: {worse}",
            self.transport
        )?;
        match &self.better {
            Some(better) => write!(f, "; {better} would now be better"),
            None => Ok(()),
        }
    }
}

impl PathWatch {
    pub(crate) fn new(
        mut chosen: Option<Chosen>,
        transport: &'static str,
        role: Role,
        stats: LinkStats,
    ) -> Self {
        if let Some(chosen) = &mut chosen {
            (chosen.selection).update(&*chosen.chooser, &stats.path());
        }
        let chosen_by = (chosen.as_ref()).map_or_else(KnownPath::default, |chosen| {
            chosen.selection.path.known_exactly()
        });
        Self {
            monitor: PathMonitor::new(chosen_by),
            chosen,
            transport,
            role,
            stats,
            since: Instant::now(),
            has_looked: false,
        }
    }

    /// Samples the link's rate. Call it during a run.
    pub(crate) fn look_at_rate(&mut self) {
        self.monitor.look_at_rate(&self.stats.path());
    }

    /// Samples all measurements of the link. Call it at the end of a run.
    pub(crate) fn look(&mut self) {
        let elapsed = self.since.elapsed();
        if !self.has_looked || elapsed >= LOOK_INTERVAL {
            self.monitor.look(&self.stats.path(), elapsed);
            (self.since, self.has_looked) = (Instant::now(), true);
        }
    }

    /// Returns the path from the evaluator's view. The direction in which this side sends is as
    /// measured last. The other direction has the rate that the choice of the transport knew.
    pub(crate) fn as_evaluator(&self) -> KnownPath {
        known::as_evaluator(self.monitor.estimate(), self.role)
    }

    pub(crate) fn report(&self) -> PathReport {
        let now = self.monitor.estimate();
        let current = self.current();
        let ranking = self.rank(&now).unwrap_or_default();
        let worse = self.monitor.worse();
        let better = (ranking.first())
            .filter(|(transport, _)| worse.is_some() && *transport != current)
            .map(|(transport, _)| transport.clone());
        let predicted_run = (ranking.iter())
            .find(|(transport, _)| *transport == current)
            .and_then(|(_, seconds)| Duration::try_from_secs_f64(*seconds).ok());
        PathReport {
            chosen_by: self.monitor.chosen_by(),
            now,
            worse,
            transport: current,
            better,
            predicted_run,
        }
    }

    /// Returns the transport in use, with its settings if they are known.
    fn current(&self) -> String {
        let winner = (self.chosen.as_ref()).map(|chosen| chosen.selection.choice.winner());
        match winner.filter(|winner| winner.name() == self.transport) {
            Some(winner) => winner.to_string(),
            None => self.transport.to_owned(),
        }
    }

    /// Ranks the transports for this path with the chooser. Each has the predicted time of a run in
    /// seconds, without the set-up of the connection.
    fn rank(&self, now: &KnownPath) -> Option<Vec<(String, f64)>> {
        let chosen = self.chosen.as_ref()?;
        let mut path = chosen.selection.path.clone();
        if let Some(rtt) = now.rtt {
            path.rtt = rtt;
        }
        let up = now.to_peer.or(path.up.known);
        path.up = match now.to_peer.rate {
            Some(_) => up.into(),
            None => DirectionEstimate {
                known: up,
                ..path.up
            },
        };
        let ranking = chosen.selection.choice.ranking().iter();
        let candidates: Vec<_> = ranking
            .map(|ranked| Candidate::from(ranked.transport.clone()))
            .collect();
        let choice = (chosen.chooser)
            .choose(&path, &chosen.run, &candidates)
            .ok()?;
        let ranking = choice.ranking().iter().map(|ranked| {
            let prediction = &ranked.prediction;
            let seconds = prediction.seconds - prediction.parts.setup_s;
            (ranked.transport.to_string(), seconds)
        });
        Some(ranking.collect())
    }
}

impl fmt::Debug for PathWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathWatch")
            .field("monitor", &self.monitor)
            .finish_non_exhaustive()
    }
}
