//! Cases: a workload and the conditions of a path, for which every transport is run.

use std::time::Duration;

use serde::Serialize;
use transpute_netem::scenario::Scenario;
use transpute_select::Spec;
use transpute_units::Bandwidth;

use crate::runner::Cell;

/// Maximum time of a randomly drawn case at the link rate ([`SelectionCase::line_seconds`]), in
/// seconds. It limits the duration of a sweep.
pub const MAX_LINE_SECONDS: f64 = 5.0;

/// The default upper bound of the time after which a run is cut off.
pub const DEFAULT_CUT_OFF: Duration = Duration::from_secs(30);

/// A run is cut off after this multiple of the time of its case at the link rate. A transport that
/// takes longer is a bad choice, so its exact time is not needed.
const CUT_OFF_FACTOR: f64 = 6.0;

/// Minimum time until a run is cut off, in seconds.
const MIN_CUT_OFF: f64 = 8.0;

/// Typical payload from garbler to evaluator per AND gate, in bytes. Tables take 32 bytes per AND
/// gate, and labels at most 12.
const BYTES_PER_AND: f64 = 40.0;

/// Typical number of round trips from the first packet to the output, for connecting, the TLS
/// handshake, the agreement on the run and oblivious transfer.
const ROUND_TRIPS: f64 = 5.0;

/// Typical time of the steps of a run that do not depend on the path or the circuit, in seconds:
/// starting two processes and loading their keys.
const SECONDS_PER_RUN: f64 = 0.1;

/// Typical seconds of computing per AND gate, on a machine whose processors both parties share.
const SECONDS_PER_AND: f64 = 4e-7;

/// Time for which cross traffic runs before the parties start, in seconds.
const CROSS_HEAD_START: f64 = 2.0;

/// Payload bytes of a TCP packet.
const SEGMENT: f64 = 1448.0;

/// Typical time until a transport over UDP gives up if a firewall drops its packets, in seconds.
const SECONDS_TO_GIVE_UP: f64 = 6.0;

/// A part of the data: the cells to which models are fitted, or the cells that judge them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Cells that models are fitted to.
    Fit,
    /// Cells that no model is fitted to. They are used to judge models.
    Unseen,
}

impl Part {
    /// Returns the part that a cell belongs to. A hash of the conditions decides, so the part does
    /// not depend on other cells or on the order of runs. Each part has about half of all cells.
    #[must_use]
    pub fn of(scenario: &Scenario, circuit: &str, batch: u64) -> Self {
        // The text lists the fields one by one. So a new field of `Scenario` does not change the
        // hash of existing cells.
        let up = &scenario.up;
        let cross = scenario.cross_traffic.as_ref();
        let text = format!(
            "{circuit} {batch} {} {} {:?} {:?} {} {}",
            scenario.rtt_ms(),
            up.loss,
            up.rate_mbit,
            up.queue_limit_bytes(),
            scenario.blocks_udp(),
            cross.map_or(0, |cross| cross.flows),
        );
        // This is the 64-bit FNV-1a hash. Its upper bits are well mixed, its lower bits are not.
        let hash = (text.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if transpute_netem::model::derive_seed(hash, 0) & 1 == 0 {
            Self::Fit
        } else {
            Self::Unseen
        }
    }

    /// Returns the name of the part in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Unseen => "unseen",
        }
    }
}

/// A workload and the conditions of a path, for which a transport is chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectionCase {
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The circuit, as `transpute run --circuit` takes it.
    pub circuit: String,
    /// Number of evaluations in a run.
    pub batch: u64,
    /// Number of AND gates of all evaluations together.
    pub and_gates: u64,
}

impl SelectionCase {
    /// Returns the part of the data that the case belongs to.
    #[must_use]
    pub fn part(&self) -> Part {
        Part::of(&self.scenario, &self.circuit, self.batch)
    }

