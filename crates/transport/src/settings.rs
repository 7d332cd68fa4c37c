//! Parses the settings that may follow a transport's name, as in `tcp-striped:n=4,cc=bbr`.

use transpute_units::Bandwidth;

use crate::{RegistryError, TransportError};

/// Maximum rate that a setting may specify.
const MAX_RATE: Bandwidth = Bandwidth::from_bits_per_second(1e12);

/// The settings after the name of a transport.
///
/// The format is `name:key=value,key=value`. A `+` may replace each comma, so that a comma can
/// separate transports in a list. A transport [takes](Self::take) its settings in
/// [`Transport::configure`](crate::Transport::configure). The [`Registry`](crate::Registry) rejects
/// settings that the transport did not take.
///
/// By convention, `rate` is a known rate of the path in bits per second, and `cc` the name of a
/// congestion control.
#[derive(Clone, Debug)]
pub struct Settings {
    transport: &'static str,
    left: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Settings {
    /// Parses `key=value` pairs.
    ///
    /// # Errors
    /// Returns [`RegistryError::InvalidSetting`] if an item is not of the form `key=value` or a key
    /// is repeated.
    pub fn parse(transport: &'static str, text: &str) -> Result<Self, TransportError> {
        let mut settings = Self {
            transport,
            left: Vec::new(),
            known: Vec::new(),
        };
        for pair in pairs(text) {
            let (key, value) = pair.map_err(|item| settings.wrong(item, "expected key=value"))?;
            if settings.left.iter().any(|(known, _)| known == key) {
                return Err(settings.wrong(key, "it is given twice"));
            }
            settings.left.push((key.into(), value.into()));
        }
        Ok(settings)
    }

    /// Returns an empty set of settings for a transport.
    pub(crate) fn none(transport: &'static str) -> Self {
        Self {
            transport,
            left: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Removes the setting `key` and returns its value, or `None` if the setting is absent. `parse`
    /// converts the value, or returns an error text such as "expected a number".
    ///
    /// # Errors
    /// Returns [`RegistryError::InvalidSetting`] with the error text of `parse`.
    pub fn take<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, TransportError> {
        self.known.push(key);
        let Some(index) = self.left.iter().position(|(given, _)| given == key) else {
            return Ok(None);
        };
        let (_, value) = self.left.swap_remove(index);
        match parse(&value) {
            Ok(meaning) => Ok(Some(meaning)),
            Err(expected) => Err(self.wrong(&format!("{key}={value}"), &expected)),
        }
    }

    /// Checks that every setting was taken.
    ///
    /// # Errors
    /// Returns [`RegistryError::UnknownSetting`] if a setting was not taken. The error lists the
    /// keys that the transport supports.
    pub(crate) fn finish(self) -> Result<(), TransportError> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(TransportError::Registry(RegistryError::UnknownSetting {
                transport: self.transport,
                key,
                known: self.known,
            })),
        }
    }

    fn wrong(&self, setting: &str, reason: &str) -> TransportError {
        TransportError::Registry(RegistryError::InvalidSetting {
            transport: self.transport,
            setting: setting.into(),
            reason: reason.into(),
        })
    }
}

/// Splits the text for a transport, such as `tcp:cc=bbr`, into its name and the settings that
/// follow a colon.
#[must_use]
pub fn name_and_settings(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, settings)) => (name, Some(settings)),
        None => (text, None),
    }
}

/// Splits the settings of a transport, such as `n=4,cc=bbr`, into keys and values. Commas or `+`
/// separate items. Yields `Err` with the item if it is not of the form `key=value`.
pub fn pairs(settings: &str) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    settings
        .split([',', '+'])
        .map(|item| match item.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key, value)),
            _ => Err(item),
        })
}

/// Parses a rate in bits per second: a number with an optional suffix `k`, `m` or `g`. Returns
/// `None` for any other text, and for a rate below `min` or above [`MAX_RATE`].
pub(crate) fn rate(text: &str, min: Bandwidth) -> Option<Bandwidth> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (end, 'k' | 'K') => (&text[..end], 1e3),
        (end, 'm' | 'M') => (&text[..end], 1e6),
        (end, 'g' | 'G') => (&text[..end], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    let rate = Bandwidth::from_bits_per_second(number * unit);
    (min..=MAX_RATE).contains(&rate).then_some(rate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| "expected a number".into())
    }

    #[test]
    fn settings_are_taken_once_and_the_rest_is_refused() {
        for text in ["n=4,cc=bbr", "n=4+cc=bbr"] {
            let mut settings = Settings::parse("toy", text).unwrap();
            assert_eq!(settings.take("n", number).unwrap(), Some(4));
            assert_eq!(settings.take("m", number).unwrap(), None);
            assert_eq!(
                settings.finish().unwrap_err().to_string(),
                "transport toy has no setting \"cc\"; it has: n, m"
            );
        }
        let none = Settings::parse("toy", "n=4").unwrap();
        assert_eq!(
            none.finish().unwrap_err().to_string(),
            "transport toy has no setting \"n\"; it has: none"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("", "setting \"\" of transport toy: expected key=value"),
            ("n", "setting \"n\" of transport toy: expected key=value"),
            ("n=", "setting \"n=\" of transport toy: expected key=value"),
            ("=4", "setting \"=4\" of transport toy: expected key=value"),
            ("n=1,", "setting \"\" of transport toy: expected key=value"),
            (
                "n=1,n=2",
                "setting \"n\" of transport toy: it is given twice",
            ),
        ] {
            let error = Settings::parse("toy", text).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let mut settings = Settings::parse("toy", "n=x").unwrap();
        assert_eq!(
            settings.take("n", number).unwrap_err().to_string(),
            "setting \"n=x\" of transport toy: expected a number"
        );
    }

    #[test]
    fn a_text_is_a_name_with_pairs() {
        let (name, settings) = name_and_settings("toy:n=4,cc=b:c");
        let pairs: Vec<_> = pairs(settings.unwrap()).collect();
        assert_eq!(
            (name, pairs),
            ("toy", vec![Ok(("n", "4")), Ok(("cc", "b:c"))])
        );
        assert_eq!(name_and_settings("toy"), ("toy", None));
        assert_eq!(name_and_settings("toy:"), ("toy", Some("")));
    }

    #[test]
    fn rates_have_units() {
        let min = Bandwidth::from_bits_per_second(8e3);
        for (text, bits) in [
            ("100m", 100_000_000_u32),
            ("1g", 1_000_000_000),
            ("2.5G", 2_500_000_000_u32),
            ("64k", 64_000),
            ("1000000", 1_000_000),
        ] {
            let expected = Bandwidth::from_bits_per_second(f64::from(bits));
            assert_eq!(rate(text, min), Some(expected), "{text}");
        }
        for text in ["", "g", "1t", "-1g", "nan", "inf", "1", "1e99"] {
            assert_eq!(rate(text, min), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Settings::parse("toy", &text);
        }
    }
}
