//! Scenario files: TOML with short forms for symmetric paths.

use std::path::Path;

use serde::Deserialize;

use super::{
    Change, CrossTraffic, GilbertElliott, PathConfig, Scenario, ScenarioError, default_mtu,
    default_seed,
};
use crate::config_file::{ConfigFileError, parse_config, read_config_file};

impl Scenario {
    /// Reads a scenario file. The name of the scenario is the file stem, unless the file gives
    /// another.
    ///
    /// # Errors
    /// Returns a [`ScenarioError`] that names the file, and the line or the field.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        let text = read_config_file(path, "scenario")?;
        let origin = path.display().to_string();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::read(&text, &origin, &stem)
    }

    /// Parses and validates the text of a scenario file. `name` is the name of the scenario, unless
    /// the text gives another.
    ///
    /// Every field of [`PathConfig`] may be at the top level, for both directions. It may also be
    /// in the tables `[up]` and `[down]`, which take precedence for their direction. `rtt_ms` at
    /// the top level sets the `delay_ms` of each direction to half of its value.
    ///
    /// # Examples
    /// ```
    /// use transpute_netem::scenario::Scenario;
    ///
    /// let text = "
    ///     rtt_ms = 60
    ///     rate_mbit = 20
    ///     loss = 0.01
    ///     [up]
    ///     rate_mbit = 5
    ///     [[changes]]
    ///     at_s = 2.0
    ///     loss = 1.0
    /// ";
    /// let scenario = Scenario::parse(text, "tunnel")?;
    /// assert_eq!(scenario.up.rate_mbit, Some(5.0));
    /// assert_eq!(scenario.down.changes[0].loss, Some(1.0));
    /// # Ok::<(), transpute_netem::scenario::ScenarioError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`ScenarioError::File`] if the text cannot be parsed or a value is invalid.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        Self::read(text, name, name)
    }

    fn read(text: &str, origin: &str, name: &str) -> Result<Self, ScenarioError> {
        let file: ScenarioFile = parse_config(text, origin)?;
        file.into_scenario(origin, name)
    }
}

/// The contents of a scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    name: Option<String>,
    #[serde(default)]
    description: String,
    mtu: Option<u32>,
    congestion_control: Option<String>,
    socket_buffer: Option<u64>,
    cross_traffic: Option<CrossTraffic>,
    seed: Option<u64>,
    rtt_ms: Option<f64>,
    #[serde(default)]
    up: PathTable,
    #[serde(default)]
    down: PathTable,

    // The fields of `PathTable`. They are repeated here because `serde(flatten)` would lose the
    // line numbers of errors.
    delay_ms: Option<f64>,
    jitter_ms: Option<f64>,
    loss: Option<f64>,
    burst: Option<GilbertElliott>,
    reorder: Option<f64>,
    duplicate: Option<f64>,
    udp_blocked: Option<bool>,
    rate_mbit: Option<f64>,
    queue_bytes: Option<u64>,
    queue_bdp: Option<f64>,
    path_mtu: Option<u32>,
    icmp: Option<bool>,
    changes: Option<Vec<Change>>,
}

/// The table of one direction.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PathTable {
    delay_ms: Option<f64>,
    jitter_ms: Option<f64>,
    loss: Option<f64>,
    burst: Option<GilbertElliott>,
    reorder: Option<f64>,
    duplicate: Option<f64>,
    udp_blocked: Option<bool>,
    rate_mbit: Option<f64>,
    queue_bytes: Option<u64>,
    queue_bdp: Option<f64>,
    path_mtu: Option<u32>,
    icmp: Option<bool>,
    changes: Option<Vec<Change>>,
}

