//! The listening end of the transport.

use async_trait::async_trait;

use super::{TcpStriped, UNSENT_LIMIT, groups::Groups, growing_port::GrowingPort, join::Join};
use crate::{
    Link, Listener, TransportError,
    tcp::{Acceptor, ConnectionHandler, Context, Port, Socket},
};

/// Authenticates a connection and adds it to its link.
#[derive(Clone)]
pub(super) struct StripeHandler {
    acceptor: Acceptor,
    groups: Groups,
}

pub(super) struct StripedListener(GrowingPort<StripeHandler, Link>);

impl ConnectionHandler for StripeHandler {
    type Handled = Option<Link>;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn handle_connection(
        self,
        socket: Socket,
        context: Context,
    ) -> Result<Option<Link>, TransportError> {
        let mut channel = (self.acceptor)
            .authenticate(socket.clone(), context.clone())
            .await?;
        let added = async {
            let join = Join::read(&mut channel, &context).await?;
            self.groups.add(&join, channel, None).await
        };
        let added = added.await;
        if added.is_err() {
            socket.close_politely().await;
        }
        added
    }
}

impl StripedListener {
    pub(super) async fn bind(
        address: &str,
        acceptor: Acceptor,
        transport: TcpStriped,
    ) -> Result<Self, TransportError> {
        let options = transport.options.tcp;
        let groups = Groups::new(transport, options.handshake_timeout);
        let handler = StripeHandler {
            acceptor,
            groups: groups.clone(),
        };
        let port = Port::bind(address, handler, options).await?;
        Ok(Self(GrowingPort::new(port, groups)))
    }
}

#[async_trait]
impl Listener for StripedListener {
    fn local_address(&self) -> String {
        self.0.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        self.0.next().await
    }
}
