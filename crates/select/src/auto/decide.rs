//! The next report is waited for only as long as it could change the choice by more than it costs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use transpute_transport::{
    Link, Security, TransportError,
    auto::{Candidates, Pick, Unpicked},
};

use super::{
    Auto, Probed, Selection,
    known::{Known, Stage},
    no_choice,
};
use crate::{Candidate, PathEstimate, SelectError, Setup, Spec, settle::NEXT_DOOR_S};

/// For how long TCP is alone. When a listener as near as that has answered, what the others could save is less than the processor
/// time of their handshakes, which they would take from it.
const HEAD_START: Duration = Duration::from_millis(3);

/// For how long it stays alone if it was answered by then: that may have been something on the way.
const NEXT_DOOR_START: Duration = Duration::from_millis(15);

/// For how long at least a probe waits for UDP: nobody waits for a computation, and a busy machine should not pass for a firewall.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a report is waited for at least before looking again at what is known.
const LEAST_REVIEW: Duration = Duration::from_millis(2);

/// Connects, chooses and picks.
pub(super) async fn connect(
    auto: &Auto,
    address: &str,
    security: &Security,
) -> Result<(Link, Selection), TransportError> {
    let (mut attempt, mut candidates) = Attempt::begin(auto, address, security)?;
    loop {
        let selection = attempt.settle(&candidates).await?;
        let winner = selection.choice.winner().clone();
        let picked = match winner.as_str().parse::<Pick>() {
            Ok(pick) => candidates.pick(&pick, Vec::new()).await,
            Err(error) => Err(Unpicked {
                error,
                candidates: Box::new(candidates),
            }),
        };
        match picked {
            Ok(link) => {
                if attempt.known.is_measured {
                    attempt.remember(&selection.path);
                }
                tracing::info!(
                    transport = %winner,
                    reason = selection.choice.reason,
                    confidence = selection.choice.confidence,
                    path = %selection.path,
                    after = ?Duration::from_secs_f64(selection.decided_after_s),
                    "chose a transport"
                );
                return Ok((link, selection));
            }
            Err(Unpicked {
                error,
                candidates: left,
            }) => {
                tracing::warn!(transport = %winner, %error, "the transport chosen failed; trying the next best");
                attempt
                    .known
                    .failed
                    .push((winner, error.root().to_string()));
                if matches!(error.root(), TransportError::PeerRefusedUs { .. }) {
                    // It will not be otherwise over another transport.
                    return Err(error);
                }
                candidates = *left;
                attempt.first_error.get_or_insert(error);
            }
        }
    }
}

/// Waits for everything.
pub(super) async fn probe(
    auto: &Auto,
    address: &str,
    security: &Security,
) -> Result<Probed, TransportError> {
    let mut auto = auto.clone();
    auto.options.udp_patience = auto.options.udp_patience.max(PROBE_PATIENCE);
    auto.options.takes_named = false;
    let (mut attempt, candidates) = Attempt::begin(&auto, address, security)?;
    attempt.suspects = false;
    while !attempt.known.is_complete() {
        attempt.wait(&candidates).await;
    }
    if let Some(refusal) = attempt.known.refusal() {
        return Err(refusal);
    }
    let Some(rtt) = attempt.known.rtt() else {
        return Err(attempt.nothing());
    };
    let path = attempt.known.path(rtt, unix_ms());
    attempt.remember(&path);
    // As for a run to come: all of the set-up is before it.
    let candidates = (attempt.known.candidates(rtt, Duration::ZERO).into_iter())
        .map(|candidate| Candidate {
            setup: Setup::Whole,
            ..candidate
        })
        .collect();
    Ok(Probed {
        path,
        candidates,
        said: attempt.known.said().to_vec(),
        took: attempt.started.elapsed(),
    })
}