impl ScenarioFile {
    fn into_scenario(self, origin: &str, name: &str) -> Result<Scenario, ScenarioError> {
        let wrong = |field: &str, problem: &str| ConfigFileError::Field {
            origin: origin.to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        };
        if self.rtt_ms.is_some() && self.delay_ms.is_some() {
            return Err(wrong("rtt_ms", "expected either rtt_ms or delay_ms, not both").into());
        }
        if self
            .rtt_ms
            .is_some_and(|rtt| !(0.0..=120_000.0).contains(&rtt))
        {
            return Err(wrong("rtt_ms", "not between 0 and 120000").into());
        }
        let both = PathTable {
            delay_ms: self.delay_ms.or(self.rtt_ms.map(|rtt| rtt / 2.0)),
            jitter_ms: self.jitter_ms,
            loss: self.loss,
            burst: self.burst,
            reorder: self.reorder,
            duplicate: self.duplicate,
            udp_blocked: self.udp_blocked,
            rate_mbit: self.rate_mbit,
            queue_bytes: self.queue_bytes,
            queue_bdp: self.queue_bdp,
            path_mtu: self.path_mtu,
            icmp: self.icmp,
            changes: self.changes,
        };
        let scenario = Scenario {
            name: self.name.unwrap_or_else(|| name.to_owned()),
            description: self.description,
            up: self.up.with_defaults(&both),
            down: self.down.with_defaults(&both),
            mtu: self.mtu.unwrap_or_else(default_mtu),
            congestion_control: self.congestion_control,
            socket_buffer: self.socket_buffer,
            cross_traffic: self.cross_traffic,
            seed: self.seed.unwrap_or_else(default_seed),
        };
        scenario.validate_as(origin)?;
        Ok(scenario)
    }
}

