//! The settings of the QUIC library.

use std::{sync::Arc, time::Duration};

use quinn::{
    ClientConfig, ConnectError, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig},
};

use super::{
    congestion::Factory,
    options::{MAX_STREAMS, QuicOptions, STREAM_WINDOW},
    writer,
};
use crate::{HandshakeError, Security, TransportError, UnsupportedError, tls};

/// Idle timeout (RFC 9000, section 10.1). After [`KEEP_ALIVE`] without packets, a side sends a
/// keep-alive, which restarts the timer. So a link reports a vanished peer after at most the sum of
/// both times, which is less than the required 10 s.
const IDLE_TIMEOUT: Duration = Duration::from_millis(7500);
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Maximum number of incoming connections that the endpoint queues until `accept` takes them.
const MAX_INCOMING: usize = 1024;
const INCOMING_BUFFER: u64 = 16 << 10;
const INCOMING_BUFFERS: u64 = 1 << 20;

/// Makes the configuration of the connecting side. `transports` are those that this side supports
/// on the connection.
pub(super) fn client(
    options: &QuicOptions,
    security: &Security,
    transports: &[&str],
) -> Result<ClientConfig, TransportError> {
    let crypto = tls::client_config(security, transports, super::Quic::NAME)?;
    let crypto = crypto.ok_or_else(no_plaintext)?;
    let crypto = QuicClientConfig::try_from(crypto).map_err(no_suite)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(options)?));
    Ok(config)
}

/// Makes the configuration of the listening side. `transports` are those that this side supports on
/// the connection.
pub(super) fn server(
    options: &QuicOptions,
    security: &Security,
    transports: &[&str],
) -> Result<ServerConfig, TransportError> {
    let crypto = tls::server_config(security, transports, super::Quic::NAME)?;
    let crypto = crypto.ok_or_else(no_plaintext)?;
    let crypto = QuicServerConfig::try_from(crypto).map_err(no_suite)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(Arc::new(transport(options)?))
        .migration(false)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BUFFER)
        .incoming_buffer_size_total(INCOMING_BUFFERS);
    Ok(config)
}

pub(super) fn endpoint() -> EndpointConfig {
    EndpointConfig::default()
}

/// Makes the configuration of an endpoint that shares its port with other protocols. It does not
/// grease the QUIC bit (RFC 9287), because this bit distinguishes QUIC from the other protocols.
pub(super) fn endpoint_beside_others() -> EndpointConfig {
    let mut config = endpoint();
    config.grease_quic_bit(false);
    config
}

/// The round-trip time that is assumed before the first measurement. A lost first packet is
/// retransmitted after three times this value. Browsers use a similar value. With the 333 ms of RFC
/// 9002, the retransmission would occur only after a second.
const USUAL_RTT: Duration = Duration::from_millis(100);

fn transport(options: &QuicOptions) -> Result<TransportConfig, TransportError> {
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).map_err(|error| HandshakeError::Tls {
        detail: error.to_string(),
    })?;
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(MAX_STREAMS.into())
        .stream_receive_window(var_int(STREAM_WINDOW))
        .receive_window(var_int(options.receive_window()))
        .send_window(writer::send_window(options.bdp().unwrap_or(1 << 20)))
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .datagram_receive_buffer_size(None)
        // The streams carry stripes of one byte stream, so the peer needs the oldest bytes first.
        // With fair scheduling, all streams in the first window would complete together, a round
        // trip late.
        .send_fairness(false)
        .congestion_controller_factory(Arc::new(Factory::new(options)));
    let known = options.path.rtt.filter(|rtt| !rtt.is_zero());
    config.initial_rtt(known.unwrap_or(USUAL_RTT));
    Ok(config)
}

fn var_int(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

fn no_plaintext() -> TransportError {
    TransportError::Unsupported(UnsupportedError::NoPlaintext {
        transport: super::Quic::NAME,
        instead: crate::Tcp::NAME,
    })
}

fn no_suite(error: NoInitialCipherSuite) -> TransportError {
    TransportError::Handshake(HandshakeError::Tls {
        detail: error.to_string(),
    })
}

/// Returns the error if no connection to `address` can be started.
pub(super) fn connect_error(address: &str, error: ConnectError) -> TransportError {
    TransportError::Connect(crate::ConnectError::Connect {
        address: address.into(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
    })
}