/// A connection in the making.
struct Attempt<'a> {
    auto: &'a Auto,
    address: &'a str,
    started: Instant,
    known: Known,
    /// How long the other machine took to answer.
    answered: Option<Duration>,
    /// The transport that would have been chosen, had it been up.
    wanted: Option<Spec>,
    /// Further connections of `tcp-striped` may still be begun on suspicion that UDP does not pass.
    suspects: bool,
    /// Of the transport that was wanted most.
    first_error: Option<TransportError>,
}

impl<'a> Attempt<'a> {
    fn begin(
        auto: &'a Auto,
        address: &'a str,
        security: &Security,
    ) -> Result<(Self, Candidates), TransportError> {
        let known = Known::new(auto.candidates.clone());
        let mut options = auto.options;
        // `wait` asks for them when it is time.
        (options.quic_at_once, options.rudp_at_once) = (false, false);
        let attempt = Self {
            auto,
            address,
            started: Instant::now(),
            known,
            answered: None,
            wanted: None,
            suspects: true,
            first_error: None,
        };
        Ok((attempt, Candidates::connect(address, security, options)?))
    }

    /// Waits until the choice is clear, or nothing more can be learnt.
    async fn settle(&mut self, candidates: &Candidates) -> Result<Selection, TransportError> {
        loop {
            if let Some(selection) = self.try_settle()? {
                return Ok(selection);
            }
            self.wait(candidates).await;
        }
    }

    /// Chooses, unless waiting is better.
    fn try_settle(&mut self) -> Result<Option<Selection>, TransportError> {
        if let Some(refusal) = self.known.refusal() {
            // It will not be otherwise over another transport.
            return Err(refusal);
        }
        let is_complete = self.known.is_complete();
        let Some(rtt) = self.known.rtt() else {
            return match is_complete {
                true => Err(self.nothing()),
                false => Ok(None),
            };
        };
        self.recall(rtt);
        let path = self.known.path(rtt, unix_ms());
        let candidates = self.known.candidates(rtt, self.started.elapsed());
        let (chooser, workload) = (&self.auto.chooser, self.auto.work.by(self.known.said()));
        let settlement = (chooser.settlement(&path, &workload, &candidates)).map_err(no_choice)?;
        if !settlement.is_settled && !is_complete {
            tracing::debug!(
                worst_regret = settlement.worst_regret,
                worth_knowing = ?settlement.worth_knowing,
                "waiting to learn more of the path"
            );
            return Ok(None);
        }
        let choice = match chooser.choose(&path, &workload, &candidates) {
            Ok(choice) => choice,
            Err(SelectError::NoCandidate { .. }) if !is_complete => return Ok(None),
            Err(error) => {
                return Err(self.first_error.take().unwrap_or_else(|| no_choice(error)));
            }
        };
        let winner = choice.winner();
        if self.known.is_coming(winner) {
            // It cannot be picked before anyway: by then more is known.
            self.wanted = Some(winner.clone());
            return Ok(None);
        }
        if let Some(wanted) = self.wanted.take()
            && let Some(obstacle) = (choice.excluded.iter()).find(|(spec, _)| *spec == wanted)
        {
            tracing::warn!(transport = %wanted, reason = obstacle.1, "the transport chosen did not come up");
            self.known.failed.push(obstacle.clone());
        }
        Ok(Some(Selection {
            path,
            workload,
            choice,
            settlement,
            failed: self.known.failed.clone(),
            decided_after_s: self.started.elapsed().as_secs_f64(),
        }))
    }

