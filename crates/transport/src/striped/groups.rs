//! Which connections belong together, at the listening end.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{io::AsyncWriteExt, sync::Notify};

use super::{
    TcpStriped,
    join::{Binding, Challenge, ID, JOINED, Join, MAX_STRIPES, SealedJoin},
    roster::{Ending, Growth},
    sealed::{Pair, Secret, Towards},
};
use crate::{
    CongestionControl, Fingerprint, TransportError,
    tcp::{Channel, Context, Socket},
    throttle::Throttle,
};

/// Links that may grow, and stripes that wait for the first one of theirs, so many of each at once: one more drops the oldest.
const MAX_WAITING: usize = 256;

/// What is said of a stripe with a wrong tag.
const NOT_OURS: &str = "a stripe was not opened by who opened the first of its link";

/// How long the welcome of a stripe waits for what the link has to send on it.
const WELCOME_HELD: Duration = Duration::from_millis(1);

/// Links that may get further stripes.
pub(crate) struct Groups<N> {
    /// Oldest first.
    groups: VecDeque<Group<N>>,
    patience: Duration,
    /// Told when a link is gone.
    gone: Arc<Notify>,
    log: Throttle,
}

/// A connection that has said which link it belongs to, and a note of the listener.
pub(crate) struct Stripe<N> {
    join: Join,
    way: Way,
    note: N,
}

/// How a stripe has come.
enum Way {
    /// Authenticated by itself, or in plaintext.
    Greeted(Binding, Box<Channel>),
    /// From an unknown peer, which was sent the challenge; to be sealed with keys of stripe 0.
    Bare(Box<(Socket, Context, Challenge)>),
}

impl<N> Stripe<N> {
    pub(crate) fn new(join: Join, channel: Channel, note: N) -> Result<Self, TransportError> {
        let binding = Binding::of(&channel, &join.id)?;
        Ok(Self {
            join,
            way: Way::Greeted(binding, Box::new(channel)),
            note,
        })
    }

    /// One that is to be sealed; never the first of a link.
    pub(crate) fn bare(sealed: SealedJoin, socket: Socket, context: Context, note: N) -> Self {
        Self {
            join: sealed.join,
            way: Way::Bare(Box::new((socket, context, sealed.challenge))),
            note,
        }
    }

    fn whose(&self) -> Whose {
        match &self.way {
            Way::Greeted(_, channel) => {
                Whose::Peer(channel.info(TcpStriped::NAME).peer_fingerprint)
            }
            Way::Bare(_) => Whose::Unknown,
        }
    }
}

/// Whose a stripe or a link is.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Whose {
    /// It says so, and its tag will tell.
    Unknown,
    /// Of the peer with that key; of somebody without pins.
    Peer(Option<Fingerprint>),
}

impl Whose {
    fn may_be(self, other: Self) -> bool {
        self == other || self == Self::Unknown || other == Self::Unknown
    }
}

/// What was made of the first stripe of a link.
pub(crate) struct Founded<V> {
    pub(crate) visit: V,
    pub(crate) growth: Growth,
    /// What further stripes are to have.
    pub(crate) congestion_control: Option<CongestionControl>,
}

struct Group<N> {
    id: [u8; ID],
    whose: Whose,
    deadline: Instant,
    stage: Stage<N>,
}

enum Stage<N> {
    /// Its first stripe has not come, though others have.
    Early(Vec<Stripe<N>>),
    Growing(Growing),
}

/// A link in use that lacks stripes.
struct Growing {
    count: u8,
    first: Binding,
    /// `None` in plaintext.
    secret: Option<Secret>,
    /// A bit for each stripe that has come.
    taken: u32,
    growth: Growth,
    congestion_control: Option<CongestionControl>,
}

