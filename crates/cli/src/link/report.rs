//! Computes and prints the report of a transfer.

use std::time::Duration;

use serde::Serialize;

use transpute::transport::LinkInfo;

use super::{
    LinkArgs,
    wire::{Request, Side, Task},
};
use crate::{
    failure::{Failure, FailureKind},
    output::{self, grouped},
};

/// One transfer, as reported by both sides.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The number of the transfer, out of `of`.
    pub(super) transfer: u64,
    pub(super) of: u64,
    pub(super) role: Role,
    pub(super) task: Task,
    pub(super) transport: String,
    /// The protection of the link: `pinned`, `unpinned` or `plaintext`. The last two are for
    /// benchmarks.
    pub(super) protection: &'static str,
    pub(super) cipher: Option<String>,
    /// Number of payload bytes or, for a ping-pong, of round trips.
    pub(super) amount: u64,
    pub(super) rate_hint_bits_per_second: Option<u64>,
    /// Time to connect at the side that prints this report.
    pub(super) connect_seconds: f64,
    pub(super) handshake_seconds: f64,
    /// Time in seconds from the start of connecting until the receiver has the last byte. `clock`
    /// names the clock that measured it.
    pub(super) seconds_from_start: Option<f64>,
    /// Time in seconds from the established link until the receiver has the last byte. `clock`
    /// names the clock that measured it.
    pub(super) seconds_from_established: Option<f64>,
    /// The clock that measured `seconds_from_start` and `seconds_from_established`.
    pub(super) clock: ClockUsed,
    /// Payload divided by `seconds_from_established`.
    pub(super) goodput_bits_per_second: Option<f64>,
    pub(super) round_trips: Option<RoundTrips>,
    pub(super) client: Side,
    pub(super) server: Side,
}

/// A side of the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// The side that connected.
    Client,
    /// The side that listened.
    Server,
}

/// The clock that measured a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClockUsed {
    /// Sender and receiver run on one machine, so both used the same clock and the measured time is
    /// exact.
    Shared,
    /// The sender's clock. The time ends when the receiver's receipt arrives, minus half a
    /// round-trip time.
    SenderLessHalfRoundTrip,
    /// The receiver's clock. The time starts when the receiver's side of the link is established.
    Receiver,
}

/// Statistics of the round-trip times of a ping-pong.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct RoundTrips {
    pub(super) count: u64,
    pub(super) min_us: f64,
    pub(super) median_us: f64,
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl RoundTrips {
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let at = |share: f64| {
            let index = (times.len().saturating_sub(1) as f64 * share).round() as usize;
            times.get(index).copied().map(micros)
        };
        let total: Duration = times.iter().sum();
        Some(Self {
            count: times.len() as u64,
            min_us: at(0.0)?,
            median_us: at(0.5)?,
            mean_us: micros(total) / times.len() as f64,
            p99_us: at(0.99)?,
            max_us: at(1.0)?,
        })
    }
}

/// The times in seconds that are computed from the measurements of both sides.
struct Timing {
    from_start: Option<f64>,
    from_established: Option<f64>,
    clock: ClockUsed,
}

impl Timing {
    /// Computes the times. If both sides do not share a clock, only the times of one side are used.
    fn of(task: Task, client: &Side, server: &Side) -> Self {
        let (sender, receiver) = match task {
            Task::Up | Task::PingPong => (client, server),
            Task::Down => (server, client),
        };
        // The result is `None` if the clock was set back between the two times.
        let between = |from: u64, to: u64| Some(to.checked_sub(from)? as f64 / 1e9);
        if client.clock.is_shared_with(&server.clock) {
            let last = receiver.last_byte_ns;
            return Self {
                from_start: (client.started_ns.zip(last)).and_then(|(a, b)| between(a, b)),
                from_established: last.and_then(|last| between(sender.established_ns, last)),
                clock: ClockUsed::Shared,
            };
        }
        if task == Task::Down {
            let last = client.last_byte_ns;
            return Self {
                from_start: (client.started_ns.zip(last)).and_then(|(a, b)| between(a, b)),
                from_established: last.and_then(|last| between(client.established_ns, last)),
                clock: ClockUsed::Receiver,
            };
        }
        let half = client.path.min_rtt_ms.map(|rtt| rtt / 2e3);
        let until_receipt = |from: u64| {
            let seconds = between(from, client.receipt_ns?)? - half?;
            Some(seconds.max(0.0))
        };
        Self {
            from_start: client.started_ns.and_then(until_receipt),
            from_established: until_receipt(client.established_ns),
            clock: ClockUsed::SenderLessHalfRoundTrip,
        }
    }
}

