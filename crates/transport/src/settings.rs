//! Settings after a transport's name: `tcp-striped:n=4,cc=bbr`.

use crate::TransportError;

/// The settings after the name of a transport.
///
/// The format is `name:key=value,key=value`. A `+` separates as well as a comma, for lists whose
/// items are transports. A transport [takes](Self::take) its settings in
/// [`Transport::configure`](crate::Transport::configure). The [`Registry`](crate::Registry) rejects
/// the remaining ones.
///
/// The key `rate` is for a known rate of the path, in bits per second, and the key `cc` for the
/// name of a congestion control.
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
    /// [`TransportError::InvalidSetting`] if an item is not of that form or a key is repeated.
    pub fn parse(transport: &'static str, text: &str) -> Result<Self, TransportError> {
        let mut settings = Self {
            transport,
            left: Vec::new(),
            known: Vec::new(),
        };
        for item in text.split([',', '+']) {
            let (key, value) = match item.split_once('=') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => (key, value),
                _ => return Err(settings.wrong(item, "expected key=value")),
            };
            if settings.left.iter().any(|(known, _)| known == key) {
                return Err(settings.wrong(key, "it is given twice"));
            }
            settings.left.push((key.into(), value.into()));
        }
        Ok(settings)
    }

    /// Returns the settings of a transport without any.
    pub(crate) fn none(transport: &'static str) -> Self {
        Self {
            transport,
            left: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Takes the value of `key`, if it is given. `parse` converts it, or returns what was expected.
    ///
    /// # Errors
    /// [`TransportError::InvalidSetting`] with the text of `parse`.
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
    /// [`TransportError::UnknownSetting`], which lists the requested keys.
    pub(crate) fn finish(self) -> Result<(), TransportError> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(TransportError::UnknownSetting {
                transport: self.transport,
                key,
                known: self.known,
            }),
        }
    }

    fn wrong(&self, setting: &str, reason: &str) -> TransportError {
        TransportError::InvalidSetting {
            transport: self.transport,
            setting: setting.into(),
            reason: reason.into(),
        }
    }
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

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Settings::parse("toy", &text);
        }
    }
}
