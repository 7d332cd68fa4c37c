//! The listening end: collects connections until a link has all its stripes.

use std::{collections::VecDeque, time::Instant};

use async_trait::async_trait;

use super::{
    TcpStriped,
    join::{Binding, ID, Join},
};
use crate::{
    Fingerprint, Link, Listener, TransportError,
    tcp::{Acceptor, Channel, Context, Greeter, Port, Socket},
    throttle::Throttle,
};

/// Stripes that may wait for others at once, over all links: one more drops the link that has waited longest.
const MAX_WAITING: usize = 256;

pub(super) struct StripedListener {
    port: Port<StripeGreeter>,
    transport: TcpStriped,
    /// Oldest first.
    groups: VecDeque<Group>,
    log: Throttle,
}

/// Authenticates a connection and hears which link it belongs to.
#[derive(Clone)]
pub(super) struct StripeGreeter(pub(super) Acceptor);

pub(super) struct Stripe {
    join: Join,
    binding: Binding,
    channel: Channel,
}

/// A link that lacks stripes.
struct Group {
    id: [u8; ID],
    peer: Option<Fingerprint>,
    deadline: Instant,
    stripes: Vec<Option<Stripe>>,
}

impl Greeter for StripeGreeter {
    type Guest = Stripe;

    const UNSENT_LIMIT: u32 = super::UNSENT_LIMIT;

    async fn greet(self, socket: Socket, context: Context) -> Result<Stripe, TransportError> {
        let mut channel = self.0.authenticate(socket.clone(), context.clone()).await?;
        match Join::read(&mut channel, &context).await {
            Ok(join) => Ok(Stripe {
                binding: Binding::of(&channel, &join.id)?,
                join,
                channel,
            }),
            Err(error) => {
                socket.close_politely().await;
                Err(error)
            }
        }
    }
}

impl StripedListener {
    pub(super) fn new(port: Port<StripeGreeter>, transport: TcpStriped) -> Self {
        Self {
            port,
            transport,
            groups: VecDeque::new(),
            log: Throttle::new(),
        }
    }

    /// Adds a stripe to its link, and returns the link if that was the last one.
    fn add(&mut self, stripe: Stripe, now: Instant) -> Option<Link> {
        let peer = stripe.channel.info(TcpStriped::NAME).peer_fingerprint;
        let (id, index) = (stripe.join.id, usize::from(stripe.join.index));
        let count = usize::from(stripe.join.count);
        // The peer's proven identity is part of what is looked for: links of different peers never meet.
        let found = (self.groups.iter()).position(|group| group.id == id && group.peer == peer);
        let place = found.unwrap_or_else(|| {
            self.groups.push_back(Group {
                id,
                peer,
                deadline: now + self.transport.options.tcp.handshake_timeout,
                stripes: (0..count).map(|_| None).collect(),
            });
            self.groups.len() - 1
        });
        let stripes = &mut self.groups[place].stripes;
        let fits = stripes.len() == count;
        match stripes.get_mut(index) {
            Some(free @ None) if fits => *free = Some(stripe),
            _ => {
                self.complain("a stripe does not fit the others of its link");
                return None;
            }
        }
        if self.groups[place].stripes.iter().any(Option::is_none) {
            self.bound();
            return None;
        }
        let group = self.groups.remove(place)?;
        let stripes: Vec<_> = group.stripes.into_iter().flatten().collect();
        let is_bound = stripes
            .iter()
            .all(|stripe| stripe.binding.verify(&stripes[0].binding, &stripe.join));
        if !is_bound {
            self.complain("a stripe was not opened by who opened the others of its link");
            return None;
        }
        let channels = stripes.into_iter().map(|stripe| stripe.channel).collect();
        self.transport.link(channels)
    }

    /// Keeps the number of waiting stripes bounded.
    fn bound(&mut self) {
        let waiting = |groups: &VecDeque<Group>| -> usize {
            let present = |group: &Group| group.stripes.iter().flatten().count();
            groups.iter().map(present).sum()
        };
        while waiting(&self.groups) > MAX_WAITING {
            self.groups.pop_front();
            self.complain("too many links lack stripes");
        }
    }

    fn expire(&mut self, now: Instant) {
        while self
            .groups
            .front()
            .is_some_and(|group| group.deadline <= now)
        {
            self.groups.pop_front();
            self.complain("a link did not get all its stripes in time");
        }
    }

    fn complain(&mut self, reason: &str) {
        if let Some(not_shown) = self.log.admit(Instant::now()) {
            tracing::warn!(not_shown, "{reason}; dropped");
        }
    }
}

#[async_trait]
impl Listener for StripedListener {
    fn local_address(&self) -> String {
        self.port.local_address()
    }

    async fn accept(&mut self) -> Result<Link, TransportError> {
        loop {
            let deadline = self.groups.front().map(|group| group.deadline);
            let expiry = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            // Both branches are cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                stripe = self.port.next() => {
                    if let Some(link) = self.add(stripe?, Instant::now()) {
                        return Ok(link);
                    }
                }
                () = expiry => self.expire(Instant::now()),
            }
        }
    }
}
