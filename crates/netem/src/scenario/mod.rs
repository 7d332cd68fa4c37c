//! Network conditions between the two parties of a run.
//!
//! A [`Scenario`] is one emulated path, with a [`PathConfig`] for each direction. Scenarios come
//! from TOML files, whose short forms [`Scenario::parse`] describes, and from [`presets`]. A
//! scenario is validated before anything starts: an error names the invalid field.

mod file;
mod presets;
mod validate;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config_file::ConfigFileError;

pub use presets::{Preset, presets};

/// The minimum size of the queue of a path whose configuration does not specify the queue, in
/// bytes.
///
/// The bandwidth-delay product of a short path is less than one segmentation-offload burst, which
/// no real interface would drop.
pub const MIN_DEFAULT_QUEUE_BYTES: u64 = 256 << 10;

/// Network conditions under which two parties run.
///
/// Party A is the garbler and party B the evaluator wherever the testbed runs both, so garbled
/// tables travel [`up`](Self::up).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name, by which results are grouped.
    pub name: String,
    /// A description in one sentence.
    #[serde(default)]
    pub description: String,
    /// The direction from party A to party B.
    pub up: PathConfig,
    /// The direction from party B to party A.
    pub down: PathConfig,
    /// The largest IP packet in bytes. Default: 1,500.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// The TCP congestion control of both parties. Default: the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// The largest socket buffer in bytes: the maximum of `tcp_rmem` and `tcp_wmem` inside the
    /// namespaces. Default: the value of a new namespace. With less than twice the bandwidth-delay
    /// product, one TCP flow cannot fill the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_buffer: Option<u64>,
    /// Other traffic on the same path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_traffic: Option<CrossTraffic>,
    /// The seed of all random numbers of the path: the same seed drops the same packets of the same
    /// sequence. Default: 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

/// One direction of a path.
///
/// A packet passes, in this order: loss, the path MTU, duplication, the queue before the
/// bottleneck, the bottleneck, and propagation with delay, jitter and reordering. The default is a
/// path without any of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PathConfig {
    /// One-way delay in milliseconds, without the time in the queue and on the bottleneck.
    pub delay_ms: f64,
    /// The maximum deviation of the delay from [`delay_ms`](Self::delay_ms), in either direction,
    /// in milliseconds. The deviation changes linearly between random values, which are drawn every
    /// 10 ms, or every four times the jitter if that is longer. No packet overtakes another by it.
    /// [`Path`](crate::model::Path) gives the reason.
    pub jitter_ms: f64,
    /// The probability that a packet is lost, independently of all others.
    pub loss: f64,
    /// Burst loss, in addition to [`loss`](Self::loss).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<GilbertElliott>,
    /// The probability that a packet overtakes packets sent before it.
    pub reorder: f64,
    /// The probability that a packet arrives twice.
    pub duplicate: f64,
    /// Drops every UDP packet before the path, as a firewall does, without a message to its sender.
    /// The [`lab`](crate::lab) does this, because [`Path`](crate::model::Path) does not look into
    /// packets. Default: no.
    #[serde(skip_serializing_if = "is_false")]
    pub udp_blocked: bool,
    /// The rate of the bottleneck in Mbit/s of IP packets (10^6 bits per second). Default: none, so
    /// that the path is as fast as the emulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit: Option<f64>,
    /// The size of the queue before the bottleneck, in bytes of IP packets. A packet that does not
    /// fit is dropped. Default: see [`queue_limit_bytes`](Self::queue_limit_bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// The size of the queue as a multiple of the bandwidth-delay product, instead of
    /// [`queue_bytes`](Self::queue_bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bdp: Option<f64>,
    /// The largest IP packet that passes, in bytes. Larger packets are dropped and never
    /// fragmented. Default: [`Scenario::mtu`], the largest packet that the parties' interfaces
    /// send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Reports a packet larger than [`path_mtu`](Self::path_mtu) to its sender by ICMP (RFC 1191).
    /// Default: no, as on paths whose firewalls drop ICMP.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub icmp: bool,
    /// Changes of the path while it is in use, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

impl PathConfig {
    /// Returns the maximum number of bytes that wait for the bottleneck, or `None` for a path
    /// without one.
    ///
    /// The limit is [`queue_bytes`](Self::queue_bytes), or [`queue_bdp`](Self::queue_bdp) times the
    /// bandwidth-delay product. Without either, it is one such product, and at least
    /// [`MIN_DEFAULT_QUEUE_BYTES`]. The round-trip time is taken as twice the one-way delay. Later
    /// changes of rate or delay do not change the limit.
    #[must_use]
    pub fn queue_limit_bytes(&self) -> Option<u64> {
        let rate = self.rate_mbit?;
        let bdp = rate * 1e6 / 8.0 * (2.0 * self.delay_ms / 1e3);
        Some(match (self.queue_bytes, self.queue_bdp) {
            (Some(bytes), _) => bytes,
            // The cast saturates, and `validate` bounds both factors.
            (None, Some(multiple)) => (bdp * multiple).ceil() as u64,
            (None, None) => (bdp.ceil() as u64).max(MIN_DEFAULT_QUEUE_BYTES),
        })
    }
}

/// Burst loss: a Markov chain with a good and a bad state, which makes one step per packet.
///
/// E. N. Gilbert, *Capacity of a burst-noise channel*, 1960; E. O. Elliott, *Estimates of error
/// rates for codes on burst-noise channels*, 1963.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// The probability of a change from the good to the bad state, per packet.
    pub p_enter: f64,
    /// The probability of a change from the bad to the good state, per packet.
    pub p_leave: f64,
    /// The probability of losing a packet in the good state.
    #[serde(default)]
    pub loss_good: f64,
    /// The probability of losing a packet in the bad state. Default: 1.
    #[serde(default = "one")]
    pub loss_bad: f64,
}

