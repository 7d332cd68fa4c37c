//! The first round trip: who is there, does UDP pass, and how fast.
//!
//! Both ends challenge each other with a random number that only an answer from the far end of the path can contain.
//! The connector's challenge comes with a train of full packets; the listener answers the first of them, reports how
//! they spread out, and sends a train of its own. Until its own challenge is answered the listener sends no more than
//! three times the bytes it received (RFC 9000, section 8.1).

use std::time::Duration;

use crate::Time;
use crate::config::Config;
use crate::estimate::{STRETCH, TrainReceiver};
use crate::frame::Report;
use crate::rate::{HEADER_BYTES, rate_of};
use crate::stats::TrainResult;

/// How many packets a train has.
pub(crate) const TRAIN_PACKETS: u8 = 128;

/// How many packets of the first flight of data are a train where nothing else is known.
pub(crate) const DATA_TRAIN_PACKETS: u8 = 64;

/// The train of the set-up, and the first flight of data.
pub(crate) const SETUP_TRAIN: u8 = 1;
pub(crate) const DATA_TRAIN: u8 = 2;

/// How long the first challenge waits for an answer where nothing is known of the path, and later ones at most.
const FIRST_RETRY: Duration = Duration::from_millis(400);
const MAX_RETRY: Duration = Duration::from_secs(1);

/// How long the other end may take to answer, beside a round trip and a quarter of one.
const SLOW_ANSWER: Duration = Duration::from_millis(5);

/// Longer round trips than this are mistakes.
const MOST_RTT: Duration = Duration::from_secs(10);

/// How often a challenge or an answer is sent at once: a lost one costs a timeout.
const COPIES: u8 = 2;

/// Bytes of what may be sent before the own challenge is answered that are kept for repeating it: should everything else be lost,
/// then the other end, once its own challenge is answered, has perhaps nothing to say that would allow for more.
const FOR_CHALLENGES: u64 = 1200;

/// After how long a report is sent again, since nothing acknowledges it: the first one may meet the end of the own train in
/// a short queue.
const REPORT_AGAIN: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(4)];

/// When a report is due although packets are missing.
const MIN_QUIET: Duration = Duration::from_millis(3);
const MAX_QUIET: Duration = Duration::from_millis(40);

/// A train that is being received.
#[derive(Debug)]
struct Incoming {
    id: u8,
    receiver: TrainReceiver,
    count: u8,
    seen: [u64; 4],
    received: u8,
    largest: u16,
    first_at: Time,
    last_at: Time,
    /// How many packets the last report counted.
    reported: u8,
    done: bool,
}

impl Incoming {
    fn report_due(&self) -> Option<Time> {
        if self.done {
            return None;
        }
        if self.received == self.count {
            return Some(self.last_at);
        }
        let gaps = u32::from(self.received.max(2) - 1);
        let quiet = if self.received > 2 {
            (self.last_at.since(self.first_at) / gaps * 8).clamp(MIN_QUIET, MAX_QUIET)
        } else {
            MAX_QUIET
        };
        let due = self.last_at + quiet;
        // A slow path tells its rate before the train has ended.
        if self.reported == 0 && self.received >= 16 {
            return Some(due.min(self.first_at + MAX_QUIET));
        }
        Some(due)
    }
}

/// When packets of the own train left, and how many bytes on the wire had left by then.
type TrainSent = Vec<(Time, u64)>;

/// What the other end's train told, and how often that was said.
#[derive(Debug)]
struct Told {
    report: Report,
    is_due: bool,
    said: usize,
    again_at: Option<Time>,
}

/// What is known of the path and what is still to be said about it.
#[derive(Debug)]
pub(crate) struct Setup {
    random: u64,
    heard: bool,
    validated: bool,
    /// Challenges that may be answered: number and time.
    challenges: Vec<(u64, Time)>,
    challenge_copies: u8,
    first_retry: Duration,
    retries: u32,
    retry_at: Option<Time>,
    give_up_at: Time,
    last_challenge_heard: Option<u64>,
    response_copies: u8,
    train_wanted: bool,
    train_left: u8,
    train_sent: TrainSent,
    incoming: Option<Incoming>,
    told: Option<Told>,
    measured: Option<TrainResult>,
    received_bytes: u64,
    sent_bytes: u64,
    /// The rate of the incoming direction, in bytes on the wire per second; zero: not known.
    incoming_rate: u64,
}