    /// Returns the approximate time of the case at the link rate, in seconds. It does not include
    /// slow start, loss and computing.
    #[must_use]
    pub fn line_seconds(&self) -> f64 {
        let flows = (self.scenario.cross_traffic.as_ref()).map_or(0, |cross| cross.flows);
        // Competing flows and the parties each get an equal share of the rate.
        let share = 1.0 / f64::from(flows + 1);
        let sending = self.scenario.up.rate_mbit.map_or(0.0, |rate| {
            (Bandwidth::from_megabits_per_second(rate) * share).seconds_to_send(self.bytes())
        });
        sending + ROUND_TRIPS * self.rtt_seconds()
    }

    /// Returns the time after which a run of the case is cut off. `max` is its upper bound.
    #[must_use]
    pub fn cut_off(&self, max: Duration) -> Duration {
        let seconds = (CUT_OFF_FACTOR * self.line_seconds()).max(MIN_CUT_OFF);
        // The time is rounded up to whole seconds, which are easier to read.
        Duration::from_secs_f64(seconds.ceil().min(86_400.0)).min(max)
    }

    /// Returns the approximate time of a run over a transport, including set-up, to plan a sweep.
    /// It is not accurate enough to choose a transport. The transfer is assumed to take at most
    /// [`cut_off`](Self::cut_off).
    #[must_use]
    pub fn estimate(&self, transport: &str, most: Duration) -> Duration {
        let rtt = self.rtt_seconds();
        // This is the rate of Reno (M. Mathis et al., The macroscopic behavior of the TCP
        // congestion avoidance algorithm, 1997). CUBIC is at least as fast.
        let loss = self.scenario.up.loss;
        let one_flow = 1.22 * SEGMENT / (rtt.max(1e-4) * loss.sqrt().max(1e-9));
        let spec = transport.parse::<Spec>().ok();
        let follows_loss = (spec.as_ref()).is_some_and(|spec| spec.slows_at_losses(None));
        let profile = spec.as_ref().and_then(Spec::profile);
        let flows = profile.map_or(1.0, |profile| f64::from(profile.connections));
        let held_back = match follows_loss {
            true if loss > 0.0 => self.bytes() / (one_flow * flows),
            _ => 0.0,
        };
        let path = self.line_seconds().max(held_back) * 1.2;
        let gates = self.and_gates as f64;
        // Each party generates the circuit, which takes about 1 µs per AND gate.
        let circuit = gates / self.batch as f64 * 1e-6;
        let computing = gates * SECONDS_PER_AND;
        let cross = match &self.scenario.cross_traffic {
            Some(_) => CROSS_HEAD_START,
            None => 0.0,
        };
        let seconds = if self.dooms(transport) {
            SECONDS_TO_GIVE_UP
        } else {
            (path.max(computing)).min(self.cut_off(most).as_secs_f64())
        };
        let seconds = seconds + circuit + cross + SECONDS_PER_RUN;
        Duration::from_secs_f64(seconds)
    }

    /// Returns the runs of this case, one per transport. If a firewall drops UDP, the failure of a
    /// transport over UDP is its result. Such a run is cut off only after `cut_off`, so that the
    /// transport can report its failure. All other runs are cut off after
    /// [`cut_off`](Self::cut_off).
    #[must_use]
    pub fn runs(&self, transports: &[String], cut_off: Duration) -> Vec<Cell> {
        let cell = |transport: &String| {
            let doomed = self.dooms(transport);
            let limit = if doomed {
                cut_off
            } else {
                self.cut_off(cut_off)
            };
            Cell {
                scenario: self.scenario.clone(),
                circuit: self.circuit.clone(),
                scheme: "half-gates".to_owned(),
                transport: transport.clone(),
                batch: self.batch,
                encrypted: true,
                cut_off: Some(limit),
                may_fail: doomed,
            }
        };
        transports.iter().map(cell).collect()
    }

    /// Returns whether a transport cannot work because the scenario drops UDP.
    fn dooms(&self, transport: &str) -> bool {
        let spec = transport.parse::<Spec>().ok();
        let profile = spec.as_ref().and_then(Spec::profile);
        self.scenario.blocks_udp() && profile.is_some_and(|profile| profile.needs_udp)
    }