impl PathTable {
    /// Returns the configuration of a direction: its own fields, or else those for both directions.
    fn with_defaults(self, both: &Self) -> PathConfig {
        // The two queue fields are taken together: if a direction sets either of them, both fields
        // at the top level are ignored for it.
        let own_queue = self.queue_bytes.is_some() || self.queue_bdp.is_some();
        let queue = if own_queue { &self } else { both };
        let (queue_bytes, queue_bdp) = (queue.queue_bytes, queue.queue_bdp);
        PathConfig {
            delay_ms: self.delay_ms.or(both.delay_ms).unwrap_or_default(),
            jitter_ms: self.jitter_ms.or(both.jitter_ms).unwrap_or_default(),
            loss: self.loss.or(both.loss).unwrap_or_default(),
            burst: self.burst.or(both.burst),
            reorder: self.reorder.or(both.reorder).unwrap_or_default(),
            duplicate: self.duplicate.or(both.duplicate).unwrap_or_default(),
            udp_blocked: self.udp_blocked.or(both.udp_blocked).unwrap_or_default(),
            rate_mbit: self.rate_mbit.or(both.rate_mbit),
            queue_bytes,
            queue_bdp,
            path_mtu: self.path_mtu.or(both.path_mtu),
            icmp: self.icmp.or(both.icmp).unwrap_or_default(),
            changes: (self.changes.or_else(|| both.changes.clone())).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let error = Scenario::parse(text, "mine").unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn short_forms_fill_both_directions() {
        let text = "rtt_ms = 60\nrate_mbit = 20\nloss = 0.01\nqueue_bdp = 2.0\n\
                    [up]\nrate_mbit = 5\nqueue_bytes = 9000\n[down]\ndelay_ms = 40";
        let scenario = Scenario::parse(text, "mine").unwrap();
        assert_eq!(scenario.name, "mine");
        assert_eq!((scenario.mtu, scenario.seed), (1500, 1));
        let (up, down) = (&scenario.up, &scenario.down);
        assert_eq!((up.delay_ms, down.delay_ms), (30.0, 40.0));
        assert_eq!((up.rate_mbit, down.rate_mbit), (Some(5.0), Some(20.0)));
        assert_eq!((up.loss, down.loss), (0.01, 0.01));
        assert_eq!((up.queue_bytes, up.queue_bdp), (Some(9000), None));
        assert_eq!(down.queue_limit_bytes(), Some(400_000));
    }

    #[test]
    fn udp_is_blocked_both_ways_or_one() {
        let blocked = |text: &str| {
            let scenario = Scenario::parse(text, "mine").unwrap();
            (scenario.up.udp_blocked, scenario.down.udp_blocked)
        };
        assert_eq!(blocked(""), (false, false));
        assert_eq!(blocked("udp_blocked = true"), (true, true));
        assert_eq!(blocked("[down]\nudp_blocked = true"), (false, true));
        assert_eq!(
            blocked("udp_blocked = true\n[down]\nudp_blocked = false"),
            (true, false)
        );
    }

    #[test]
    fn errors_are_one_line_that_names_the_field() {
        for (text, fragment) in [
            ("loss = 1.5", "mine: up.loss: 1.5 is not between 0 and 1"),
            ("[down]\nloss = -0.1", "down.loss"),
            ("loss = nan", "up.loss"),
            ("rtt_ms = -1", "rtt_ms"),
            ("rtt_ms = 1\ndelay_ms = 1", "rtt_ms: expected either"),
            ("delay_ms = inf", "up.delay_ms"),
            ("rate_mbit = 0", "up.rate_mbit"),
            (
                "queue_bytes = 9000",
                "up.queue_bytes: a queue needs a bottleneck",
            ),
            ("queue_bdp = 1", "up.queue_bdp: a queue needs a bottleneck"),
            (
                "rate_mbit = 9\nqueue_bytes = 900",
                "no room for a packet of mtu 1500",
            ),
            (
                "rate_mbit = 9\nqueue_bdp = 0.1",
                "up.queue_bdp: a queue of 0 bytes",
            ),
            (
                "rate_mbit = 9\nqueue_bdp = 0.1\nqueue_bytes = 9000",
                "not both",
            ),
            (
                "rate_mbit = 400000\nrtt_ms = 60000",
                "is not between 1500 and 1073741824",
            ),
            (
                "jitter_ms = 2\nrtt_ms = 2",
                "up.jitter_ms: 2 is more than the one-way delay",
            ),
            ("mtu = 100", "mtu: 100 is not between 576 and 65535"),
            (
                "path_mtu = 100",
                "up.path_mtu: 100 is not between 576 and 65535",
            ),
            (
                "[[down.changes]]\nat_s = 1\npath_mtu = 70000",
                "down.changes[0].path_mtu: 70000",
            ),
            ("socket_buffer = 1", "socket_buffer"),
            (
                "congestion_control = \"../x\"",
                "congestion_control: \"../x\"",
            ),
            ("name = \"a b\"", "name: "),
            (
                "burst = { p_enter = 0.1, p_leave = 0.0 }",
                "up.burst.p_leave: expected more than 0",
            ),
            (
                "burst = { p_enter = 2, p_leave = 0.0 }",
                "up.burst.p_enter: 2",
            ),
            (
                "rate_mbit = 1\n[cross_traffic]\nflows = 0",
                "cross_traffic.flows",
            ),
            (
                "[cross_traffic]",
                "cross_traffic: only for a path with rate_mbit",
            ),
            ("[[changes]]\nat_s = -1", "up.changes[0].at_s"),
            (
                "[[changes]]\nat_s = 2\n[[changes]]\nat_s = 1",
                "up.changes[1].at_s: changes must",
            ),
            (
                "[[changes]]\nat_s = 1\nrate_mbit = 1",
                "up.changes[0].rate_mbit: only for",
            ),
            (
                "rtt_ms = 9\njitter_ms = 3\n[[down.changes]]\nat_s = 1\ndelay_ms = 1",
                "down.changes[0].delay_ms: the jitter",
            ),
            ("\nlos = 0.1", "mine:2: unknown field `los`"),
            ("[[changes]]\nloss = 1.0", "mine:1: missing field `at_s`"),
            (
                "[up]\nloss = \"much\"",
                "mine:2: wrong type: found the text \"much\", expected a number",
            ),
            ("queue_bytes = -1", "expected a whole number from 0"),
            ("icmp = 1", "expected true or false"),
            ("loss = ", "mine:1: "),
        ] {
            let error = error(text);
            assert!(error.contains(fragment), "{text:?}: {error}");
        }
    }

    /// Reads the known fields from the parser's own error messages and looks for each of them in
    /// the document.
    #[test]
    fn every_field_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario-files.md");
        let document = std::fs::read_to_string(path).unwrap();
        let mut fields = 0;
        for text in [
            "x = 1",
            "[up]\nx = 1",
            "burst = { x = 1 }",
            "[[changes]]\nx = 1",
            "[cross_traffic]\nx = 1",
            "[cross_traffic]\ndirection = \"x\"",
        ] {
            let error = error(text);
            let (_, known) = error.split_once("expected ").unwrap();
            for field in known.split('`').skip(1).step_by(2) {
                assert!(document.contains(&format!("`{field}`")), "{field}: {error}");
                fields += 1;
            }
        }
        assert!(fields >= 50, "{fields}");
    }

    #[test]
    fn files_are_named_in_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("far.toml");
        std::fs::write(&path, "rtt_ms = 500").unwrap();
        assert_eq!(Scenario::open(&path).unwrap().name, "far");
        std::fs::write(&path, "loss = 7").unwrap();
        let error = Scenario::open(&path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{}: up.loss", path.display())),
            "{error}"
        );
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(Scenario::open(&path).is_err());
        let missing = Scenario::open(&folder.path().join("none.toml"));
        assert!(matches!(
            missing,
            Err(ScenarioError::File(ConfigFileError::Read { .. }))
        ));
    }
}