impl<N> Groups<N> {
    /// Lets a link grow for so long.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            groups: VecDeque::new(),
            patience,
            gone: Arc::default(),
            log: Throttle::new(),
        }
    }

    /// Adds a stripe to its link. If it is the first one, `found` makes a link of it, which is returned.
    pub(crate) fn add<V>(
        &mut self,
        stripe: Stripe<N>,
        now: Instant,
        found: impl FnOnce(Channel, u8, N) -> Option<Founded<V>>,
    ) -> Option<V> {
        let whose = stripe.whose();
        let (id, is_first) = (stripe.join.id, stripe.join.index == 0);
        // The peer's identity is part of what is looked for, where it was proved: links of different peers never meet.
        let place =
            (self.groups.iter()).position(|group| group.id == id && group.whose.may_be(whose));
        if is_first {
            return self.found(place, whose, stripe, now, found);
        }
        let Some(place) = place else {
            self.push(id, whose, now, Stage::Early(vec![stripe]));
            return None;
        };
        let refused = match &mut self.groups[place].stage {
            Stage::Early(early) if early.len() < usize::from(MAX_STRIPES) => {
                early.push(stripe);
                self.bound();
                return None;
            }
            Stage::Early(_) => Err("a link has too many stripes"),
            Stage::Growing(growing) => growing.let_in(stripe),
        };
        if let Err(reason) = refused {
            self.complain(reason);
        }
        self.expire(now);
        None
    }

    /// Begins a link with its first stripe, and lets those in that came earlier.
    fn found<V>(
        &mut self,
        place: Option<usize>,
        whose: Whose,
        stripe: Stripe<N>,
        now: Instant,
        found: impl FnOnce(Channel, u8, N) -> Option<Founded<V>>,
    ) -> Option<V> {
        let is_new = place.is_none_or(|place| matches!(self.groups[place].stage, Stage::Early(_)));
        let Stripe {
            join,
            way: Way::Greeted(binding, channel),
            note,
        } = stripe
        else {
            self.complain("the first stripe of a link came in the clear");
            return None;
        };
        if !is_new || !binding.verify(&binding, &join) {
            self.complain("the first stripe of a link does not fit the others");
            return None;
        }
        let early = place.and_then(|place| self.groups.remove(place));
        let Ok(secret) = Secret::of(&channel, &join.id) else {
            self.complain("the first stripe of a link yields no keys");
            return None;
        };
        let founded = found(*channel, join.count, note)?;
        (founded.growth).at_end(Ending::Tell(Arc::clone(&self.gone)));
        let mut growing = Growing {
            count: join.count,
            first: binding,
            secret,
            taken: 1,
            growth: founded.growth,
            congestion_control: founded.congestion_control,
        };
        if let Some(Stage::Early(early)) = early.map(|group| group.stage) {
            for stripe in early {
                if let Err(reason) = growing.let_in(stripe) {
                    self.complain(reason);
                }
            }
        }
        if !growing.is_complete() {
            self.push(join.id, whose, now, Stage::Growing(growing));
        }
        Some(founded.visit)
    }

    /// Returns whether a link may still get stripes.
    pub(super) fn is_growing(&self) -> bool {
        self.groups.iter().any(|group| group.growing() > 0)
    }

    /// Lets no link grow any further.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }

    fn push(&mut self, id: [u8; ID], whose: Whose, now: Instant, stage: Stage<N>) {
        self.groups.push_back(Group {
            id,
            whose,
            deadline: now + self.patience,
            stage,
        });
        self.bound();
    }

    /// Keeps what waits bounded. Anybody can send stripes that wait for a first one: they push out only each other.
    fn bound(&mut self) {
        for size in [Group::early, Group::growing] {
            while self.groups.iter().map(size).sum::<usize>() > MAX_WAITING
                && let Some(oldest) = self.groups.iter().position(|group| size(group) > 0)
            {
                self.groups.remove(oldest);
                self.complain("too many links lack stripes");
            }
        }
    }

    /// Waits until a link has waited long enough, or is gone. Cancel-safe.
    pub(crate) async fn expired(&mut self) {
        let deadline = self.groups.front().map(|group| group.deadline);
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = self.gone.notified() => {}
        }
        self.expire(Instant::now());
    }

    fn expire(&mut self, now: Instant) {
        let mut late = None;
        self.groups.retain(|group| {
            let is_due = group.deadline <= now;
            match &group.stage {
                Stage::Early(_) if is_due => late = Some("stripes came without the first of them"),
                Stage::Growing(growing) if growing.is_complete() => return false,
                Stage::Growing(growing) if !growing.growth.is_wanted() => return false,
                Stage::Growing(_) if is_due => late = Some("a link did not get all its stripes"),
                _ => {}
            }
            !is_due
        });
        if let Some(reason) = late {
            self.complain(reason);
        }
    }

    fn complain(&mut self, reason: &str) {
        if let Some(not_shown) = self.log.admit(Instant::now()) {
            tracing::warn!(not_shown, "{reason}; dropped");
        }
    }
}

