//! The scenarios in requests, and their representation for the sliders of the web UI.

use serde::{Deserialize, Deserializer, Serialize};
use transpute_netem::scenario::{PathConfig, Scenario};

use super::error::ApiError;

/// Maximum size of a scenario file in a request, in bytes.
const MAX_TOML_BYTES: usize = 64 << 10;

/// The scenario of a request: a preset with overrides, or the text of a scenario file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioChoice {
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<Overrides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Values that replace values of a preset. An absent value leaves the preset's value unchanged.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    /// The rate of the bottleneck. JSON `null` removes the bottleneck.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    rate_mbit: Option<Option<f64>>,
    /// The queue limit. JSON `null` selects the default limit.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_blocked: Option<bool>,
}

fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The values of a scenario that the sliders of the web UI show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SliderValues {
    rtt_ms: f64,
    loss: f64,
    rate_mbit: Option<f64>,
    queue_bytes: Option<u64>,
    jitter_ms: f64,
    udp_blocked: bool,
}

/// A scenario in an answer, with the values of its sliders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ScenarioView {
    name: String,
    description: String,
    values: SliderValues,
    /// True if both directions have the same configuration.
    symmetric: bool,
    /// Properties that no slider shows, as text.
    extras: Vec<String>,
}

impl ScenarioChoice {
    /// Builds and validates the scenario. The name of a preset is never used as a path.
    pub(super) fn scenario(&self) -> Result<Scenario, ApiError> {
        match (&self.preset, &self.toml) {
            (Some(preset), None) if self.name.is_none() => {
                let scenario = Scenario::named(preset).map_err(ApiError::bad)?;
                match &self.set {
                    Some(set) => set.apply(scenario),
                    None => Ok(scenario),
                }
            }
            (None, Some(toml)) if self.set.is_none() => {
                if toml.len() > MAX_TOML_BYTES {
                    return Err(ApiError::too_large(MAX_TOML_BYTES));
                }
                let name = self.name.as_deref().unwrap_or("own");
                Scenario::parse(toml, name).map_err(ApiError::bad)
            }
            _ => Err(ApiError::bad(
                "scenario: expected preset with an optional set, or toml with an optional name",
            )),
        }
    }

    /// Returns the scenario of one cell of the map.
    pub(super) fn cell(
        rtt_ms: f64,
        loss: f64,
        rate_mbit: Option<f64>,
        queue_bytes: Option<u64>,
        udp_blocked: bool,
    ) -> Self {
        Self {
            preset: Some("eu-us".to_owned()),
            set: Some(Overrides {
                rtt_ms: Some(rtt_ms),
                loss: Some(loss),
                rate_mbit: Some(rate_mbit),
                queue_bytes: Some(queue_bytes),
                jitter_ms: None,
                udp_blocked: Some(udp_blocked),
            }),
            ..Self::default()
        }
    }
}

impl Overrides {
    /// Replaces values of the scenario. Appends each value that differs from the original to the
    /// name of the scenario, as in `eu-us,rtt=80,loss=0.01`.
    fn apply(&self, mut scenario: Scenario) -> Result<Scenario, ApiError> {
        let mut name = scenario.name.clone();
        let now = SliderValues::of(&scenario);
        let is_alike = scenario.up == scenario.down;
        let changes = |is_same: bool| !(is_same && is_alike);
        let label = |name: &mut String, what: &str, value: &dyn std::fmt::Display| {
            name.push_str(&format!(",{what}={value}"));
        };
        if let Some(rtt) = self.rtt_ms.filter(|&rtt| changes(rtt == now.rtt_ms)) {
            scenario = scenario.with_rtt_ms(rtt);
            label(&mut name, "rtt", &rtt);
        }
        if let Some(loss) = self.loss.filter(|&loss| changes(loss == now.loss)) {
            scenario = scenario.with_loss(loss);
            label(&mut name, "loss", &loss);
        }
        if let Some(rate) = (self.rate_mbit).filter(|&rate| changes(rate == now.rate_mbit)) {
            for path in [&mut scenario.up, &mut scenario.down] {
                path.rate_mbit = rate;
                if rate.is_none() {
                    // A queue exists only at a bottleneck.
                    (path.queue_bytes, path.queue_bdp) = (None, None);
                }
            }
            match rate {
                Some(rate) => label(&mut name, "rate", &rate),
                None => label(&mut name, "rate", &"none"),
            }
        }
        if let Some(queue) = self.queue_bytes {
            let limit = |path: &PathConfig| path.queue_limit_bytes();
            let before = (limit(&scenario.up), limit(&scenario.down));
            let kept = [scenario.up.clone(), scenario.down.clone()];
            for path in [&mut scenario.up, &mut scenario.down] {
                (path.queue_bytes, path.queue_bdp) = (queue, None);
            }
            let after = (limit(&scenario.up), limit(&scenario.down));
            match (before == after, queue) {
                // A scenario gives the queue limit in bytes or as a multiple of the bandwidth-delay
                // product. If both give the same limit, the scenario is unchanged.
                (true, _) => [scenario.up, scenario.down] = kept,
                (false, Some(bytes)) => label(&mut name, "queue", &bytes),
                (false, None) => label(&mut name, "queue", &"default"),
            }
        }
        if let Some(jitter) = (self.jitter_ms).filter(|&jitter| changes(jitter == now.jitter_ms)) {
            scenario.up.jitter_ms = jitter;
            scenario.down.jitter_ms = jitter;
            label(&mut name, "jitter", &jitter);
        }
        if let Some(blocked) =
            (self.udp_blocked).filter(|&blocked| changes(blocked == now.udp_blocked))
        {
            scenario = scenario.with_udp_blocked(blocked);
            label(
                &mut name,
                "udp",
                &if blocked { "blocked" } else { "passes" },
            );
        }
        scenario.name = name;
        scenario.validate().map_err(ApiError::bad)?;
        Ok(scenario)
    }
}

