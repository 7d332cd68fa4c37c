//! The listening end of the transport.

use super::{TcpStriped, UNSENT_LIMIT, groups::Groups, growing_port::GrowingPort, join::Join};
use crate::{
    Link, Listener, TransportError,
    listening::LinkListener,
    tcp::{Acceptor, ConnectionHandler, Context, Port, Socket},
};

/// Authenticates a connection and adds it to its link.
#[derive(Clone)]
struct StripeHandler {
    acceptor: Acceptor,
    groups: Groups,
}

impl ConnectionHandler for StripeHandler {
    type Handled = Link;

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

/// Starts to listen.
pub(super) async fn listen(
    address: &str,
    acceptor: Acceptor,
    transport: TcpStriped,
) -> Result<Box<dyn Listener>, TransportError> {
    let options = transport.options.tcp;
    let groups = Groups::new(transport, options.handshake_timeout);
    let handler = StripeHandler {
        acceptor,
        groups: groups.clone(),
    };
    let port = Port::bind(address, handler, options).await?;
    Ok(Box::new(LinkListener(GrowingPort::new(port, groups))))
}
