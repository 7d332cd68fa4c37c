//! The trait of all transports, and the registry that finds them by name.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

#[cfg(feature = "auto")]
use crate::auto::candidate::SharedPort;
use crate::{
    Link, Profile, RegistryError, Settings, TransportError, security::Security,
    settings::name_and_settings,
};

/// A transport of bytes between two parties.
///
/// To add one: implement this trait, register it ([`Registry::register`]), and run
/// [`conformance::run`](crate::conformance::run) on it. All methods need a Tokio runtime with I/O
/// and time enabled.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Returns the name by which users choose the transport: short and in lower case.
    fn name(&self) -> &'static str;

    /// Returns a line that describes when to use the transport.
    fn describe(&self) -> &'static str;

    /// Returns a copy of this transport with the given settings, or `None` if the transport
    /// supports none (the default).
    ///
    /// The implementation takes the settings that it knows ([`Settings::take`]). [`Registry::get`]
    /// rejects the remaining ones.
    ///
    /// # Errors
    /// Returns [`RegistryError::InvalidSetting`](crate::RegistryError::InvalidSetting).
    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let _ = settings;
        Ok(None)
    }

    /// Returns the properties from which the run time over this transport is predicted. They
    /// reflect the current settings. Without a profile (the default), the transport can be used by
    /// name only, and `auto` never chooses it.
    fn profile(&self) -> Option<Profile> {
        None
    }

    /// Returns the implementation of this transport on the ports that `auto` shares between
    /// transports. Only transports of this crate have one. For `None` (the default), `auto` opens a
    /// separate port for the transport.
    #[cfg(feature = "auto")]
    #[doc(hidden)]
    fn shared_port(&self) -> Option<SharedPort> {
        None
    }

    /// Starts to listen.
    ///
    /// `address` is `host:port`, with an IPv6 host in brackets. With port 0 the system chooses a
    /// port, which [`Listener::local_address`] returns.
    ///
    /// # Errors
    /// Returns [`AddressError::InvalidAddress`](crate::AddressError::InvalidAddress),
    /// [`AddressError::Resolve`](crate::AddressError::Resolve),
    /// [`BindError::Listen`](crate::BindError::Listen),
    /// [`HandshakeError::NoPinnedPeer`](crate::HandshakeError::NoPinnedPeer).
    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError>;

    /// Connects to a listening peer. It tries once, and the caller may retry.
    ///
    /// The peer is authenticated when this returns, unless `security` is plaintext or without pins.
    /// The peer may still reject this side. The first read then returns
    /// [`HandshakeError::PeerRefusedUs`](crate::HandshakeError::PeerRefusedUs).
    ///
    /// # Errors
    /// The address errors of [`listen`](Self::listen),
    /// [`ConnectError::Connect`](crate::ConnectError::Connect),
    /// [`ConnectError::Timeout`](crate::ConnectError::Timeout), and errors of the handshake with
    /// the peer: [`HandshakeError::WrongPeer`](crate::HandshakeError::WrongPeer),
    /// [`HandshakeError::SecurityMismatch`](crate::HandshakeError::SecurityMismatch),
    /// [`HandshakeError::NotTranspute`](crate::HandshakeError::NotTranspute) and others.
    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError>;
}

/// A transport's listening end. Dropping it stops listening and aborts all handshakes in progress.
#[async_trait]
pub trait Listener: Send {
    /// Returns the local address, in a form that another party on this machine can pass to
    /// [`Transport::connect`].
    fn local_address(&self) -> String;

    /// Waits for the next link.
    ///
    /// Returns a link only after the handshake with a peer has succeeded. Connections that fail it,
    /// such as those of unknown peers, are logged and dropped, and listening continues.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Returns [`BindError::Accept`](crate::BindError::Accept) if the listening socket itself
    /// fails.
    async fn accept(&mut self) -> Result<Link, TransportError>;
}

/// The transports that a program knows, by name, in order of registration.
#[derive(Clone, Default)]
pub struct Registry {
    pub(crate) transports: Vec<Arc<dyn Transport>>,
}