impl SliderValues {
    fn of(scenario: &Scenario) -> Self {
        let up = &scenario.up;
        Self {
            rtt_ms: scenario.rtt_ms(),
            loss: up.loss,
            rate_mbit: up.rate_mbit,
            queue_bytes: up.queue_limit_bytes(),
            jitter_ms: up.jitter_ms,
            udp_blocked: scenario.blocks_udp(),
        }
    }
}

impl ScenarioView {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            values: SliderValues::of(scenario),
            symmetric: scenario.up == scenario.down,
            extras: extras(scenario),
        }
    }
}

/// Describes the properties that no slider shows.
fn extras(scenario: &Scenario) -> Vec<String> {
    let mut extras = Vec::new();
    if let Some(cross) = &scenario.cross_traffic {
        let plural = if cross.flows == 1 { "" } else { "s" };
        extras.push(format!(
            "{} {} flow{plural} of cross traffic, {}",
            cross.flows,
            cross.congestion_control,
            match cross.direction {
                transpute_netem::scenario::CrossDirection::Up => "up",
                transpute_netem::scenario::CrossDirection::Down => "down",
                transpute_netem::scenario::CrossDirection::Both => "both ways",
            }
        ));
    }
    if let Some(name) = &scenario.congestion_control {
        extras.push(format!("TCP with {name}"));
    }
    if let Some(bytes) = scenario.socket_buffer {
        extras.push(format!("socket buffers of at most {bytes} B"));
    }
    let up = directed(&scenario.up);
    let down = directed(&scenario.down);
    if up == down {
        extras.extend(up);
    } else {
        extras.extend(up.into_iter().map(|text| format!("{text}, up")));
        extras.extend(down.into_iter().map(|text| format!("{text}, down")));
    }
    extras
}

fn directed(path: &PathConfig) -> Vec<String> {
    let mut texts = Vec::new();
    if let Some(burst) = path.burst {
        let packets = 1.0 / burst.p_leave.max(f64::MIN_POSITIVE);
        texts.push(format!(
            "bursts of loss: {} packets on average",
            packets.round()
        ));
    }
    if path.reorder > 0.0 {
        texts.push(format!("{} % of packets overtake", path.reorder * 100.0));
    }
    if path.duplicate > 0.0 {
        texts.push(format!(
            "{} % of packets arrive twice",
            path.duplicate * 100.0
        ));
    }
    if let Some(bytes) = path.path_mtu {
        texts.push(format!("packets of at most {bytes} B"));
    }
    if !path.changes.is_empty() {
        texts.push(format!("{} changes over time", path.changes.len()));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(json: &str) -> Result<Scenario, ApiError> {
        serde_json::from_str::<ScenarioChoice>(json)
            .unwrap()
            .scenario()
    }

    #[test]
    fn values_equal_to_the_preset_leave_the_scenario_unchanged() {
        for preset in transpute_netem::scenario::presets() {
            let plain = Scenario::named(preset.name).unwrap();
            if plain.up != plain.down {
                continue;
            }
            let values = serde_json::to_value(SliderValues::of(&plain)).unwrap();
            let json = serde_json::json!({"preset": preset.name, "set": values});
            assert_eq!(choice(&json.to_string()).unwrap(), plain);
        }
    }

    #[test]
    fn overrides_are_in_the_name_and_apply_to_both_directions() {
        let scenario = choice(
            r#"{"preset": "eu-us", "set": {"rtt_ms": 80, "loss": 0.001, "rate_mbit": 100, "queue_bytes": 50000, "jitter_ms": 2, "udp_blocked": true}}"#,
        )
        .unwrap();
        assert_eq!(
            scenario.name,
            "eu-us,rtt=80,loss=0.001,rate=100,queue=50000,jitter=2,udp=blocked"
        );
        assert_eq!((scenario.rtt_ms(), scenario.down.loss), (80.0, 0.001));
        assert_eq!(scenario.down.queue_bytes, Some(50_000));
        let open = choice(r#"{"preset": "eu-us", "set": {"rate_mbit": null}}"#).unwrap();
        assert_eq!(
            (open.name.as_str(), open.up.rate_mbit),
            ("eu-us,rate=none", None)
        );
    }

    #[test]
    fn a_scenario_is_a_preset_or_a_file_but_not_both() {
        let own = choice(r#"{"toml": "rtt_ms = 60", "name": "mine"}"#).unwrap();
        assert_eq!((own.name.as_str(), own.rtt_ms()), ("mine", 60.0));
        for wrong in [
            "{}",
            r#"{"preset": "lan", "toml": ""}"#,
            r#"{"toml": "", "set": {}}"#,
            r#"{"preset": "../lan.toml"}"#,
            r#"{"preset": "/etc/passwd"}"#,
            r#"{"preset": "eu-us", "set": {"loss": 2}}"#,
            r#"{"preset": "eu-us", "set": {"rtt_ms": -1}}"#,
            r#"{"preset": "eu-us", "set": {"rate_mbit": 0}}"#,
            r#"{"preset": "eu-us", "set": {"jitter_ms": 100}}"#,
            r#"{"preset": "cross-traffic", "set": {"rate_mbit": null}}"#,
            r#"{"toml": "los = 1"}"#,
        ] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<ScenarioChoice>(r#"{"file": "x"}"#).is_err());
    }

    #[test]
    fn properties_without_a_slider_are_described() {
        let shown = ScenarioView::of(&Scenario::named("cross-traffic").unwrap());
        assert_eq!(shown.extras, ["1 cubic flow of cross traffic, up"]);
        assert!(shown.symmetric);
    }
}
