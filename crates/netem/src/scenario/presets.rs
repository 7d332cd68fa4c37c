//! The built-in scenarios.

use std::path::Path;

use super::{Scenario, ScenarioError};

/// A built-in scenario, as the text of a scenario file.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name of the scenario.
    pub name: &'static str,
    /// The scenario file in TOML, which may serve as a template.
    pub toml: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset {
            name: $name,
            toml: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// Returns the built-in scenarios, from short to long distances.
#[must_use]
pub fn presets() -> &'static [Preset] {
    presets![
        "loopback",
        "lan",
        "5g",
        "us-us",
        "mobile",
        "eu-us",
        "eu-aus",
        "satellite",
        "lossy-transatlantic",
        "lossy-transatlantic-1pct",
        "shallow-buffer",
        "cross-traffic",
        "rebane-global",
        "rebane-europe",
    ]
}

impl Scenario {
    /// Returns the preset of that name, validated.
    ///
    /// # Errors
    /// Returns [`ScenarioError::Unknown`] if there is none.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        match presets().iter().find(|preset| preset.name == name) {
            Some(preset) => Self::parse(preset.toml, preset.name),
            None => Err(ScenarioError::Unknown {
                name: name.to_owned(),
                known: presets().iter().map(|preset| preset.name).collect(),
            }),
        }
    }

    /// Returns the preset of that name, or reads a scenario file. A name that ends in `.toml` or
    /// contains a path separator is the path of a file. Any other name is looked up in the presets
    /// first, and is the path of a file if there is no such preset and the file exists.
    ///
    /// # Errors
    /// Returns a [`ScenarioError`] that names the file and the field.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        let path = Path::new(name_or_path);
        if name_or_path.ends_with(".toml") || name_or_path.contains(std::path::is_separator) {
            return Self::open(path);
        }
        match Self::named(name_or_path) {
            Err(ScenarioError::Unknown { .. }) if path.is_file() => Self::open(path),
            preset => preset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::ConfigFileError;

    #[test]
    fn presets_are_valid_and_have_a_description() {
        for preset in presets() {
            let scenario = Scenario::named(preset.name).unwrap();
            assert_eq!(scenario.name, preset.name);
            assert!(scenario.description.len() > 20, "{}", preset.name);
        }
    }

    #[test]
    fn every_scenario_file_is_a_preset() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files: Vec<_> = (std::fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut known: Vec<_> = (presets().iter())
            .map(|preset| format!("{}.toml", preset.name))
            .collect();
        known.sort();
        assert_eq!(files, known);
    }

    #[test]
    fn presets_have_the_figures_of_their_sources() {
        let path = |name: &str| {
            let scenario = Scenario::named(name).unwrap();
            (scenario.rtt_ms(), scenario.up.rate_mbit, scenario.up.loss)
        };
        // The expected figures are from transputation-2020, sections 6.1 and 6.2.
        assert_eq!(path("lan"), (0.5, Some(10_000.0), 0.0));
        assert_eq!(path("eu-us"), (110.0, Some(1000.0), 0.0));
        assert_eq!(path("eu-aus"), (300.0, Some(1000.0), 0.0));
        assert_eq!(path("us-us"), (50.0, Some(1000.0), 0.0));
        // The expected figures are from rebane-2012, table 13, nodes 1 and 2.
        assert_eq!(path("rebane-global"), (149.2, Some(48.6), 0.0));
        assert_eq!(path("rebane-europe"), (2.4, Some(48.5), 0.0));
        assert_eq!(path("loopback"), (0.0, None, 0.0));
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_presets() {
        let error = Scenario::load("eu-uk").unwrap_err().to_string();
        assert!(
            error.contains("\"eu-uk\"") && error.contains("eu-us"),
            "{error}"
        );
        let error = Scenario::load("./eu-us").unwrap_err();
        assert!(matches!(
            error,
            ScenarioError::File(ConfigFileError::Read { .. })
        ));
    }
}
