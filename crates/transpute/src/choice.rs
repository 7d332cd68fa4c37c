//! Which transport carries a run.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use transpute_select::Spec;
use transpute_transport::{Registry, Transport, TransportError, auto::Offer};

use crate::Auto;

/// A wish for a transport.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Choice {
    /// The one that is predicted to be fastest on the path, of those registered. Both parties must wish for this.
    #[default]
    Auto,
    /// The one of this name.
    Named(String),
}

/// A transport that was wished for.
pub(crate) enum Chosen {
    /// This one, and why.
    Fixed(Arc<dyn Transport>, String),
    /// To be seen when connected.
    Automatic(Box<Auto>),
}

impl Choice {
    /// Finds the transport, or those to choose from.
    pub(crate) fn among(&self, registry: &Registry) -> Result<Chosen, TransportError> {
        let (name, reason) = match self {
            Self::Named(name) => (name.clone(), "asked for by name".to_owned()),
            Self::Auto => {
                let names: Vec<_> = registry.names().collect();
                let all = Offer::all();
                let known: Vec<_> = (names.iter().copied())
                    .filter(|name| all.allows(name))
                    .collect();
                match (&names[..], &known[..]) {
                    (&[only], _) => (
                        only.to_owned(),
                        format!("{only} is the only transport registered"),
                    ),
                    (_, []) => {
                        return Err(TransportError::UnknownTransport {
                            name: Auto::NAME.to_owned(),
                            known: names.into_iter().map(str::to_owned).collect(),
                        });
                    }
                    (_, known) => return automatic(known, &all),
                }
            }
        };
        Ok(Chosen::Fixed(registry.get(&name)?, reason))
    }
}

/// Chooses among the built-in transports that are registered.
fn automatic(known: &[&str], all: &Offer) -> Result<Chosen, TransportError> {
    let mut auto = Auto::default();
    if all.names().any(|name| !known.contains(&name)) {
        let specs = known.iter().filter_map(|name| name.parse::<Spec>().ok());
        auto.candidates = Some(specs.collect());
        auto.offer = Offer::of(known.iter().copied())?;
    }
    Ok(Chosen::Automatic(Box::new(auto)))
}

impl From<&str> for Choice {
    fn from(name: &str) -> Self {
        match name {
            Auto::NAME => Self::Auto,
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
            Self::Auto => Auto::NAME,
            Self::Named(name) => name,
        })
    }
}
