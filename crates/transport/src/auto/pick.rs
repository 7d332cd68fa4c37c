//! The choice of a transport by a connector.

use std::fmt;

use crate::{Link, Settings, TransportError, settings::name_and_settings};

/// The chosen transport, with the settings that take effect when its connection becomes the link.
///
/// The text has the format of the option `--transport`: `tcp`, `tcp:cc=bbr`,
/// `tcp-striped:n=4,cc=bbr`, `quic`. Most transports accept no settings in a choice, because their
/// connections are opened before it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pick(String);

/// A link, with the transport that the connector chose for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The link.
    pub link: Link,
    /// The transport that the connector chose.
    pub pick: Pick,
}

impl Pick {
    /// Returns the name of the transport.
    #[must_use]
    pub fn transport(&self) -> &str {
        name_and_settings(&self.0).0
    }

    /// Returns the name with the settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the settings of this choice. `transport` is the transport's name in error messages.
    pub(crate) fn settings(&self, transport: &'static str) -> Result<Settings, TransportError> {
        match name_and_settings(&self.0).1 {
            Some(settings) => Settings::parse(transport, settings),
            None => Ok(Settings::none(transport)),
        }
    }
}

impl From<&str> for Pick {
    /// Makes a choice without checking the name and settings. They are checked when the choice
    /// takes effect.
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
