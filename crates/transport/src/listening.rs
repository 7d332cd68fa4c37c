//! The common interfaces of the listeners of all transports.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Link, Listener, TransportError, link::LinkHalves};

/// A listening port that converts its connections to values of the type `T`, such as links.
#[async_trait]
pub(crate) trait PortListener<T>: Send {
    /// Returns the address at which another party on this machine can connect.
    fn local_address(&self) -> String;

    /// Waits for the value of the next connection. Cancel-safe.
    async fn next(&mut self) -> Result<T, TransportError>;
}

/// The [`Listener`] of a port whose connections become links.
pub(crate) struct LinkListener<P>(pub(crate) P);

#[async_trait]
impl<P: PortListener<Link>> Listener for LinkListener<P> {
    fn local_address(&self) -> String {
        self.0.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        self.0.next().await
    }
}

/// A connection to an authenticated peer.
pub(crate) struct Authenticated<R, W> {
    pub(crate) bare: LinkHalves<R, W>,
    /// The message that the listener sends to every connector, such as the offer of `auto`. With
    /// TLS, the certificate contains it.
    pub(crate) message: Option<Vec<u8>>,
    /// The transport that both sides use, such as `quic` or `auto`.
    pub(crate) transport: String,
}

/// Converts authenticated connections of a listener to links or other results.
pub(crate) trait AuthenticatedHandler<R, W>: Clone + Send + 'static {
    /// The type of the result, such as a link.
    type Handled: Send + 'static;

    /// Returns the transport's name for [`LinkInfo::transport`](crate::LinkInfo::transport).
    fn transport(&self) -> &'static str;

    /// Returns the ALPN names that the listener accepts.
    fn accepted_transports(&self) -> [&'static str; 2];

    /// Handles a connection. Returns `None` if the listener should ignore the connection and
    /// continue.
    fn handle_connection(
        self,
        authenticated: Authenticated<R, W>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Self::Handled>, TransportError>> + Send;
}
