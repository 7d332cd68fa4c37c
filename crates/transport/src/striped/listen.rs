//! The listening end of the transport.

use std::time::Instant;

use async_trait::async_trait;

use super::{
    TcpStriped,
    gather::{Gatherer, Host},
    groups::{Founded, Groups, Stripe},
    join::Join,
};
use crate::{
    Link, Listener, TransportError,
    tcp::{Acceptor, Context, Greeter, Port, Socket},
};

/// Makes links of stripes.
struct StripeHost(TcpStriped);

/// Authenticates a connection and hears which link it belongs to.
#[derive(Clone)]
pub(super) struct StripeGreeter(pub(super) Acceptor);

pub(super) struct StripedListener(Gatherer<StripeHost>);

impl Greeter for StripeGreeter {
    type Guest = Stripe<()>;

    const UNSENT_LIMIT: u32 = super::UNSENT_LIMIT;

    async fn greet(
        self,
        mut socket: Socket,
        context: Context,
    ) -> Result<Stripe<()>, TransportError> {
        if self.0.encrypts()
            && let Some(join) = Join::read_sealed(&mut socket, &context).await?
        {
            return Ok(Stripe::bare(join, socket, context, ()));
        }
        let mut channel = self.0.authenticate(socket.clone(), context.clone()).await?;
        match Join::read(&mut channel, &context).await {
            Ok(join) => Stripe::new(join, channel, ()),
            Err(error) => {
                socket.close_politely().await;
                Err(error)
            }
        }
    }
}

impl StripedListener {
    pub(super) fn new(port: Port<StripeGreeter>, transport: TcpStriped) -> Self {
        let groups = Groups::new(transport.options.tcp.handshake_timeout);
        Self(Gatherer::new(port, groups, StripeHost(transport)))
    }
}

impl Host for StripeHost {
    type Greeter = StripeGreeter;
    type Note = ();
    type Visit = Link;

    fn receive(&self, stripe: Stripe<()>, groups: &mut Groups<()>) -> Option<Link> {
        groups.add(stripe, Instant::now(), |first, count, ()| {
            let (visit, growth) = self.0.begin(first, count, |reader| reader);
            Some(Founded {
                visit,
                growth,
                // The socket that they came in at has it.
                congestion_control: None,
            })
        })
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