/// A change of a path at a point in time. Fields that are absent stay unchanged.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The time of the change, in seconds after the first packet from either side. The start of the
    /// path does not count, so that the parties' startup time does not move a change.
    pub at_s: f64,
    /// See [`PathConfig::delay_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// See [`PathConfig::jitter_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// See [`PathConfig::loss`]. The value 1 is a blackout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// See [`PathConfig::burst`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<GilbertElliott>,
    /// See [`PathConfig::reorder`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// See [`PathConfig::duplicate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// See [`PathConfig::rate_mbit`]. Valid only if the path has a rate from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit: Option<f64>,
    /// See [`PathConfig::queue_bytes`]. Valid only if the path has a rate from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// See [`PathConfig::path_mtu`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
}

/// Bulk TCP flows that compete with the parties.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// Number of flows in each selected direction.
    #[serde(default = "one_flow")]
    pub flows: u32,
    /// The congestion control of these flows. Default: `cubic`.
    #[serde(default = "cubic")]
    pub congestion_control: String,
    /// The direction in which the flows send. Default: up, the direction of the garbled tables.
    #[serde(default)]
    pub direction: CrossDirection,
}

/// The direction of cross traffic.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrossDirection {
    /// From party A to party B.
    #[default]
    Up,
    /// From party B to party A.
    Down,
    /// Both directions.
    Both,
}

/// Error of a scenario that does not exist, cannot be read or is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The text of a file or preset cannot be used.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// No preset or file has that name.
    #[error("unknown scenario {name:?}: expected a TOML file or one of {}", known.join(", "))]
    Unknown {
        /// The name that was requested.
        name: String,
        /// The names of the presets.
        known: Vec<&'static str>,
    },
}

impl Scenario {
    /// Returns the minimum round-trip time in milliseconds: the sum of both delays.
    #[must_use]
    pub fn rtt_ms(&self) -> f64 {
        self.up.delay_ms + self.down.delay_ms
    }

    /// Returns the scenario with half of this round-trip time, in milliseconds, in each direction.
    #[must_use]
    pub fn with_rtt_ms(mut self, rtt_ms: f64) -> Self {
        self.up.delay_ms = rtt_ms / 2.0;
        self.down.delay_ms = rtt_ms / 2.0;
        self
    }

    /// Returns the scenario with this probability of independent loss in both directions.
    #[must_use]
    pub fn with_loss(mut self, loss: f64) -> Self {
        self.up.loss = loss;
        self.down.loss = loss;
        self
    }

    /// Returns whether UDP is blocked in at least one direction. A protocol that needs answers does
    /// not work then.
    #[must_use]
    pub fn blocks_udp(&self) -> bool {
        self.up.udp_blocked || self.down.udp_blocked
    }

    /// Returns the scenario with UDP blocked, or not blocked, in both directions.
    #[must_use]
    pub fn with_udp_blocked(mut self, blocked: bool) -> Self {
        self.up.udp_blocked = blocked;
        self.down.udp_blocked = blocked;
        self
    }

    /// Returns the scenario with this rate, in Mbit/s, in both directions.
    #[must_use]
    pub fn with_rate_mbit(mut self, rate_mbit: f64) -> Self {
        self.up.rate_mbit = Some(rate_mbit);
        self.down.rate_mbit = Some(rate_mbit);
        self
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_mtu() -> u32 {
    1500
}

fn default_seed() -> u64 {
    1
}

fn one() -> f64 {
    1.0
}

fn one_flow() -> u32 {
    1
}

fn cubic() -> String {
    "cubic".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_queue_is_one_bandwidth_delay_product() {
        let path = |rate_mbit, delay_ms| PathConfig {
            delay_ms,
            rate_mbit,
            ..PathConfig::default()
        };
        // The bandwidth-delay product of 1 Gbit/s and 100 ms is 12.5 MB.
        assert_eq!(path(Some(1e3), 50.0).queue_limit_bytes(), Some(12_500_000));
        assert_eq!(path(Some(1e3), 0.01).queue_limit_bytes(), Some(256 << 10));
        assert_eq!(path(None, 50.0).queue_limit_bytes(), None);
        let shallow = PathConfig {
            queue_bdp: Some(0.1),
            ..path(Some(1e3), 50.0)
        };
        assert_eq!(shallow.queue_limit_bytes(), Some(1_250_000));
        let fixed = PathConfig {
            queue_bytes: Some(3000),
            ..path(Some(1e3), 50.0)
        };
        assert_eq!(fixed.queue_limit_bytes(), Some(3000));
    }

    #[test]
    fn a_scenario_round_trips_through_json() {
        for preset in presets() {
            let scenario = Scenario::named(preset.name).unwrap();
            let json = serde_json::to_string(&scenario).unwrap();
            assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
        }
    }

    #[test]
    fn builders_set_both_directions() {
        let scenario = Scenario::named("eu-us").unwrap().with_rtt_ms(50.0);
        assert_eq!((scenario.rtt_ms(), scenario.up.delay_ms), (50.0, 25.0));
        let scenario = scenario.with_loss(0.01).with_rate_mbit(10.0);
        assert_eq!(scenario.down.loss, 0.01);
        // The bandwidth-delay product of 10 Mbit/s and 50 ms is 62,500 bytes, less than the
        // minimum.
        assert_eq!(scenario.down.queue_limit_bytes(), Some(256 << 10));
        assert!(scenario.validate().is_ok());
        assert!(!scenario.blocks_udp());
        let scenario = scenario.with_udp_blocked(true);
        assert!(scenario.up.udp_blocked && scenario.down.udp_blocked && scenario.blocks_udp());
    }
}
