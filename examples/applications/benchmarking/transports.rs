//! The transports of companies' links: those that need few round trips for a few bytes.

use std::sync::Arc;

use transpute::{
    Registry, Transport, TransportError,
    transport::{Quic, QuicOptions, Tcp, TcpOptions},
};

/// Handshakes that a server has under way at a time, of at most about 100 KiB each. A thousand companies may well come at
/// once, and each handshake takes a round trip.
const HANDSHAKES: usize = 256;

/// Finds a transport by name: `tcp` or `quic`, with settings if wanted.
///
/// # Errors
/// [`RegistryError::UnknownTransport`](crate::RegistryError::UnknownTransport) and those of settings.
pub(crate) fn named(name: &str) -> Result<Arc<dyn Transport>, TransportError> {
    let (mut tcp, mut quic) = (TcpOptions::default(), QuicOptions::default());
    tcp.max_handshakes = HANDSHAKES;
    quic.max_handshakes = HANDSHAKES;
    let mut registry = Registry::new();
    registry.register(Arc::new(Tcp::new(tcp)))?;
    registry.register(Arc::new(Quic::new(quic)))?;
    registry.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two() {
        for name in ["tcp", "quic"] {
            assert_eq!(named(name).unwrap().name(), name);
        }
        let error = named("rudp").err().unwrap().to_string();
        assert!(error.contains("known are: quic, tcp"), "{error}");
    }
}
