//! The listening end of the transport.

use async_trait::async_trait;

use super::{TcpStriped, UNSENT_LIMIT, gather::Gatherer, groups::Groups, join::Join};
use crate::{
    Link, Listener, TransportError,
    tcp::{Acceptor, Context, Greeter, Port, Socket},
};

/// Authenticates a connection and adds it to its link.
#[derive(Clone)]
pub(super) struct StripeGreeter {
    acceptor: Acceptor,
    groups: Groups,
}

pub(super) struct StripedListener(Gatherer<StripeGreeter, Link>);

impl Greeter for StripeGreeter {
    type Guest = Option<Link>;

    const UNSENT_LIMIT: u32 = UNSENT_LIMIT;

    async fn greet(self, socket: Socket, context: Context) -> Result<Option<Link>, TransportError> {
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
        let greeter = StripeGreeter {
            acceptor,
            groups: groups.clone(),
        };
        let port = Port::bind(address, greeter, options).await?;
        Ok(Self(Gatherer::new(port, groups)))
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
