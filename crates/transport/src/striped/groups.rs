//! The listening end: collects connections until a link has all its stripes.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

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
    groups: Groups<()>,
}

/// Links that lack stripes.
pub(crate) struct Groups<N> {
    /// Oldest first.
    groups: VecDeque<Group<N>>,
    patience: Duration,
    log: Throttle,
}

/// Authenticates a connection and hears which link it belongs to.
#[derive(Clone)]
pub(super) struct StripeGreeter(pub(super) Acceptor);

/// A connection that has said which link it belongs to, and a note of the listener.
pub(crate) struct Stripe<N> {
    join: Join,
    binding: Binding,
    pub(crate) channel: Channel,
    pub(crate) note: N,
}

impl<N> Stripe<N> {
    pub(crate) fn new(join: Join, channel: Channel, note: N) -> Result<Self, TransportError> {
        Ok(Self {
            binding: Binding::of(&channel, &join.id)?,
            join,
            channel,
            note,
        })
    }
}

/// A link that lacks stripes.
struct Group<N> {
    id: [u8; ID],
    peer: Option<Fingerprint>,
    deadline: Instant,
    stripes: Vec<Option<Stripe<N>>>,
}

impl Greeter for StripeGreeter {
    type Guest = Stripe<()>;

    const UNSENT_LIMIT: u32 = super::UNSENT_LIMIT;

    async fn greet(self, socket: Socket, context: Context) -> Result<Stripe<()>, TransportError> {
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
        Self {
            port,
            groups: Groups::new(transport.options.tcp.handshake_timeout),
            transport,
        }
    }
}

impl<N> Groups<N> {
    /// Lets a link wait so long for all its stripes.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            groups: VecDeque::new(),
            patience,
            log: Throttle::new(),
        }
    }

    /// Adds a stripe to its link, and returns those of the link, in order, if that was the last one.
    pub(crate) fn add(&mut self, stripe: Stripe<N>, now: Instant) -> Option<Vec<Stripe<N>>> {
        let peer = stripe.channel.info(TcpStriped::NAME).peer_fingerprint;
        let (id, index) = (stripe.join.id, usize::from(stripe.join.index));
        let count = usize::from(stripe.join.count);
        // The peer's proven identity is part of what is looked for: links of different peers never meet.
        let found = (self.groups.iter()).position(|group| group.id == id && group.peer == peer);
        let place = found.unwrap_or_else(|| {
            self.groups.push_back(Group {
                id,
                peer,
                deadline: now + self.patience,
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
        Some(stripes)
    }

    /// Keeps the number of waiting stripes bounded.
    fn bound(&mut self) {
        let waiting = |groups: &VecDeque<Group<N>>| -> usize {
            let present = |group: &Group<N>| group.stripes.iter().flatten().count();
            groups.iter().map(present).sum()
        };
        while waiting(&self.groups) > MAX_WAITING {
            self.groups.pop_front();
            self.complain("too many links lack stripes");
        }
    }

    /// Waits until the oldest link has waited long enough. Cancel-safe.
    pub(crate) async fn expired(&mut self) {
        let deadline = self.groups.front().map(|group| group.deadline);
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
        self.expire(Instant::now());
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
            // Both branches are cancel-safe, and nothing is awaited outside of them.
            tokio::select! {
                stripe = self.port.next() => {
                    let stripes = self.groups.add(stripe?, Instant::now()).unwrap_or_default();
                    let channels = stripes.into_iter().map(|stripe| stripe.channel).collect();
                    if let Some(link) = self.transport.link(channels) {
                        return Ok(link);
                    }
                }
                () = self.groups.expired() => {}
            }
        }
    }
}