impl Report {
    /// Combines the figures of both sides.
    ///
    /// # Errors
    /// Returns a failure if the receiver got altered data.
    pub(super) fn new(
        role: Role,
        args: &LinkArgs,
        (transfer, of): (u64, u64),
        request: &Request,
        info: &LinkInfo,
        (mine, theirs): (Side, Side),
    ) -> Result<Self, Failure> {
        let peer = match role {
            Role::Client => "at the server",
            Role::Server => "at the client",
        };
        for (side, problem) in [("here", &mine.problem), (peer, &theirs.problem)] {
            if let Some(problem) = problem {
                let message = format!("the data arrived altered {side}: {}", printable(problem));
                return Err(Failure::new(FailureKind::Protocol, message));
            }
        }
        let (client, server) = match role {
            Role::Client => (mine, theirs),
            Role::Server => (theirs, mine),
        };
        let timing = Timing::of(request.task, &client, &server);
        let is_bulk = request.task != Task::PingPong;
        let seconds_from_established = timing.from_established.filter(|_| is_bulk);
        Ok(Self {
            transfer,
            of,
            role,
            task: request.task,
            transport: args.name(info),
            protection: args.protection(),
            cipher: info.cipher.clone(),
            amount: request.amount,
            rate_hint_bits_per_second: None,
            connect_seconds: info.timings.connect.as_secs_f64(),
            handshake_seconds: info.timings.handshake.as_secs_f64(),
            seconds_from_start: timing.from_start.filter(|_| is_bulk),
            seconds_from_established,
            clock: timing.clock,
            goodput_bits_per_second: seconds_from_established
                .filter(|&seconds| seconds > 0.0)
                .map(|seconds| request.amount as f64 * 8.0 / seconds),
            round_trips: None,
            client,
            server,
        })
    }

    /// Prints the transfer, as one JSON object or as text.
    pub(super) fn print(&self, is_json: bool) -> Result<(), Failure> {
        match is_json {
            true => output::print_json(self),
            false => output::print(|out| writeln!(out, "{}", self.line())),
        }
    }

    /// Describes the transfer on a line.
    fn line(&self) -> String {
        let seconds = |time: Option<f64>| match time {
            Some(time) => format!("{time:.6} s"),
            None => "an unknown time".to_owned(),
        };
        let cpu = |side: &Side| match (side.cpu_seconds, side.cpu_is_shared) {
            (Some(time), false) => format!("{time:.3} s"),
            (Some(time), true) => format!("{time:.3} s (with other transfers)"),
            (None, _) => "unknown".to_owned(),
        };
        let what = match (self.task, self.round_trips) {
            (Task::PingPong, Some(times)) => format!(
                "{} round trips: {:.1} us median, {:.1} min, {:.1} mean, {:.1} p99",
                grouped(times.count),
                times.median_us,
                times.min_us,
                times.mean_us,
                times.p99_us
            ),
            (Task::PingPong, None) => format!("{} round trips", grouped(self.amount)),
            (Task::Up | Task::Down, _) => {
                let sender = match self.task {
                    Task::Down => &self.server,
                    _ => &self.client,
                };
                let clock = match self.clock {
                    ClockUsed::Shared => "one clock",
                    ClockUsed::SenderLessHalfRoundTrip => {
                        "the sender's clock, less half a round trip"
                    }
                    ClockUsed::Receiver => "the receiver's clock",
                };
                format!(
                    "{} bytes {} in {} from the link established ({clock}), {} from the start; {} Mbit/s; {}",
                    grouped(self.amount),
                    if self.task == Task::Up { "up" } else { "down" },
                    seconds(self.seconds_from_established),
                    seconds(self.seconds_from_start),
                    (self.goodput_bits_per_second)
                        .map_or("unknown".into(), |rate| format!("{:.1}", rate / 1e6)),
                    sent(sender),
                )
            }
        };
        format!(
            "transfer {} of {} over {} ({}): {what}; processor {} client, {} server",
            self.transfer,
            self.of,
            self.transport,
            self.protection,
            cpu(&self.client),
            cpu(&self.server),
        )
    }
}

