//! Values of the variables of an experiment.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Maximum length of a text value, in bytes.
pub(super) const MAX_TEXT: usize = 1024;

/// The value of a variable in a cell. Its `Display` form replaces the placeholder in commands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Setting {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// A text of at most 1,024 bytes, without control characters.
    Text(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

/// Deserializes a [`Setting`]. It is written by hand, because the error message of an untagged enum
/// does not name the accepted types.
struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text, true or false")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Setting, E> {
        Ok(Setting::Switch(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Setting, E> {
        Ok(Setting::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Setting, E> {
        (i64::try_from(value).map(Setting::Integer))
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Setting, E> {
        if !value.is_finite() {
            return Err(E::custom("a number that is finite is wanted"));
        }
        Ok(Setting::Number(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Setting, E> {
        if value.len() > MAX_TEXT || value.chars().any(char::is_control) {
            return Err(E::custom(format!(
                "a text of at most {MAX_TEXT} bytes without control characters is wanted"
            )));
        }
        Ok(Setting::Text(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_json_and_print_plainly() {
        for (json, printed) in [
            ("true", "true"),
            ("-3", "-3"),
            ("0.5", "0.5"),
            ("\"fast\"", "fast"),
        ] {
            let setting: Setting = serde_json::from_str(json).unwrap();
            assert_eq!(setting.to_string(), printed);
            assert_eq!(serde_json::to_string(&setting).unwrap(), json);
        }
        // A float with a whole value stays a float. Otherwise, it would differ from the value in
        // earlier records.
        let whole = Setting::Number(2.0);
        let json = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), whole);
    }

    #[test]
    fn what_is_no_setting_is_told() {
        for (json, fragment) in [
            ("[1]", "a number, a text, true or false"),
            ("null", "a number, a text, true or false"),
            ("9223372036854775808", "a number, a text, true or false"),
            ("\"a\\nb\"", "without control characters"),
        ] {
            let error = serde_json::from_str::<Setting>(json).unwrap_err();
            assert!(error.to_string().contains(fragment), "{json}: {error}");
        }
        let long = format!("\"{}\"", "x".repeat(MAX_TEXT + 1));
        assert!(serde_json::from_str::<Setting>(&long).is_err());
    }
}
