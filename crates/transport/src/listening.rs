//! The common interface of the listeners of all transports.

use async_trait::async_trait;

use crate::{Link, Listener, TransportError};

/// A listening port whose connections become values of the type `T`, such as links.
#[async_trait]
pub(crate) trait PortListener<T>: Send {
    /// Returns the address at which another party on this machine can connect.
    fn local_address(&self) -> String;

    /// Waits for the next value. Cancel-safe.
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