fn sent(sender: &Side) -> String {
    let count = |count: Option<u64>| count.map_or("unknown".into(), grouped);
    let path = &sender.path;
    let mut text = format!(
        "sent {} bytes ({} again) in {} packets ({} again)",
        count(path.bytes_sent),
        count(path.bytes_retransmitted),
        count(path.packets_sent),
        count(path.packets_retransmitted),
    );
    if let Some(name) = &path.congestion_control {
        text.push_str(&format!(", {}", printable(name)));
    }
    if let Some(name) = &path.bottleneck {
        text.push_str(&format!(", held back by the {}", printable(name)));
    }
    text
}

/// Replaces control characters in a text from the peer, so that the terminal does not interpret
/// them.
pub(super) fn printable(text: &str) -> String {
    (text.chars().take(100))
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Returns the median: the mean of the two middle values of an even number.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{super::measure::Clock, *};

    fn sides(shared: bool) -> (Side, Side) {
        let clock = |id: &str| Clock {
            boot_id: Some(id.into()),
            host: None,
        };
        let mut client = Side {
            clock: clock("a"),
            started_ns: Some(1_000_000_000),
            established_ns: 2_000_000_000,
            last_byte_ns: Some(6_000_000_000),
            receipt_ns: Some(4_000_000_000),
            ..Side::default()
        };
        client.path.min_rtt_ms = Some(200.0);
        let server = Side {
            clock: clock(if shared { "a" } else { "b" }),
            established_ns: 2_500_000_000,
            last_byte_ns: Some(3_500_000_000),
            ..Side::default()
        };
        (client, server)
    }

    #[test]
    fn the_clock_is_one_where_it_can_be() {
        for (task, shared, clock, from_start, from_established) in [
            (Task::Up, true, ClockUsed::Shared, 2.5, 1.5),
            (Task::Down, true, ClockUsed::Shared, 5.0, 3.5),
            (
                Task::Up,
                false,
                ClockUsed::SenderLessHalfRoundTrip,
                2.9,
                1.9,
            ),
            (Task::Down, false, ClockUsed::Receiver, 5.0, 4.0),
        ] {
            let (client, server) = sides(shared);
            let timing = Timing::of(task, &client, &server);
            assert_eq!(timing.clock, clock);
            assert!((timing.from_start.unwrap() - from_start).abs() < 1e-9);
            assert!((timing.from_established.unwrap() - from_established).abs() < 1e-9);
        }
        let (client, mut server) = sides(true);
        server.last_byte_ns = Some(1);
        assert_eq!(
            Timing::of(Task::Up, &client, &server).from_established,
            None
        );
    }

    #[test]
    fn medians_and_round_trips() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let times = (1..=101).map(Duration::from_micros).collect();
        let rounds = RoundTrips::of(times).unwrap();
        assert_eq!((rounds.count, rounds.min_us.round()), (101, 1.0));
        assert_eq!(
            (rounds.median_us.round(), rounds.p99_us.round()),
            (51.0, 100.0)
        );
        assert!(RoundTrips::of(vec![]).is_none());
    }

    #[test]
    fn the_peer_cannot_steer_a_terminal() {
        assert_eq!(printable("bbr\x1b[2J"), "bbr?[2J");
    }
}
