//! Finds the transport for the connections of companies: `tcp` or `quic`. Both need few round trips
//! to send a few bytes.

use std::sync::Arc;

use transpute::{
    Registry, Transport, TransportError,
    transport::{Quic, QuicOptions, Tcp, TcpOptions},
};

/// Maximum number of concurrent handshakes of a server. Each takes up to about 100 KiB of memory.
/// The number is large because a thousand companies may connect at once, and each handshake takes a
/// round trip.
const MAX_HANDSHAKES: usize = 256;

/// Finds a transport by name: `tcp` or `quic`, with optional settings.
///
/// # Errors
/// Returns
/// [`RegistryError::UnknownTransport`](transpute_transport::RegistryError::UnknownTransport), or an
/// error of a setting.
pub(crate) fn named(name: &str) -> Result<Arc<dyn Transport>, TransportError> {
    let (mut tcp, mut quic) = (TcpOptions::default(), QuicOptions::default());
    tcp.max_handshakes = MAX_HANDSHAKES;
    quic.max_handshakes = MAX_HANDSHAKES;
    let mut registry = Registry::new();
    registry.register(Arc::new(Tcp::new(tcp)))?;
    registry.register(Arc::new(Quic::new(quic)))?;
    registry.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_and_quic_are_known() {
        for name in ["tcp", "quic"] {
            assert_eq!(named(name).unwrap().name(), name);
        }
        let error = named("rudp").err().unwrap().to_string();
        assert!(error.contains("known are: quic, tcp"), "{error}");
    }
}
