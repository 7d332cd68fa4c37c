//! The user's choice of a transport.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use transpute_select::Candidate;
use transpute_transport::{Registry, RegistryError, Transport, TransportError, auto::Offer};

use crate::auto::Auto;

/// A choice of a transport.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum TransportChoice {
    /// `auto`: the connecting party measures the path and chooses one of the registered transports.
    /// Both parties must set this.
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
    Automatic(Box<Auto>),
}

impl TransportChoice {
    /// Returns the transport of `registry`, or the transports to choose from when connecting.
    pub(crate) fn among(&self, registry: &Registry) -> Result<Chosen, TransportError> {
        let (name, reason) = match self {
            Self::Named(name) => (name.clone(), "asked for by name".to_owned()),
            Self::Auto => {
                let names: Vec<_> = registry.names().collect();
                let offer = Offer::of_registry(registry);
                match (&names[..], offer.has_shared()) {
                    (&[only], _) => (
                        only.to_owned(),
                        format!("{only} is the only transport registered"),
                    ),
                    (_, false) => {
                        return Err(TransportError::Registry(RegistryError::UnknownTransport {
                            name: Auto::NAME.to_owned(),
                            known: names.into_iter().map(str::to_owned).collect(),
                        }));
                    }
                    (_, true) => {
                        let has_all = Offer::all().names().all(|name| offer.allows(name));
                        let specs = Candidate::all(registry).into_iter().map(|it| it.spec);
                        return Ok(Chosen::Automatic(Box::new(Auto {
                            // A registry without some built-in transports restricts the candidates.
                            candidates: (!has_all).then(|| specs.collect()),
                            offer,
                            registry: registry.clone(),
                            ..Auto::default()
                        })));
                    }
                }
            }
        };
        Ok(Chosen::Fixed(registry.get(&name)?, reason))
    }
}

impl From<&str> for TransportChoice {
    fn from(name: &str) -> Self {
        match name {
            Auto::NAME => Self::Auto,
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
            Self::Auto => Auto::NAME,
            Self::Named(name) => name,
        })
    }
}
