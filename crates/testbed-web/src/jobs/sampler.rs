//! Samples the run in progress: traffic, processor time and phases.

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
use transpute_testbed::live::{Live, LiveState, Phase, Use};

use super::Log;

/// Time between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of stored samples per run. When it is exceeded, every second stored sample is
/// dropped, and from then on samples are stored half as often.
const MAX_SAMPLES: usize = 2000;

/// The state of a run at one moment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Sample {
    number: u64,
    at_ms: Option<f64>,
    up: DirectionSample,
    down: DirectionSample,
    retransmitted_segments: Option<u64>,
    garbler: Option<PartySample>,
    evaluator: Option<PartySample>,
}

/// The rate and the packet counters of one direction of the path.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct DirectionSample {
    mbit: f64,
    packets_in: u64,
    bytes_in: u64,
    bytes_out: u64,
    lost_packets: u64,
    overflowed_packets: u64,
    queue_peak_bytes: u64,
}

/// Processor time and memory of one party.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct PartySample {
    cpu_percent: f64,
    user_s: f64,
    system_s: f64,
    rss_bytes: u64,
}

impl Sample {
    /// Returns the processor time of party A and party B up to this sample, in seconds.
    pub(super) fn cpu_s(&self) -> [Option<f64>; 2] {
        [self.garbler, self.evaluator].map(|party| party.map(|party| party.user_s + party.system_s))
    }
}

/// The data of a phase event.
#[derive(Serialize)]
struct PhaseEvent {
    number: u64,
    #[serde(flatten)]
    phase: Phase,
}

/// The samples of the run in progress.
#[derive(Debug, Default)]
struct Series {
    number: u64,
    before: Option<(Instant, LiveState)>,
    samples: Vec<Sample>,
    /// One in this number of samples is stored.
    every: usize,
    looks: usize,
    phases: usize,
}

/// The sampling thread. It ends on drop.
#[derive(Debug)]
pub(super) struct Sampler {
    series: Arc<Mutex<Series>>,
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread. It adds samples and phases to `log` as events.
    pub(super) fn start(live: Live, log: Log) -> std::io::Result<Self> {
        let series = Arc::new(Mutex::new(Series::default()));
        let over = Arc::new(AtomicBool::new(false));
        let (looking, ended) = (Arc::clone(&series), Arc::clone(&over));
        let thread = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let mut series = lock(&looking);
                    // The lock is held while the run is sampled, so that a sample cannot get the
                    // number of the next run.
                    if let Some(look) = live.look() {
                        series.take(look, &log);
                    }
                    drop(series);
                    thread::park_timeout(SAMPLE_INTERVAL);
                }
            })?;
        Ok(Self {
            series,
            over,
            thread: Some(thread),
        })
    }

    /// Starts a new series for the run with this number.
    pub(super) fn begin(&self, number: u64) {
        *lock(&self.series) = Series {
            number,
            every: 1,
            ..Series::default()
        };
    }

    /// Adds the last sample of the run and returns all samples of the run.
    pub(super) fn end(&self, last: Option<&LiveState>, log: &Log) -> Vec<Sample> {
        let mut series = lock(&self.series);
        if let Some(look) = last {
            series.take(look.clone(), log);
        }
        series.before = None;
        std::mem::take(&mut series.samples)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn lock(series: &Mutex<Series>) -> MutexGuard<'_, Series> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Series {
    fn take(&mut self, look: LiveState, log: &Log) {
        for &phase in look.phases.iter().skip(self.phases) {
            let number = self.number;
            log.push("phase", &PhaseEvent { number, phase });
        }
        self.phases = look.phases.len();
        let now = Instant::now();
        let sample = self.sample(now, &look);
        log.push("sample", &sample);
        self.before = Some((now, look));
        self.looks += 1;
        if !self.looks.is_multiple_of(self.every.max(1)) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() > MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.every = self.every.max(1) * 2;
        }
    }

    fn sample(&self, now: Instant, look: &LiveState) -> Sample {
        let before = self.before.as_ref();
        let seconds = before.map(|(when, _)| (now - *when).as_secs_f64());
        let direction = |index: usize| {
            let counters: &PathCounters = &look.counters[index];
            let arrived = before.map_or(0, |(_, look)| look.counters[index].bytes_out);
            let bits = counters.bytes_out.saturating_sub(arrived) as f64 * 8.0;
            // The first sample covers the time since the parties' first packet.
            let since = seconds.or(look.elapsed.map(|elapsed| elapsed.as_secs_f64()));
            let mbit = match since {
                Some(seconds) if seconds > 1e-6 => bits / 1e6 / seconds,
                _ => 0.0,
            };
            DirectionSample {
                mbit: (mbit * 1e3).round() / 1e3,
                packets_in: counters.packets_in,
                bytes_in: counters.bytes_in,
                bytes_out: counters.bytes_out,
                lost_packets: counters.lost_packets,
                overflowed_packets: counters.overflowed_packets,
                queue_peak_bytes: counters.queue_peak_bytes,
            }
        };
        let party = |index: usize| {
            let uses = look.parties[index]?;
            let spent = |uses: Use| (uses.user + uses.system).as_secs_f64();
            let was = before.and_then(|(_, look)| look.parties[index]).map(spent);
            let percent = match (was, seconds) {
                (Some(was), Some(seconds)) if seconds > 1e-6 => {
                    (spent(uses) - was).max(0.0) / seconds * 100.0
                }
                _ => 0.0,
            };
            Some(PartySample {
                cpu_percent: percent.round(),
                user_s: uses.user.as_secs_f64(),
                system_s: uses.system.as_secs_f64(),
                rss_bytes: uses.rss_bytes,
            })
        };
        Sample {
            number: self.number,
            at_ms: (look.elapsed).map(|elapsed| (elapsed.as_secs_f64() * 1e6).round() / 1e3),
            up: direction(0),
            down: direction(1),
            retransmitted_segments: look.retransmitted_segments,
            garbler: party(0),
            evaluator: party(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_testbed::live::{PartyName, PhaseName};

    use super::*;

    fn look(bytes_out: u64) -> LiveState {
        LiveState {
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
        let mut series = Series {
            number: 3,
            ..Series::default()
        };
        for number in 0..5 * MAX_SAMPLES as u64 {
            series.take(look(number), &log);
        }
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&series.samples.len()));
        let times: Vec<_> = series
            .samples
            .iter()
            .map(|sample| sample.up.bytes_out)
            .collect();
        assert!(times.is_sorted());
        assert!(*times.last().unwrap() > 5 * MAX_SAMPLES as u64 - 20);
    }

    #[test]
    fn rates_cover_the_time_since_the_previous_sample() {
        let mut series = Series::default();
        let start = Instant::now();
        let first = series.sample(start, &look(1000));
        // 1,000 bytes in the first second are 0.008 Mbit/s.
        assert_eq!(first.up.mbit, 0.008);
        series.before = Some((start, look(1000)));
        let second = series.sample(start + Duration::from_secs(2), &look(251_000));
        assert_eq!(second.up.mbit, 1.0);
    }

    #[test]
    fn a_phase_is_reported_once() {
        let log = Log::new();
        let mut series = Series::default();
        series.take(look(1), &log);
        series.take(look(2), &log);
        let names: Vec<_> = (log.after(0).events.iter())
            .map(|event| event.name)
            .collect();
        assert_eq!(names, ["phase", "sample", "sample"]);
    }
}