    fn bytes(&self) -> f64 {
        self.and_gates as f64 * BYTES_PER_AND
    }

    fn rtt_seconds(&self) -> f64 {
        self.scenario.rtt_ms() / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(rtt_ms: f64, loss: f64, rate: f64, and_gates: u64) -> SelectionCase {
        let scenario = Scenario::named("eu-us").unwrap();
        SelectionCase {
            scenario: scenario
                .with_rtt_ms(rtt_ms)
                .with_loss(loss)
                .with_rate_mbit(rate),
            circuit: "aes128".to_owned(),
            batch: 1,
            and_gates,
        }
    }

    #[test]
    fn a_part_is_that_of_the_conditions() {
        let base = case(50.0, 0.01, 100.0, 6400);
        let mut renamed = base.clone();
        renamed.scenario.name = "other".to_owned();
        renamed.scenario.seed = 99;
        renamed.and_gates = 0;
        assert_eq!(base.part(), renamed.part());
        // The parts must not change, because the built-in model was fitted to one of them.
        let parts: Vec<_> = (1..=8)
            .map(|step| case(f64::from(step), 0.0, 100.0, 6400).part().name())
            .collect();
        assert_eq!(parts, PINNED);
        let fitted = (0..1000)
            .filter(|&step| case(f64::from(step), 0.0, 100.0, 1).part() == Part::Fit)
            .count();
        assert!((440..560).contains(&fitted), "{fitted}");
    }

    const PINNED: [&str; 8] = [
        "unseen", "unseen", "fit", "fit", "unseen", "fit", "unseen", "unseen",
    ];

    #[test]
    fn estimates_know_loss_rate_and_cross_traffic() {
        // 40 MB at 100 Mbit/s take 3.2 s.
        let clean = case(10.0, 0.0, 100.0, 1_000_000);
        assert!((clean.line_seconds() - 3.25).abs() < 1e-9);
        let most = DEFAULT_CUT_OFF;
        assert_eq!(clean.cut_off(most), Duration::from_secs(20));
        assert_eq!(
            clean.cut_off(Duration::from_secs(7)),
            Duration::from_secs(7)
        );
        let lossy = case(100.0, 0.001, 100.0, 1_000_000);
        assert!(lossy.estimate("tcp", most) > 2 * lossy.estimate("rudp", most));
        assert!(lossy.estimate("tcp", most) < lossy.cut_off(most) + Duration::from_secs(3));
        assert!(lossy.estimate("tcp-striped", most) < lossy.estimate("tcp:cc=cubic", most));
        assert_eq!(
            lossy.estimate("tcp:cc=bbr", most),
            lossy.estimate("quic", most)
        );
        let mut shared = clean.clone();
        shared.scenario.cross_traffic = Scenario::named("cross-traffic").unwrap().cross_traffic;
        assert!(shared.line_seconds() > 1.9 * clean.line_seconds());
        // A small case is cut off late enough for retransmissions.
        let small = case(1.0, 0.03, 100.0, 1000);
        assert_eq!(small.cut_off(most), Duration::from_secs(8));
    }

    #[test]
    fn every_transport_is_run() {
        let mut case = case(10.0, 0.0, 100.0, 6400);
        let transports = ["tcp".to_owned(), "rudp".to_owned()];
        let runs = case.runs(&transports, DEFAULT_CUT_OFF);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[1].transport, "rudp");
        assert_eq!(runs[1].cut_off, Some(Duration::from_secs(8)));
        assert!(!runs[1].may_fail);
        assert_eq!((&runs[1].scenario, runs[1].batch), (&case.scenario, 1));
        case.scenario = case.scenario.with_udp_blocked(true);
        let runs = case.runs(&transports, DEFAULT_CUT_OFF);
        assert_eq!((runs[0].may_fail, runs[1].may_fail), (false, true));
        assert_eq!(runs[1].cut_off, Some(DEFAULT_CUT_OFF));
    }
}
