//! Builds the list of candidates of a race from a registry.

use std::{cmp::Reverse, sync::Arc};

use super::{
    Offer,
    candidate::{Candidate, Port},
    own_port::OwnPort,
};
use crate::{
    ConnectError, Profile, Registry, TransportError, UnsupportedError, security::Security,
};

/// Maximum number of candidates with a separate port. For each one, the listener opens a port and
/// the connector opens a connection.
const MAX_OWN_PORTS: usize = 8;

/// Maximum length of a transport's name in bytes, so that all names fit into an offer.
const MAX_NAME: usize = 32;

/// A candidate, with the properties that a race depends on.
pub(super) struct Entry {
    pub(super) candidate: Arc<dyn Candidate>,
    /// The registered transports whose links can run over the candidate's connection.
    pub(super) transports: Vec<&'static str>,
    pub(super) port: Port,
    profile: Profile,
}

impl Entry {
    /// Returns whether the candidate supports this security mode.
    pub(super) fn fits(&self, security: &Security) -> bool {
        self.profile.has_plaintext || !matches!(security, Security::Plaintext)
    }

    /// Returns whether the offer contains one of the candidate's transports.
    pub(super) fn is_offered(&self, offer: &Offer) -> bool {
        self.transports.iter().any(|name| offer.allows(name))
    }

    /// Returns the sort key for races that the policy does not decide. Candidates with shared ports
    /// come before the others. Among equals, those with fewer round trips of set-up come first, and
    /// then those that measure the path with more bytes.
    pub(super) fn preference(&self) -> impl Ord + use<> {
        let Profile {
            setup_round_trips,
            probe_bytes,
            ..
        } = self.profile;
        (
            self.port == Port::Own,
            setup_round_trips,
            Reverse(probe_bytes),
        )
    }
}

/// Returns the candidates of a registry. The candidate of the TCP port is first, and those with
/// separate ports are last.
pub(super) fn of(registry: &Registry) -> Vec<Entry> {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let fits = |name: &str| (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    let transports = registry.candidates().filter(|it| fits(it.name()));
    let mut entries: Vec<Entry> = (transports)
        .filter_map(|transport| {
            let candidate: Arc<dyn Candidate> = match transport.shared_port() {
                Some(shared) => shared.into_candidate(),
                None => Arc::new(OwnPort(Arc::clone(transport))),
            };
            Some(Entry {
                transports: candidate.transports(),
                port: candidate.port(),
                profile: transport.profile()?,
                candidate,
            })
        })
        .collect();
    // Transports with the same kind of connection share one candidate.
    let all: Vec<_> = entries.iter().map(|it| it.transports.clone()).collect();
    entries.retain(|it| {
        let has_more = |other: &&Vec<_>| other.len() > it.transports.len();
        let mut larger = all.iter().filter(has_more);
        !larger.any(|other| it.transports.iter().all(|name| other.contains(name)))
    });
    for entry in &mut entries {
        (entry.transports).retain(|name| registry.candidates().any(|it| it.name() == *name));
    }
    entries.sort_by_key(|it| match it.port {
        Port::Stream => 0,
        Port::Datagrams { .. } => 1,
        Port::Own => 2,
    });
    let shared = (entries.iter()).filter(|it| it.port != Port::Own).count();
    entries.truncate(shared + MAX_OWN_PORTS);
    entries
}

impl Offer {
    /// Offers all transports of this crate that `auto` may choose: `tcp`, `tcp-striped`, `quic` and
    /// `rudp`.
    #[must_use]
    pub fn all() -> Self {
        Self::of_registry(&Registry::with_builtins())
    }

    /// Offers all transports of a registry that `auto` may choose, including those of other crates.
    #[must_use]
    pub fn of_registry(registry: &Registry) -> Self {
        let entries = of(registry).into_iter().flat_map(|entry| {
            let is_shared = entry.port != Port::Own;
            (entry.transports.into_iter()).map(move |name| (name, is_shared))
        });
        Self::new(entries)
    }

    /// Offers the transports of these names, which must be among those of
    /// [`of_registry`](Self::of_registry).
    ///
    /// # Errors
    /// See [`of`](Self::of).
    pub fn among<'a>(
        registry: &Registry,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TransportError> {
        Self::of_registry(registry).only_these(names)
    }

    /// Offers the transports of these names, which must be among those of [`all`](Self::all).
    ///
    /// # Errors
    /// Returns [`RegistryError::UnknownTransport`](crate::RegistryError::UnknownTransport) if
    /// `auto` cannot use one of them, or if `names` is empty.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TransportError> {
        Self::all().only_these(names)
    }

    /// Removes the transports that do not support this security mode. Returns an error if none is
    /// left.
    pub(super) fn fit_for(
        mut self,
        entries: &[Entry],
        security: &Security,
    ) -> Result<Self, TransportError> {
        let find = |name: &str| {
            let mut found = entries.iter().flat_map(|entry| {
                let names = entry.transports.iter().copied();
                names.map(move |name| (name, entry))
            });
            found.find(|(known, _)| *known == name)
        };
        let first = self.names().find_map(find);
        self.retain(|name| find(name).is_some_and(|(_, entry)| entry.fits(security)));
        if self.names().next().is_some() {
            return Ok(self);
        }
        let instead = entries.iter().find(|it| it.fits(security));
        Err(match (first, instead) {
            (Some((transport, _)), Some(instead)) => {
                TransportError::Unsupported(UnsupportedError::NoPlaintext {
                    transport,
                    instead: instead.transports.first().copied().unwrap_or_default(),
                })
            }
            _ => TransportError::Connect(ConnectError::NotOffered {
                transport: super::NAME,
                offered: Vec::new(),
            }),
        })
    }
}