    /// Waits for the next report.
    async fn wait(&mut self, candidates: &Candidates) {
        let alone_until = self.alone_until();
        let further_due = self.further_due();
        let is_alone = alone_until.is_some();
        let known = &mut self.known;
        let is_open = |transport| known.wants(transport) && !is_alone;
        // Where the control connection settles the choice, nothing is begun that takes processor time from it.
        let wants_rudp = is_open("rudp") && !known.control.is_pending();
        // Nor next door from what is measured.
        let is_measuring = wants_rudp && !known.is_measured;
        let rtt = known.rtt();
        let is_next_door = rtt.is_some_and(|rtt| rtt.as_secs_f64() < NEXT_DOOR_S);
        let wants_quic = is_open("quic") && !(is_measuring && is_next_door);
        if wants_quic {
            known.quic_begun.get_or_insert(self.started.elapsed());
        }
        let rudp_is_up = matches!(known.rudp, Stage::Up(_));
        let review = rtt.map(|rtt| Instant::now() + (rtt / 4).max(LEAST_REVIEW));
        tokio::select! {
            // Those that say more come first.
            biased;
            report = candidates.rudp_both_ways(),
                if wants_rudp && !known.is_measured =>
            {
                known.rudp = report.into();
                known.is_measured = true;
            }
            report = candidates.rudp(),
                if wants_rudp && !known.is_measured && !rudp_is_up =>
            {
                known.rudp = report.into();
                known.is_measured = matches!(known.rudp, Stage::Failed(_));
            }
            report = candidates.control(), if known.control.is_pending() => {
                known.control = report.into();
            }
            report = candidates.quic(), if wants_quic && known.quic.is_pending() => {
                known.quic = report.into();
            }
            Ok(took) = candidates.answered(), if self.answered.is_none() && known.control.is_pending() => {
                self.answered = Some(took);
            }
            () = sleep_until(alone_until), if is_alone => {}
            () = sleep_until(further_due), if further_due.is_some() => self.begin_further(candidates),
            // What does not come up in time becomes less worth waiting for.
            () = sleep_until(review), if review.is_some() => {}
            else => {}
        }
    }

    /// Returns when further connections of `tcp-striped` are to be begun on suspicion, if ever.
    fn further_due(&self) -> Option<Instant> {
        let answered = self.answered.filter(|_| self.suspects)?;
        Some(self.started + self.known.further_due(answered)?)
    }

    /// Begins with them, if they would be chosen were UDP blocked.
    fn begin_further(&mut self, candidates: &Candidates) {
        self.suspects = false;
        let Some(rtt) = self.answered else { return };
        let path = self.known.path(rtt, unix_ms());
        let workload = self.auto.work.by(self.known.said());
        let over_tcp = self.known.over_tcp_only();
        let Ok(choice) = self.auto.chooser.choose(&path, &workload, &over_tcp) else {
            return;
        };
        if let Ok(Pick::TcpStriped { connections, .. }) = choice.winner().as_str().parse() {
            tracing::debug!(connections, "nothing over UDP yet; opening more of TCP");
            self.known.further_begun = Some(self.started.elapsed());
            candidates.begin_further(connections);
        }
    }

    /// Returns until when TCP is alone, if it still is.
    fn alone_until(&self) -> Option<Instant> {
        if !self.known.wants("tcp") && !self.known.wants("tcp-striped") {
            return None;
        }
        let long = match self.answered {
            None => HEAD_START,
            Some(took) if took < HEAD_START => NEXT_DOOR_START,
            Some(_) => return None,
        };
        let until = self.started + long;
        (self.known.control.is_pending() && Instant::now() < until).then_some(until)
    }

    /// Looks up what was measured before, once it is known who the peer is and how far away.
    fn recall(&mut self, rtt: Duration) {
        if self.known.cached.is_none()
            && !self.known.is_measured
            && let Some(peer) = self.known.peer()
        {
            let rtt_s = rtt.as_secs_f64();
            let paths = &self.auto.paths;
            self.known.cached = paths.get(&peer.to_string(), self.address, rtt_s, unix_ms());
        }
    }

    /// Keeps what was measured. Of a peer without a name nothing is kept.
    fn remember(&self, path: &PathEstimate) {
        if let Some(peer) = self.known.peer() {
            self.auto.paths.put(&peer.to_string(), self.address, path);
        }
    }

    /// Returns why there is nothing to choose from.
    fn nothing(&mut self) -> TransportError {
        let failure = self.known.take_failure();
        failure.unwrap_or(TransportError::ClosedDuringHandshake)
    }
}

/// Waits until then; forever for none.
async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