impl Setup {
    pub(crate) fn new(now: Time, seed: u64, config: &Config) -> Self {
        let rtt = config.prior.rtt;
        Self {
            random: seed,
            heard: false,
            validated: false,
            challenges: Vec::new(),
            challenge_copies: 0,
            first_retry: rtt.map_or(FIRST_RETRY, |rtt| {
                let rtt = rtt.min(MOST_RTT);
                rtt + rtt / 4 + SLOW_ANSWER
            }),
            retries: 0,
            retry_at: None,
            give_up_at: now + config.setup_timeout,
            last_challenge_heard: None,
            response_copies: 0,
            train_wanted: config.probe,
            train_left: 0,
            train_sent: TrainSent::new(),
            incoming: None,
            told: None,
            measured: None,
            received_bytes: 0,
            sent_bytes: 0,
            incoming_rate: 0,
        }
    }

    /// Makes a new challenge due.
    pub(crate) fn challenge(&mut self, now: Time) {
        // SplitMix64; what makes a challenge unpredictable to others is the encryption.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut token = self.random;
        token = (token ^ (token >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        token = (token ^ (token >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        token ^= token >> 31;
        if self.challenges.len() >= 8 {
            self.challenges.remove(0);
        }
        self.challenges.push((token, now));
        self.challenge_copies = COPIES;
        let most = MAX_RETRY.max(self.first_retry);
        self.retry_at = Some(now + (self.first_retry * (1 << self.retries.min(8))).min(most));
        self.retries += 1;
    }

    pub(crate) fn start_train(&mut self) {
        if std::mem::take(&mut self.train_wanted) {
            self.train_left = TRAIN_PACKETS;
        }
    }

    /// Counts what arrived authentically, for the limit on what may be sent.
    pub(crate) fn on_received(&mut self, bytes: usize) -> bool {
        self.received_bytes += bytes as u64;
        !std::mem::replace(&mut self.heard, true)
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Returns how many bytes may be sent, beside challenges and answers, to an end that may not be where it seems to be.
    pub(crate) fn spare_allowance(&self) -> u64 {
        // Unlimited stays unlimited for all that is ever sent.
        self.allowance().saturating_sub(FOR_CHALLENGES)
    }

    /// Returns how many bytes may be sent to an end that may not be where it seems to be.
    pub(crate) fn allowance(&self) -> u64 {
        if self.validated {
            u64::MAX
        } else {
            (3 * self.received_bytes).saturating_sub(self.sent_bytes)
        }
    }

    pub(crate) fn on_challenge(&mut self, token: u64) {
        if self.last_challenge_heard != Some(token) {
            self.last_challenge_heard = Some(token);
            self.response_copies = COPIES;
        }
    }

    /// An answer came. Returns the round-trip time if it fits and is the first.
    pub(crate) fn on_response(&mut self, now: Time, token: u64) -> Option<Duration> {
        let (_, at) = self.challenges.iter().find(|(known, _)| *known == token)?;
        if std::mem::replace(&mut self.validated, true) {
            return None;
        }
        self.retry_at = None;
        self.challenge_copies = 0;
        Some(now.since(*at))
    }

    /// A packet of a train came, of `size` bytes of UDP payload.
    /// It says that it left so long after the first one.
    pub(crate) fn on_train(
        &mut self,
        now: Time,
        (id, index, count): (u8, u8, u8),
        left: Duration,
        size: u16,
    ) {
        if self.incoming.as_ref().is_none_or(|train| id > train.id) {
            self.incoming = Some(Incoming {
                id,
                receiver: TrainReceiver::new(usize::from(count)),
                count,
                seen: [0; 4],
                received: 0,
                largest: 0,
                first_at: now,
                last_at: now,
                reported: 0,
                done: false,
            });
        }
        let Some(train) = &mut self.incoming else {
            return;
        };
        let (word, bit) = (usize::from(index / 64), 1 << (index % 64));
        if train.id != id || train.count != count || train.seen[word] & bit != 0 {
            return;
        }
        train.seen[word] |= bit;
        train.received += 1;
        train.largest = train.largest.max(size);
        train.last_at = now;
        let bytes = u64::from(size) + HEADER_BYTES;
        (train.receiver).push(usize::from(index), now, left, bytes);
    }

    /// Makes the report on the incoming train due, if it is time. Returns whether it was.
    pub(crate) fn check_train(&mut self, now: Time) -> bool {
        let Some(train) = &mut self.incoming else {
            return false;
        };
        if train.report_due().is_none_or(|due| due > now) {
            return false;
        }
        let early =
            train.reported == 0 && train.received < train.count && now < train.last_at + MIN_QUIET;
        train.done = !early;
        train.reported = train.received;
        // As long as more may come nothing is known of what did not.
        let (clear, clear_received) = match train.done {
            true => train.receiver.before_overflow(),
            false => (0, 0),
        };
        let mut report = Report {
            train: train.id,
            received: train.received,
            // No more than the train has.
            clear: clear as u8,
            clear_received: clear_received as u8,
            largest: train.largest,
            ..Report::default()
        };
        if let Some(estimate) = train.receiver.estimate() {
            let above = estimate
                .high
                .map_or(0, |high| high.saturating_sub(estimate.rate));
            let band = above.max(estimate.rate.saturating_sub(estimate.low));
            let permille = u128::from(band) * 1000 / u128::from(estimate.rate.max(1));
            report.rate = estimate.rate;
            report.error = u16::try_from(permille.min(1000)).unwrap_or(1000);
            report.at_least = estimate.is_lower_bound();
            self.incoming_rate = self.incoming_rate.max(estimate.rate);
        }
        if train.id == SETUP_TRAIN && train.done {
            self.measured = Some(TrainResult::new(&report, train.count));
        }
        self.told = Some(Told {
            report,
            is_due: true,
            said: 0,
            again_at: None,
        });
        true
    }

    /// Returns how many packets of the incoming train came, and out of how many, before it overflowed a queue if it did; once it
    /// is over.
    pub(crate) fn incoming_result(&self) -> Option<(u8, u8)> {
        // None are clear as long as more may come.
        let report = self.report().filter(|report| report.clear > 0)?;
        Some((report.clear_received, report.clear))
    }

    /// Returns what the incoming train of the set-up told, once it is over.
    pub(crate) fn measured(&self) -> Option<TrainResult> {
        self.measured
    }

    /// Returns whether the other end's train is over, or there was none.
    pub(crate) fn incoming_is_over(&self) -> bool {
        self.incoming.as_ref().is_none_or(|train| train.done)
    }

    pub(crate) fn incoming_rate(&self) -> u64 {
        self.incoming_rate
    }

    /// Returns the challenge to send now.
    pub(crate) fn due_challenge(&self) -> Option<u64> {
        let (token, _) = self.challenges.last()?;
        (self.challenge_copies > 0).then_some(*token)
    }

    pub(crate) fn on_challenge_sent(&mut self) {
        self.challenge_copies = self.challenge_copies.saturating_sub(1);
    }

    /// Returns the answer to send now.
    pub(crate) fn due_response(&self) -> Option<u64> {
        (self.last_challenge_heard).filter(|_| self.response_copies > 0)
    }

    pub(crate) fn on_response_sent(&mut self) {
        self.response_copies = self.response_copies.saturating_sub(1);
    }

    /// Returns what the last train told.
    pub(crate) fn report(&self) -> Option<Report> {
        self.told.as_ref().map(|told| told.report)
    }

    pub(crate) fn due_report(&self) -> Option<Report> {
        (self.told.as_ref())
            .filter(|told| told.is_due)
            .map(|told| told.report)
    }

    pub(crate) fn on_report_sent(&mut self, now: Time) {
        if let Some(told) = &mut self.told {
            told.again_at = REPORT_AGAIN.get(told.said).map(|after| now + *after);
            told.said += 1;
            told.is_due = false;
        }
    }

    /// Returns the number of the next packet of the own train.
    pub(crate) fn due_train(&self) -> Option<u8> {
        (self.train_left > 0).then(|| TRAIN_PACKETS - self.train_left)
    }

    /// A packet of the own train left, of `size` bytes of UDP payload.
    pub(crate) fn on_train_sent(&mut self, now: Time, size: u16) {
        self.train_left = self.train_left.saturating_sub(1);
        let before = self.train_sent.last().map_or(0, |(_, bytes)| *bytes);
        let bytes = before + u64::from(size) + HEADER_BYTES;
        self.train_sent.push((now, bytes));
    }

    /// Returns how long ago the first packet of the own train left.
    pub(crate) fn train_since(&self, now: Time) -> Duration {
        (self.train_sent.first()).map_or(Duration::ZERO, |(first, _)| now.since(*first))
    }

    /// The packet of the own train that was made last did not leave.
    pub(crate) fn on_train_refused(&mut self) {
        self.train_left = (self.train_left + 1).min(TRAIN_PACKETS);
        self.train_sent.pop();
    }

    /// Says whether a packet of the own train has left.
    pub(crate) fn has_sent_train(&self) -> bool {
        !self.train_sent.is_empty()
    }

    /// Returns the rate at which the fastest stretch of the own train left, in bytes on the wire per second. `None`: not known,
    /// or all at once.
    pub(crate) fn train_rate(&self) -> Option<u64> {
        if self.train_left > 0 {
            return None;
        }
        let ends = self.train_sent.get(STRETCH..)?;
        let stretches = self.train_sent.iter().zip(ends);
        let rates = stretches.map(|((from, before), (to, bytes))| match to.since(*from) {
            Duration::ZERO => None,
            took => Some(rate_of(bytes - before, took)),
        });
        // A stretch that left at one moment has no rate: the train was as fast as can be.
        rates.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Returns the numbers that a packet of the own train carries: a challenge, and the last answer.
    pub(crate) fn train_tokens(&self) -> (Option<u64>, Option<u64>) {
        let challenge = self.challenges.last().map(|(token, _)| *token);
        (
            challenge.filter(|_| !self.validated),
            self.last_challenge_heard,
        )
    }

    /// Returns when something is to be done.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let report = self.incoming.as_ref().and_then(Incoming::report_due);
        let again = self.told.as_ref().and_then(|told| told.again_at);
        let set_up = (!self.validated).then_some([self.retry_at, Some(self.give_up_at)]);
        ([report, again].into_iter())
            .chain(set_up.into_iter().flatten())
            .flatten()
            .min()
    }

    /// Does what is due. Returns whether the path is to be given up.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        if let Some(told) = &mut self.told
            && told.again_at.is_some_and(|at| at <= now)
        {
            (told.again_at, told.is_due) = (None, true);
        }
        if self.validated {
            return false;
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.challenge(now);
        }
        now >= self.give_up_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns when something was due until `until`, and whether that is a challenge or a report, sending it at once.
    fn due(setup: &mut Setup, until: Time) -> Vec<(u64, &'static str)> {
        let mut all = Vec::new();
        while let Some(now) = setup.next_timeout().filter(|at| *at <= until) {
            let _ = setup.check_train(now);
            let _ = setup.handle_timeout(now);
            let at = now.as_nanos() / 1_000_000;
            if setup.due_report().is_some() {
                setup.on_report_sent(now);
                all.push((at, "report"));
            }
            while setup.due_challenge().is_some() {
                setup.on_challenge_sent();
                all.push((at, "challenge"));
            }
        }
        all
    }

    #[test]
    fn a_report_is_sent_thrice() {
        let config = Config::default();
        let mut setup = Setup::new(Time::ZERO, 1, &config);
        for index in 0..TRAIN_PACKETS {
            let packet = (SETUP_TRAIN, index, TRAIN_PACKETS);
            setup.on_train(Time::ZERO + MS, packet, Duration::ZERO, 1472);
        }
        let reports = [1, 2, 6].map(|at| (at, "report"));
        assert_eq!(due(&mut setup, Time::ZERO + 1000 * MS), reports);
        assert!(setup.report().is_some(), "for packets of the own train");
    }

    #[test]
    fn a_challenge_waits_for_the_round_trip_that_is_known() {
        let mut config = Config::default();
        for (rtt, expected) in [(None, [400, 1200]), (Some(4 * MS), [10, 30])] {
            config.prior.rtt = rtt;
            let mut setup = Setup::new(Time::ZERO, 1, &config);
            setup.challenge(Time::ZERO);
            setup.on_challenge_sent();
            setup.on_challenge_sent();
            let twice = expected.map(|at| [(at, "challenge"); 2]);
            let until = Time::ZERO + (expected[1] + 1) as u32 * MS;
            assert_eq!(due(&mut setup, until), twice.concat());
        }
        // Where the path is slower than a second, so are all of them; but they come before it is given up.
        config.setup_timeout = Duration::from_secs(60);
        for (rtt, expected) in [(2000 * MS, 2505), (Duration::MAX, 12_505)] {
            config.prior.rtt = Some(rtt);
            let mut setup = Setup::new(Time::ZERO, 1, &config);
            setup.challenge(Time::ZERO);
            assert_eq!(setup.next_timeout(), Some(Time::ZERO + expected * MS));
        }
    }
}
