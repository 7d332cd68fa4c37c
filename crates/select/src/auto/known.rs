//! What has come up so far, as an estimate of the path and as candidates.

use std::time::Duration;

use transpute_transport::{
    Fingerprint, PathSample, TransportError,
    auto::{ControlReport, Offer, QuicReport, RudpReport, TrainReport},
};

use crate::{
    Candidate, Direction, Kernel, Loss, MAX_RATE, MAX_RTT_S, MIN_RATE, PathEstimate, Rate, Setup,
    Source, Spec, Udp, law::TIMEOUT_S,
};

/// How likely UDP does not pass, if nothing has come over QUIC when it is long due: firewalls that drop UDP are an order of magnitude
/// more frequent than the loss of the one packet that it takes.
const DOUBT_OF_SILENCE: f64 = 0.9;

/// Processor time of both ends for a further handshake, in seconds, when another one was just done.
const HANDSHAKE_S: f64 = 4e-3;

/// Packets of the handshakes of TCP and TLS in one direction, at least.
const HANDSHAKE_PACKETS: u64 = 4;

/// How late QUIC may be answered for reasons of the machines.
const LATE: Duration = Duration::from_millis(5);

/// How much later than TCP QUIC may be answered before further connections of TCP are begun on suspicion: a sixteenth of a round
/// trip, and this, which is what the handshake computes and some more. Where UDP is blocked all of it is lost.
const JITTER: Duration = Duration::from_millis(6);

/// On a shorter path no further connections are begun on suspicion, and what the kernel sends again was not lost for sure.
const NEXT_DOOR: Duration = Duration::from_millis(2);

/// Timer of kernels that are not told another one.
const SLOW_TIMEOUT: Duration = Duration::from_millis(200);

/// How far one of the connections has come.
pub(super) enum Stage<R> {
    /// Nothing is known yet.
    Pending,
    /// It can be picked.
    Up(R),
    /// It cannot, and why.
    Failed(TransportError),
}

/// What is known of the candidates.
pub(super) struct Known {
    specs: Vec<Spec>,
    kernel: Kernel,
    pub(super) control: Stage<ControlReport>,
    pub(super) quic: Stage<QuicReport>,
    pub(super) rudp: Stage<RudpReport>,
    /// How long after the start QUIC was begun, if it was.
    pub(super) quic_begun: Option<Duration>,
    /// How long after the start the further connections of `tcp-striped` were begun, if that was before the choice.
    pub(super) further_begun: Option<Duration>,
    /// Reliable UDP has told all that it will.
    pub(super) is_measured: bool,
    /// What was measured before, if it still holds.
    pub(super) cached: Option<PathEstimate>,
    /// Those that were picked and failed.
    pub(super) failed: Vec<(Spec, String)>,
}