impl<N> Group<N> {
    /// Returns how many stripes wait for the first one.
    fn early(&self) -> usize {
        match &self.stage {
            Stage::Early(early) => early.len(),
            Stage::Growing(_) => 0,
        }
    }

    /// Returns 1 for a link in use.
    fn growing(&self) -> usize {
        usize::from(matches!(self.stage, Stage::Growing(_)))
    }
}

impl Growing {
    fn is_complete(&self) -> bool {
        self.taken.count_ones() == u32::from(self.count)
    }

    /// Checks that a stripe without a handshake of its own is one of this link, and seals it.
    fn seal(
        &self,
        join: Join,
        (socket, context, challenge): (Socket, Context, Challenge),
    ) -> Option<Channel> {
        let secret = self.secret.as_ref()?;
        let index = join.index;
        if !secret.verify(&SealedJoin { join, challenge }).ok()? {
            return None;
        }
        let keys = Pair::of(secret, index, Towards::Connector).ok()?;
        Some(keys.seal(socket, context))
    }

    /// Checks that a stripe is one of this link and lets it in.
    fn let_in<N>(&mut self, stripe: Stripe<N>) -> Result<(), &'static str> {
        let Stripe { join, way, .. } = stripe;
        let index = join.index;
        // Less than the 32 bits that there are: it was checked when it was read.
        let bit = 1_u32 << index;
        if join.count != self.count || self.taken & bit != 0 {
            return Err("a stripe does not fit the others of its link");
        }
        let channel = match way {
            Way::Greeted(binding, channel) if binding.verify(&self.first, &join) => *channel,
            Way::Bare(bare) => self.seal(join, *bare).ok_or(NOT_OURS)?,
            Way::Greeted(..) => return Err(NOT_OURS),
        };
        self.taken |= bit;
        if let Some(name) = self.congestion_control
            && let Err(error) = channel.socket().set_congestion_control(name)
        {
            tracing::debug!(%error, "the peer's congestion control is not there; keeping ours");
        }
        tokio::spawn(welcome(channel, index, self.growth.clone()));
        Ok(())
    }
}

/// Tells a stripe that it is one, which makes it one.
async fn welcome(mut channel: Channel, index: u8, growth: Growth) {
    let context: Context = channel.context().clone();
    let socket = channel.socket().clone();
    // It shares a packet with what the link sends first, if that is at once.
    socket.hold(true);
    let said = async {
        channel.write_all(&[JOINED]).await?;
        channel.flush().await
    };
    let said = context.limit("a stripe to be welcomed", said).await;
    socket.hold(false);
    match said {
        Ok(Ok(())) => {
            let welcomed = socket.downgrade();
            drop(socket);
            growth.add(index, channel);
            drop(growth);
            tokio::time::sleep(WELCOME_HELD).await;
            welcomed.release();
        }
        Ok(Err(error)) => tracing::debug!(%error, "a stripe ended when it joined"),
        Err(error) => tracing::debug!(%error, "a stripe ended when it joined"),
    }
}
