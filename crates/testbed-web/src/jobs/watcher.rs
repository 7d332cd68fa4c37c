//! Looks at the run that goes on, a few times a second.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use transpute_netem::model::PathCounters;
use transpute_testbed::live::{Live, Look, Phase, Use};

use super::Log;

/// How often.
const INTERVAL: Duration = Duration::from_millis(100);

/// The most samples of a run: when there are more, every second one is dropped, and from then on half as many are taken.
const MOST_SAMPLES: usize = 2000;

/// How a run is at a moment, for users.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Sample {
    number: u64,
    at_ms: Option<f64>,
    up: Way,
    down: Way,
    retransmitted_segments: Option<u64>,
    garbler: Option<Busy>,
    evaluator: Option<Busy>,
}

/// One direction.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Way {
    mbit: f64,
    packets_in: u64,
    bytes_in: u64,
    bytes_out: u64,
    lost_packets: u64,
    overflowed_packets: u64,
    queue_peak_bytes: u64,
}

/// One party.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Busy {
    cpu_percent: f64,
    user_s: f64,
    system_s: f64,
    rss_bytes: u64,
}

impl Sample {
    /// Returns what party A and party B had used of the processors by then, in seconds.
    pub(super) fn cpu_s(&self) -> [Option<f64>; 2] {
        [self.garbler, self.evaluator].map(|busy| busy.map(|busy| busy.user_s + busy.system_s))
    }
}

/// A phase, as an event.
#[derive(Serialize)]
struct PhaseEvent {
    number: u64,
    #[serde(flatten)]
    phase: Phase,
}

/// What is known of the run that goes on.
#[derive(Debug, Default)]
struct Seen {
    number: u64,
    before: Option<(Instant, Look)>,
    samples: Vec<Sample>,
    /// Every so many looks one is kept.
    every: usize,
    looks: usize,
    phases: usize,
}

/// The thread that looks. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watcher {
    seen: Arc<Mutex<Seen>>,
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watcher {
    /// Starts to look and to tell.
    pub(super) fn start(live: Live, log: Log) -> std::io::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let over = Arc::new(AtomicBool::new(false));
        let (looking, ended) = (Arc::clone(&seen), Arc::clone(&over));
        let thread = thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let mut seen = lock(&looking);
                    // With the lock held, the number cannot change in between.
                    if let Some(look) = live.look() {
                        seen.take(look, &log);
                    }
                    drop(seen);
                    thread::park_timeout(INTERVAL);
                }
            })?;
        Ok(Self {
            seen,
            over,
            thread: Some(thread),
        })
    }

    /// Says that a run begins.
    pub(super) fn begin(&self, number: u64) {
        *lock(&self.seen) = Seen {
            number,
            every: 1,
            ..Seen::default()
        };
    }

    /// Takes what was seen last of the run, and returns all samples of it.
    pub(super) fn end(&self, last: Option<&Look>, log: &Log) -> Vec<Sample> {
        let mut seen = lock(&self.seen);
        if let Some(look) = last {
            seen.take(look.clone(), log);
        }
        seen.before = None;
        std::mem::take(&mut seen.samples)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn take(&mut self, look: Look, log: &Log) {
        for &phase in look.phases.iter().skip(self.phases) {
            let number = self.number;
            log.tell("phase", &PhaseEvent { number, phase });
        }
        self.phases = look.phases.len();
        let now = Instant::now();
        let sample = self.sample(now, &look);
        log.tell("sample", &sample);
        self.before = Some((now, look));
        self.looks += 1;
        if !self.looks.is_multiple_of(self.every.max(1)) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() > MOST_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.every = self.every.max(1) * 2;
        }
    }

    fn sample(&self, now: Instant, look: &Look) -> Sample {
        let before = self.before.as_ref();
        let seconds = before.map(|(when, _)| (now - *when).as_secs_f64());
        let way = |index: usize| {
            let counters: &PathCounters = &look.counters[index];
            let arrived = before.map_or(0, |(_, look)| look.counters[index].bytes_out);
            let bits = counters.bytes_out.saturating_sub(arrived) as f64 * 8.0;
            // Of a first look it is since the first packet.
            let since = seconds.or(look.elapsed.map(|elapsed| elapsed.as_secs_f64()));
            let mbit = match since {
                Some(seconds) if seconds > 1e-6 => bits / 1e6 / seconds,
                _ => 0.0,
            };
            Way {
                mbit: (mbit * 1e3).round() / 1e3,
                packets_in: counters.packets_in,
                bytes_in: counters.bytes_in,
                bytes_out: counters.bytes_out,
                lost_packets: counters.lost_packets,
                overflowed_packets: counters.overflowed_packets,
                queue_peak_bytes: counters.queue_peak_bytes,
            }
        };
        let busy = |index: usize| {
            let uses = look.parties[index]?;
            let spent = |uses: Use| (uses.user + uses.system).as_secs_f64();
            let was = before.and_then(|(_, look)| look.parties[index]).map(spent);
            let percent = match (was, seconds) {
                (Some(was), Some(seconds)) if seconds > 1e-6 => {
                    (spent(uses) - was).max(0.0) / seconds * 100.0
                }
                _ => 0.0,
            };
            Some(Busy {
                cpu_percent: percent.round(),
                user_s: uses.user.as_secs_f64(),
                system_s: uses.system.as_secs_f64(),
                rss_bytes: uses.rss_bytes,
            })
        };
        Sample {
            number: self.number,
            at_ms: (look.elapsed).map(|elapsed| (elapsed.as_secs_f64() * 1e6).round() / 1e3),
            up: way(0),
            down: way(1),
            retransmitted_segments: look.retransmitted_segments,
            garbler: busy(0),
            evaluator: busy(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_testbed::live::{PartyName, PhaseName};

    use super::*;

    fn look(bytes_out: u64) -> Look {
        Look {
            elapsed: Some(Duration::from_millis(bytes_out)),
            counters: [PathCounters {
                bytes_out,
                ..PathCounters::default()
            }; 2],
            retransmitted_segments: Some(1),
            parties: [None; 2],
            phases: vec![Phase {
                party: PartyName::Garbler,
                phase: PhaseName::Started,
                at_ms: None,
            }],
        }
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_samples() {
        let log = Log::new();
        let mut seen = Seen {
            number: 3,
            ..Seen::default()
        };
        for number in 0..5 * MOST_SAMPLES as u64 {
            seen.take(look(number), &log);
        }
        assert!((MOST_SAMPLES / 2..=MOST_SAMPLES).contains(&seen.samples.len()));
        let times: Vec<_> = seen
            .samples
            .iter()
            .map(|sample| sample.up.bytes_out)
            .collect();
        assert!(times.is_sorted());
        assert!(*times.last().unwrap() > 5 * MOST_SAMPLES as u64 - 20);
    }

    #[test]
    fn rates_are_of_what_came_since_the_look_before() {
        let mut seen = Seen::default();
        let start = Instant::now();
        let first = seen.sample(start, &look(1000));
        // 1000 bytes in the second since the first packet.
        assert_eq!(first.up.mbit, 0.008);
        seen.before = Some((start, look(1000)));
        let second = seen.sample(start + Duration::from_secs(2), &look(251_000));
        assert_eq!(second.up.mbit, 1.0);
    }

    #[test]
    fn a_phase_is_told_once() {
        let log = Log::new();
        let mut seen = Seen::default();
        seen.take(look(1), &log);
        seen.take(look(2), &log);
        let names: Vec<_> = (log.after(0).events.iter())
            .map(|event| event.name)
            .collect();
        assert_eq!(names, ["phase", "sample", "sample"]);
    }
}
