//! The transport that a connector picks.

use std::fmt;

use crate::{Link, Settings, TransportError};

/// A transport that becomes the link, with the settings that take effect at that moment.
///
/// Written as after `--transport`: `tcp`, `tcp:cc=bbr`, `tcp-striped:n=4,cc=bbr`, `quic`. Most transports have none of these settings,
/// because their connections are under way before one of them is picked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pick(String);

/// A link, and the transport that the connector picked for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The link.
    pub link: Link,
    /// What was picked.
    pub pick: Pick,
}

impl Pick {
    /// Returns the name of the transport.
    #[must_use]
    pub fn transport(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Returns the name with the settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the settings, as those of the transport of this name.
    pub(crate) fn settings(&self, transport: &'static str) -> Result<Settings, TransportError> {
        match self.0.split_once(':') {
            Some((_, settings)) => Settings::parse(transport, settings),
            None => Ok(Settings::none(transport)),
        }
    }
}

impl From<&str> for Pick {
    /// The name and the settings are checked when the pick takes effect.
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