impl<R> Stage<R> {
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }

    fn up(&self) -> Option<&R> {
        match self {
            Self::Up(report) => Some(report),
            _ => None,
        }
    }

    fn failure(&self) -> Option<&TransportError> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Takes the failure out: of one that has failed, nothing is known then.
    fn take_failure(&mut self) -> Option<TransportError> {
        self.failure()?;
        match std::mem::replace(self, Self::Pending) {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl<R> From<Result<R, TransportError>> for Stage<R> {
    fn from(result: Result<R, TransportError>) -> Self {
        match result {
            Ok(report) => Self::Up(report),
            Err(error) => Self::Failed(error),
        }
    }
}

impl Known {
    pub(super) fn new(specs: Option<Vec<Spec>>) -> Self {
        let kernel = Kernel::of_this_machine();
        Self {
            specs: specs.unwrap_or_else(|| usual(&kernel)),
            kernel,
            control: Stage::Pending,
            quic: Stage::Pending,
            rudp: Stage::Pending,
            quic_begun: None,
            further_begun: None,
            is_measured: false,
            cached: None,
            failed: Vec::new(),
        }
    }

    /// Says whether one of the candidates is of this transport.
    pub(super) fn wants(&self, transport: &str) -> bool {
        self.specs.iter().any(|spec| spec.name() == transport)
    }

    /// Returns the shortest round-trip time seen; `None` as long as nothing came up.
    pub(super) fn rtt(&self) -> Option<Duration> {
        let quic = self
            .quic
            .up()
            .and_then(|up| up.path.min_rtt.or(up.path.rtt));
        let control = self.control.up().map(ControlReport::rtt);
        let rudp = self.rudp.up().and_then(|up| up.rtt);
        [quic, control, rudp].into_iter().flatten().min()
    }

    /// Returns who the peer is, where that was proved.
    pub(super) fn peer(&self) -> Option<Fingerprint> {
        let control = self.control.up().and_then(|up| up.info.peer_fingerprint);
        control.or_else(|| self.quic.up()?.info.peer_fingerprint)
    }

    fn offer(&self) -> Option<&Offer> {
        (self.control.up().map(|up| &up.offer)).or(self.quic.up().map(|up| &up.offer))
    }

    /// Returns what the listener said to the layer above; nothing as long as it was not heard.
    pub(super) fn said(&self) -> &[u8] {
        self.offer().map_or(&[], Offer::blob)
    }

    /// Says whether nothing more is to come.
    pub(super) fn is_complete(&self) -> bool {
        !self.control.is_pending()
            && (!self.wants("quic") || !self.quic.is_pending())
            && (!self.wants("rudp") || self.is_measured)
    }

    /// Says whether UDP was found not to pass. That nothing came over QUIC alone may be the loss of its one packet: reliable UDP has
    /// sent many by the time that it gives up.
    fn is_udp_blocked(&self) -> bool {
        let failure = match self.wants("rudp") {
            true => self.rudp.failure(),
            false => self.quic.failure(),
        };
        failure.is_some_and(|error| matches!(error.root(), TransportError::UdpBlocked { .. }))
    }

    /// Takes the reason why there is nothing to pick, if everything has failed: what TCP met says most.
    pub(super) fn take_failure(&mut self) -> Option<TransportError> {
        if self.quic.up().is_some() || self.rudp.up().is_some() {
            return None;
        }
        self.control.take_failure()
    }

    /// Takes the peer's word that it does not want us, where it was heard: connections come up before it is said.
    pub(super) fn refusal(&mut self) -> Option<TransportError> {
        let is_one =
            |error: &TransportError| matches!(error.root(), TransportError::PeerRefusedUs { .. });
        if !self.rudp.failure().is_some_and(is_one) {
            return None;
        }
        self.rudp.take_failure()
    }

    /// Returns what is known of the path, given its round-trip time.
    pub(super) fn path(&self, rtt: Duration, now_unix_ms: u64) -> PathEstimate {
        let seconds = rtt.as_secs_f64().min(MAX_RTT_S);
        let mut path = match (&self.cached, PathEstimate::of_rtt(seconds)) {
            (Some(cached), _) => cached.clone(),
            (None, Ok(path)) => PathEstimate {
                source: Source::Measured,
                ..path
            },
            // Within bounds by the line before.
            (None, Err(_)) => unreachable!(),
        };
        path.rtt.min_s = seconds;
        path.when_unix_ms = path.when_unix_ms.or(Some(now_unix_ms));
        path.kernel = self.kernel.clone();
        if let Some(up) = self.control.up() {
            path.kernel.min_rtt_s = Some(up.rtt().as_secs_f64().min(MAX_RTT_S));
            path.rtt.jitter_s = (up.path.rtt_variation).map(|v| v.as_secs_f64().min(MAX_RTT_S));
            let seen = handshake_loss(&up.path, up.rtt(), up.after);
            for direction in [&mut path.up, &mut path.down] {
                direction.loss = direction.loss.or(seen);
            }
        }
        if let Some(report) = self.rudp.up() {
            learn(&mut path.up, report.up);
            learn(&mut path.down, report.down);
            path.mtu = Some(u32::from(report.datagram) + 28);
            if self.is_measured {
                path.source = Source::Measured;
                path.when_unix_ms = Some(now_unix_ms);
            }
        }
        path.udp = if self.quic.up().is_some() || self.rudp.up().is_some() {
            Udp::Passes
        } else if self.is_udp_blocked() {
            Udp::Blocked
        } else {
            path.udp
        };
        path
    }

    /// Says whether a transport can be picked without any waiting.
    fn is_up(&self, spec: &Spec) -> bool {
        match spec.name() {
            "quic" => self.quic.up().is_some(),
            "rudp" => self.rudp.up().is_some(),
            _ => self.control.up().is_some(),
        }
    }

    /// Says whether something is to come that picking a transport would wait for.
    pub(super) fn is_coming(&self, spec: &Spec) -> bool {
        match spec.name() {
            "quic" => self.quic.is_pending(),
            "rudp" => self.rudp.is_pending(),
            _ => self.control.is_pending(),
        }
    }

    /// Returns the candidates with what is left of their set-up, `elapsed` after the start.
    pub(super) fn candidates(&self, rtt: Duration, elapsed: Duration) -> Vec<Candidate> {
        let (rtt_s, elapsed_s) = (rtt.as_secs_f64(), elapsed.as_secs_f64());
        // Over UDP an answer was due a round trip ago, when there was one over TCP.
        let is_overdue = |begun: Duration| elapsed.saturating_sub(begun) > rtt.mul_f64(1.75) + LATE;
        let is_silent = self.quic_begun.is_some_and(is_overdue)
            && self.quic_hears_nothing()
            && self.rudp.up().is_none()
            && self.control.up().is_some();
        (self.specs.iter())
            .map(|spec| {
                let candidate = Candidate::of(spec.clone());
                if let Some(reason) = self.obstacle(spec) {
                    return candidate.without(reason);
                }
                let doubt = match spec.name() {
                    "quic" | "rudp" if is_silent => DOUBT_OF_SILENCE,
                    _ => 0.0,
                };
                let candidate = candidate.with_doubt(doubt);
                candidate.with_setup(match spec.name() {
                    // Its further connections carry data three round trips after they were begun (TCP, the challenge, the join),
                    // which is when it is picked if not before. Until then it is no faster than TCP alone, which the law does
                    // not know.
                    "tcp-striped" if self.is_up(spec) || self.further_begun.is_some() => {
                        let begun_s = self.further_begun.unwrap_or(elapsed).as_secs_f64();
                        let further_s = (begun_s + 3.0 * rtt_s - elapsed_s).max(0.0);
                        let control_s = match self.is_up(spec) {
                            true => 0.0,
                            false => Setup::Begun(elapsed_s).left(2.0 * rtt_s, rtt_s),
                        };
                        Setup::Left(HANDSHAKE_S + further_s.max(control_s))
                    }
                    "tcp-striped" => Setup::In((2.0 * rtt_s - elapsed_s).max(rtt_s / 8.0)),
                    _ if self.is_up(spec) => Setup::Done,
                    "quic" => match self.quic_begun {
                        Some(begun) => Setup::Begun(elapsed.saturating_sub(begun).as_secs_f64()),
                        None => Setup::In(HANDSHAKE_S),
                    },
                    _ => Setup::Begun(elapsed_s),
                })
            })
            .collect()
    }

    /// Says whether no answer of QUIC has come that should. One that is not offered, or not in plaintext, says nothing of UDP.
    fn quic_hears_nothing(&self) -> bool {
        match &self.quic {
            Stage::Up(_) => false,
            Stage::Pending => (self.offer()).is_none_or(|offer| offer.allows("quic")),
            Stage::Failed(error) => matches!(error.root(), TransportError::UdpBlocked { .. }),
        }
    }

    /// Returns how long after the start the further connections of `tcp-striped` are worth beginning on suspicion, given how long
    /// the listener took to answer over TCP: when nothing has come over QUIC for a while after that. `None` for never.
    pub(super) fn further_due(&self, answered: Duration) -> Option<Duration> {
        let is_possible = self.wants("tcp-striped")
            && self.further_begun.is_none()
            && self.control.failure().is_none()
            && (self.offer()).is_none_or(|offer| offer.allows("tcp-striped"));
        // Next door, what they could save is less than the processor time of their handshakes.
        if !is_possible || answered < NEXT_DOOR {
            return None;
        }
        match (&self.quic, self.quic_begun) {
            (Stage::Up(_), _) => None,
            // Nothing over UDP is among the candidates.
            _ if !self.wants("quic") && !self.wants("rudp") => Some(answered),
            // Without QUIC nothing is known of UDP this early.
            (Stage::Pending, Some(begun)) => Some(begun + answered.mul_f64(1.0625) + JITTER),
            _ => None,
        }
    }

    /// Returns the TCP candidates as they would be if nothing else came up.
    pub(super) fn over_tcp_only(&self) -> Vec<Candidate> {
        let is_tcp = |spec: &&Spec| spec.name().starts_with("tcp");
        (self.specs.iter().filter(is_tcp))
            .map(|spec| match self.obstacle(spec) {
                Some(reason) => Candidate::of(spec.clone()).without(reason),
                None => Candidate::of(spec.clone()),
            })
            .collect()
    }

    /// Returns why a transport cannot be picked.
    fn obstacle(&self, spec: &Spec) -> Option<String> {
        let failed = self.failed.iter().find(|(failed, _)| failed == spec);
        if let Some((_, how)) = failed {
            return Some(how.clone());
        }
        if (self.offer()).is_some_and(|offer| !offer.allows(spec.name())) {
            return Some("the listener does not offer it".into());
        }
        let failure = match spec.name() {
            "quic" => self.quic.failure(),
            "rudp" => self.rudp.failure().or(self.control.failure()),
            _ => self.control.failure(),
        };
        failure.map(|error| error.root().to_string())
    }
}

/// Takes over what a train told. A peer's word that no path fulfils is none.
fn learn(direction: &mut Direction, train: Option<TrainReport>) {
    let Some(train) = train else { return };
    if let Some(rate) = train.rate {
        let bits_per_second = 8.0 * rate as f64;
        if (MIN_RATE..=MAX_RATE).contains(&bits_per_second) && train.error.is_finite() {
            direction.rate = Some(Rate {
                bits_per_second,
                relative_error: train.error.clamp(0.0, 1.0) / 2.0,
                is_lower_bound: train.at_least,
            });
        }
    }
    if train.clear > 0 {
        direction.queue_bytes = train.queue.map(|bytes| bytes as f64);
    }
    let lost = train.clear.saturating_sub(train.clear_received);
    if let Ok(loss) = Loss::new(lost.into(), train.clear.into()) {
        direction.loss = Some(match direction.loss {
            // What was measured before still tells something.
            Some(before) => before.and(loss),
            None => loss,
        });
    }
}

/// Returns what the handshakes of the control connection lost, if it shows: the kernel has sent packets again, or it took as long
/// as a timer, which may have been the other end's. Next door kernels send again while the other end still computes, and that
/// may take as long as a short timer.
fn handshake_loss(path: &PathSample, rtt: Duration, after: Duration) -> Option<Loss> {
    let is_next_door = rtt < NEXT_DOOR;
    let timer = if is_next_door {
        SLOW_TIMEOUT
    } else {
        Duration::from_secs_f64(TIMEOUT_S)
    };
    // The first sample of a round trip counts thrice (RFC 6298), or twice where it is probed for (RFC 8985).
    let again_after = (rtt + timer.max(2 * rtt)).min(2 * rtt + timer);
    let waited = after > 2 * rtt + again_after * 4 / 5;
    let again = (path.retransmits).filter(|_| !is_next_door).unwrap_or(0);
    let lost = again.max(waited.into());
    if lost == 0 {
        return None;
    }
    let sent = path.packets_sent.unwrap_or(0).max(HANDSHAKE_PACKETS);
    Loss::new(lost, lost.max(sent)).ok()
}

/// What may be chosen if nobody says.
fn usual(kernel: &Kernel) -> Vec<Spec> {
    // The one that loss slows, and the one that it does not.
    let others: Vec<&str> = ["cubic", "bbr"]
        .into_iter()
        .filter(|name| kernel.congestion_control.as_deref() != Some(name))
        .filter(|name| kernel.available.iter().any(|known| known == name))
        .collect();
    let with = |transport: &str| {
        let names = others.iter().map(|name| format!("{transport}:cc={name}"));
        names.collect::<Vec<_>>()
    };
    let names = [
        vec!["tcp".to_owned(), "rudp".to_owned(), "quic".to_owned()],
        with("tcp"),
        vec!["tcp-striped".to_owned()],
        with("tcp-striped"),
    ];
    // All of them are well-formed.
    (names.iter().flatten())
        .filter_map(|name| name.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests;
