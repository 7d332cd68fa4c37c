//! Which transport carries a run.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use transpute_transport::{Registry, Transport, TransportError};

/// A wish for a transport.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Choice {
    /// The best of those registered.
    #[default]
    Auto,
    /// The one of this name.
    Named(String),
}

/// A transport and why it was taken.
#[derive(Clone)]
pub struct Chosen {
    /// The transport.
    pub transport: Arc<dyn Transport>,
    /// Why this one, for people to read.
    pub reason: String,
}

impl Choice {
    /// Chooses among the transports of `registry`.
    ///
    /// Automatic choice takes `tcp` while it is registered: it passes wherever anything does.
    ///
    /// # Errors
    /// [`TransportError::UnknownTransport`].
    pub fn choose(&self, registry: &Registry) -> Result<Chosen, TransportError> {
        let (name, reason) = match self {
            Self::Named(name) => (name.as_str(), "asked for by name".to_owned()),
            Self::Auto => {
                let names: Vec<_> = registry.names().collect();
                match names[..] {
                    [only] => (only, format!("{only} is the only transport registered")),
                    _ => ("tcp", "tcp passes wherever anything does".to_owned()),
                }
            }
        };
        Ok(Chosen {
            transport: registry.get(name)?,
            reason,
        })
    }
}

impl From<&str> for Choice {
    fn from(name: &str) -> Self {
        match name {
            "auto" => Self::Auto,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl FromStr for Choice {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(name.into())
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Named(name) => name,
        })
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("transport", &self.transport.name())
            .field("reason", &self.reason)
            .finish()
    }
}
