//! Which connections belong together, at the listening end.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{io::AsyncWriteExt, sync::Notify};

use super::{
    TcpStriped,
    join::{Binding, ID, JOINED, Join, MAX_STRIPES},
    roster::{Ending, Growth},
};
use crate::{
    CongestionControl, Fingerprint, TransportError,
    tcp::{Channel, Context},
    throttle::Throttle,
};

/// Links that may grow, and stripes that wait for the first one of theirs, at once: one more drops the oldest.
const MAX_WAITING: usize = 256;

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
    binding: Binding,
    channel: Channel,
    note: N,
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

/// What was made of the first stripe of a link.
pub(crate) struct Founded<V> {
    pub(crate) visit: V,
    pub(crate) growth: Growth,
    /// What further stripes are to have.
    pub(crate) congestion_control: Option<CongestionControl>,
}

struct Group<N> {
    id: [u8; ID],
    peer: Option<Fingerprint>,
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
        let peer = stripe.channel.info(TcpStriped::NAME).peer_fingerprint;
        let (id, is_first) = (stripe.join.id, stripe.join.index == 0);
        // The peer's proven identity is part of what is looked for: links of different peers never meet.
        let place = (self.groups.iter()).position(|group| group.id == id && group.peer == peer);
        if is_first {
            return self.found(place, stripe, now, found);
        }
        let Some(place) = place else {
            self.push(id, peer, now, Stage::Early(vec![stripe]));
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
        stripe: Stripe<N>,
        now: Instant,
        found: impl FnOnce(Channel, u8, N) -> Option<Founded<V>>,
    ) -> Option<V> {
        let is_new = place.is_none_or(|place| matches!(self.groups[place].stage, Stage::Early(_)));
        if !is_new || !stripe.binding.verify(&stripe.binding, &stripe.join) {
            self.complain("the first stripe of a link does not fit the others");
            return None;
        }
        let early = place.and_then(|place| self.groups.remove(place));
        let Stripe {
            join,
            binding,
            channel,
            note,
        } = stripe;
        let peer = channel.info(TcpStriped::NAME).peer_fingerprint;
        let founded = found(channel, join.count, note)?;
        (founded.growth).at_end(Ending::Tell(Arc::clone(&self.gone)));
        let mut growing = Growing {
            count: join.count,
            first: binding,
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
            self.push(join.id, peer, now, Stage::Growing(growing));
        }
        Some(founded.visit)
    }

    /// Returns whether a link may still get stripes.
    pub(super) fn is_growing(&self) -> bool {
        let is_growing = |group: &Group<N>| matches!(group.stage, Stage::Growing(_));
        self.groups.iter().any(is_growing)
    }

    /// Lets no link grow any further.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }

    fn push(&mut self, id: [u8; ID], peer: Option<Fingerprint>, now: Instant, stage: Stage<N>) {
        self.groups.push_back(Group {
            id,
            peer,
            deadline: now + self.patience,
            stage,
        });
        self.bound();
    }

    /// Keeps what waits bounded.
    fn bound(&mut self) {
        let size = |group: &Group<N>| match &group.stage {
            Stage::Early(early) => early.len(),
            Stage::Growing(_) => 1,
        };
        while self.groups.iter().map(size).sum::<usize>() > MAX_WAITING {
            self.groups.pop_front();
            self.complain("too many links lack stripes");
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

impl Growing {
    fn is_complete(&self) -> bool {
        self.taken.count_ones() == u32::from(self.count)
    }

    /// Checks that a stripe is one of this link and lets it in.
    fn let_in<N>(&mut self, stripe: Stripe<N>) -> Result<(), &'static str> {
        let Stripe {
            join,
            binding,
            channel,
            ..
        } = stripe;
        // Less than the 32 bits that there are: it was checked when it was read.
        let bit = 1_u32 << join.index;
        if join.count != self.count || self.taken & bit != 0 {
            return Err("a stripe does not fit the others of its link");
        }
        if !binding.verify(&self.first, &join) {
            return Err("a stripe was not opened by who opened the first of its link");
        }
        self.taken |= bit;
        if let Some(name) = self.congestion_control
            && let Err(error) = channel.socket().set_congestion_control(name)
        {
            tracing::debug!(%error, "the peer's congestion control is not there; keeping ours");
        }
        tokio::spawn(welcome(channel, join.index, self.growth.clone()));
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
