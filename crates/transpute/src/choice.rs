//! The user's choice of a transport.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use transpute_transport::{Registry, RegistryError, Transport, TransportError};
#[cfg(feature = "auto")]
use {transpute_select::Candidate, transpute_transport::auto::Offer};

#[cfg(feature = "auto")]
use crate::auto::Auto;

/// The name of [`TransportChoice::Auto`].
pub(crate) const AUTO: &str = "auto";

/// Returns all transports of this program. The library, the command, the testbed and the web UI use
/// this registry. A transport that is added to it can be used by its name everywhere. `auto` can
/// choose it if it has a [`Profile`](transpute_transport::Profile).
#[must_use]
pub fn registry() -> Registry {
    Registry::with_builtins()
}

/// A choice of a transport.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum TransportChoice {
    /// `auto`: the connecting party measures the path and chooses one of the registered transports.
    /// Without the feature `auto`, a party uses the first registered transport: `tcp`, unless it
    /// sets another registry.
    #[default]
    Auto,
    /// The transport of this name.
    Named(String),
}

/// The transports that a [`TransportChoice`] selects from a registry.
pub(crate) enum Chosen {
    /// One transport, and the reason for it.
    Fixed(Arc<dyn Transport>, String),
    /// Several transports, one of which is chosen when this party connects.
    #[cfg(feature = "auto")]
    Automatic(Box<Auto>),
}

impl TransportChoice {
    /// Returns the transport of `registry`, or the transports to choose from when connecting.
    pub(crate) fn among(&self, registry: &Registry) -> Result<Chosen, TransportError> {
        let (name, reason) = match self {
            Self::Named(name) => (name.clone(), "asked for by name".to_owned()),
            Self::Auto => {
                let names: Vec<_> = registry.names().collect();
                match &names[..] {
                    &[only] => (
                        only.to_owned(),
                        format!("{only} is the only transport registered"),
                    ),
                    _ => return automatic(registry),
                }
            }
        };
        Ok(Chosen::Fixed(registry.get(&name)?, reason))
    }
}

/// Returns the transports of `registry`, to choose from when connecting.
#[cfg(feature = "auto")]
fn automatic(registry: &Registry) -> Result<Chosen, TransportError> {
    let offer = Offer::of_registry(registry);
    if !offer.has_shared() {
        return Err(no_auto(registry));
    }
    let has_all = Offer::all().names().all(|name| offer.allows(name));
    let specs = Candidate::all(registry).into_iter().map(|it| it.spec);
    Ok(Chosen::Automatic(Box::new(Auto {
        // A registry without some built-in transports restricts the candidates.
        candidates: (!has_all).then(|| specs.collect()),
        offer,
        registry: registry.clone(),
        ..Auto::default()
    })))
}

/// Returns the first transport of `registry`.
#[cfg(not(feature = "auto"))]
fn automatic(registry: &Registry) -> Result<Chosen, TransportError> {
    let first = registry.iter().next().ok_or_else(|| no_auto(registry))?;
    let reason = format!("{} is the first transport registered", first.name());
    Ok(Chosen::Fixed(Arc::clone(first), reason))
}

/// Returns the error of a registry from which `auto` cannot choose.
fn no_auto(registry: &Registry) -> TransportError {
    TransportError::Registry(RegistryError::UnknownTransport {
        name: AUTO.to_owned(),
        known: registry.names().map(str::to_owned).collect(),
    })
}

impl From<&str> for TransportChoice {
    fn from(name: &str) -> Self {
        match name {
            AUTO => Self::Auto,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl FromStr for TransportChoice {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(name.into())
    }
}

impl fmt::Display for TransportChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => AUTO,
            Self::Named(name) => name,
        })
    }
}