impl Registry {
    /// Makes an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transport.
    ///
    /// # Errors
    /// Returns [`RegistryError::DuplicateTransport`](crate::RegistryError::DuplicateTransport) if
    /// its name is taken.
    pub fn register(&mut self, transport: Arc<dyn Transport>) -> Result<(), TransportError> {
        let name = transport.name();
        if self.find(name).is_some() {
            return Err(TransportError::Registry(
                RegistryError::DuplicateTransport { name: name.into() },
            ));
        }
        self.transports.push(transport);
        Ok(())
    }

    /// Removes the transports for whose names `keeps` returns `false`.
    pub fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.transports.retain(|transport| keeps(transport.name()));
    }

    /// Finds a transport by its name and applies the settings after the name. Examples of `text`:
    /// `tcp`, `tcp:cc=bbr`, `tcp-striped:n=4,cc=bbr`.
    ///
    /// # Errors
    /// Returns [`RegistryError::UnknownTransport`](crate::RegistryError::UnknownTransport), which
    /// lists the known names. Returns
    /// [`RegistryError::UnknownSetting`](crate::RegistryError::UnknownSetting) and
    /// [`RegistryError::InvalidSetting`](crate::RegistryError::InvalidSetting).
    pub fn get(&self, text: &str) -> Result<Arc<dyn Transport>, TransportError> {
        let (name, settings) = name_and_settings(text);
        let transport = self
            .find(name)
            .ok_or_else(|| RegistryError::UnknownTransport {
                name: name.into(),
                known: self.names().map(str::to_owned).collect(),
            })?;
        let Some(settings) = settings else {
            return Ok(Arc::clone(transport));
        };
        let mut settings = Settings::parse(transport.name(), settings)?;
        let configured = transport.configure(&mut settings)?;
        settings.finish()?;
        Ok(configured.unwrap_or_else(|| Arc::clone(transport)))
    }

    /// Returns the profile of a transport with the settings after its name, in the format of
    /// [`get`](Self::get). If the settings are invalid, returns the profile without settings.
    /// Returns `None` if the name is not registered or the transport has no profile.
    #[must_use]
    pub fn profile(&self, text: &str) -> Option<Profile> {
        match self.get(text) {
            Ok(transport) => transport.profile(),
            Err(_) => self.find(text.split(':').next()?)?.profile(),
        }
    }

    /// Iterates over the names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let mut names: Vec<_> = self.iter().map(|transport| transport.name()).collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// Iterates over the transports, in order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Transport>> {
        self.transports.iter()
    }

    /// Iterates over the transports that `auto` may choose: those that have a profile and repair
    /// losses.
    pub fn candidates(&self) -> impl Iterator<Item = &Arc<dyn Transport>> {
        let is_candidate = |profile: Profile| profile.repairs_losses;
        self.iter()
            .filter(move |transport| transport.profile().is_some_and(is_candidate))
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Transport>> {
        self.iter().find(|transport| transport.name() == name)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_transports_by_name() {
        let mut registry = Registry::with_builtins();
        assert_eq!(registry.get("tcp").unwrap().name(), "tcp");
        assert_eq!(
            registry.get("smoke").err().unwrap().to_string(),
            "there is no transport named \"smoke\"; known are: quic, rudp, tcp, tcp-striped, udp"
        );
        assert!(matches!(
            registry.register(registry.get("tcp").unwrap()),
            Err(TransportError::Registry(RegistryError::DuplicateTransport { name })) if name == "tcp"
        ));
        registry.retain(|name| name != "tcp");
        assert!(registry.get("tcp").is_err() && registry.get("udp").is_ok());
    }

    #[test]
    fn settings_follow_the_name() {
        let registry = Registry::with_builtins();
        for text in ["tcp:cc=reno", "tcp-striped:n=4", "tcp-striped:n=4+cc=reno"] {
            let name = text.split(':').next().unwrap();
            assert_eq!(registry.get(text).unwrap().name(), name);
        }
        for (text, message) in [
            ("smoke:n=1", "there is no transport named \"smoke\""),
            ("tcp:", "expected key=value"),
            ("tcp:n=4", "transport tcp has no setting \"n\"; it has: cc"),
            (
                "tcp:cc=b b r",
                "setting \"cc=b b r\" of transport tcp: expected",
            ),
            ("tcp-striped:n=0", "expected a number from 1 to 32"),
            ("tcp-striped:n=33", "expected a number from 1 to 32"),
        ] {
            let error = registry.get(text).err().unwrap().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }
}
