//! Stripes that join a link while it is in use.
//!
//! A link begins with its first connection. Whoever brings up others holds its [`Growth`], and each half of the link has a
//! [`Seat`] where newcomers wait for it. When the last handle on the growth is gone, the link has all the stripes that it
//! will ever have; when both halves are gone, nobody needs to bring up more.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use tokio::{io::AsyncWriteExt, sync::Notify, task::AbortHandle};

use super::{
    UNSENT_LIMIT, UNSENT_LIMIT_GROWING, frame::Header, probe::StripedProbe, window::Window,
};
use crate::{
    LinkReader, LinkWriter,
    tcp::{Channel, WeakSocket},
};

/// How long a stripe that comes after the end of a direction has to take the word of it.
const LAST_WORD: Duration = Duration::from_secs(10);

/// The right to add stripes to a link; the link grows while there is one.
#[derive(Clone)]
pub(crate) struct Growth(Arc<Inner>);

struct Inner {
    readers: Side<LinkReader>,
    writers: Side<Sending>,
    probe: Arc<StripedProbe>,
    life: Weak<Life>,
    /// Their kernels hold little until the link is complete.
    sockets: Mutex<Vec<WeakSocket>>,
}

type Side<H> = Arc<Mutex<Waiting<H>>>;

/// The sending half of a stripe.
pub(super) struct Sending {
    pub(super) writer: LinkWriter,
    pub(super) window: Window,
}

/// What one half of the link is to hear of.
struct Waiting<H> {
    newcomers: Vec<Newcomer<H>>,
    waker: Option<Waker>,
    is_growing: bool,
    is_gone: bool,
    /// Where our direction has ended, once it has.
    end: Option<u64>,
}

/// A stripe's half on its way to that of the link.
pub(super) struct Newcomer<H> {
    pub(super) number: u8,
    pub(super) half: H,
    pub(super) fate: Arc<Fate>,
}

/// Where newcomers wait for one half of a link.
pub(super) struct Seat<H> {
    side: Side<H>,
    /// There will be no more.
    is_settled: bool,
    _life: Arc<Life>,
}

/// Whether a stripe has carried a frame: one that has not can go without harm. Both halves must agree on it.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicU8);

const FRESH: u8 = 0;
const USED: u8 = 1;
const GONE: u8 = 2;

impl Fate {
    /// Says that the stripe carries something. Returns whether it can: it may have ended.
    pub(super) fn claim(&self) -> bool {
        self.change(USED)
    }

    /// Says that the stripe has ended. Returns whether that is no harm.
    pub(super) fn give_up(&self) -> bool {
        self.change(GONE)
    }

    fn change(&self, to: u8) -> bool {
        let changed = (self.0).compare_exchange(FRESH, to, Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok() || changed == Err(to)
    }
}

/// Lives as long as one half of the link does.
#[derive(Default)]
struct Life(OnceLock<Ending>);

/// Whom it concerns that a link is gone.
pub(super) enum Ending {
    /// The task that brings up further stripes.
    Stop(AbortHandle),
    /// The listener that waits for them.
    Tell(Arc<Notify>),
}

impl Ending {
    fn act(&self) {
        match self {
            Self::Stop(task) => task.abort(),
            Self::Tell(listener) => listener.notify_one(),
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(ending) = self.0.get() {
            ending.act();
        }
    }
}

impl Growth {
    /// Begins with a link of one stripe.
    pub(super) fn begin(
        probe: Arc<StripedProbe>,
        first: WeakSocket,
    ) -> (Self, Seat<LinkReader>, Seat<Sending>) {
        let life = Arc::new(Life::default());
        let (readers, writers) = (side(), side());
        let reader = Seat {
            side: Arc::clone(&readers),
            is_settled: false,
            _life: Arc::clone(&life),
        };
        let writer = Seat {
            side: Arc::clone(&writers),
            is_settled: false,
            _life: Arc::clone(&life),
        };
        let inner = Inner {
            readers,
            writers,
            probe,
            life: Arc::downgrade(&life),
            sockets: Mutex::new(vec![first]),
        };
        (Self(Arc::new(inner)), reader, writer)
    }

    /// Says what to do when the link is gone.
    pub(super) fn at_end(&self, ending: Ending) {
        match self.0.life.upgrade() {
            // Said once per link.
            Some(life) => drop(life.0.set(ending)),
            None => ending.act(),
        }
    }

    /// Returns whether the link still exists.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.life.strong_count() > 0
    }

    /// Adds a stripe that both ends know to be one.
    pub(super) fn add(&self, number: u8, channel: Channel) {
        channel
            .socket()
            .set_unsent_limit(UNSENT_LIMIT_GROWING, true);
        lock(&self.0.sockets).push(channel.socket().downgrade());
        self.0.probe.add(channel.socket().probe());
        let window = channel.socket().downgrade().into();
        let (reader, writer) = channel.into_halves();
        self.add_halves(number, reader, Sending { writer, window });
    }

    pub(super) fn add_halves(&self, number: u8, reader: LinkReader, sending: Sending) {
        let fate = Arc::<Fate>::default();
        hand_over(&self.0.readers, number, reader, &fate);
        let late = hand_over(&self.0.writers, number, sending, &fate);
        if let Some((offset, Sending { mut writer, .. })) = late {
            // The half of the link has said the end and is not asked again.
            let end = Header { offset, length: 0 }.encode();
            tokio::spawn(async move {
                let said = async {
                    writer.write_all(&end).await?;
                    writer.shutdown().await
                };
                let _ = tokio::time::timeout(LAST_WORD, said).await;
            });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for socket in lock(&self.sockets).drain(..) {
            socket.set_unsent_limit(UNSENT_LIMIT, false);
        }
        settle(&self.readers);
        settle(&self.writers);
    }
}

fn side<H>() -> Side<H> {
    Arc::new(Mutex::new(Waiting {
        newcomers: Vec::new(),
        waker: None,
        is_growing: true,
        is_gone: false,
        end: None,
    }))
}

/// Gives a stripe's half to that of the link, or back if that has said the end.
fn hand_over<H>(side: &Side<H>, number: u8, half: H, fate: &Arc<Fate>) -> Option<(u64, H)> {
    let mut waiting = lock(side);
    if let Some(end) = waiting.end {
        return Some((end, half));
    }
    if waiting.is_gone {
        return None;
    }
    waiting.newcomers.push(Newcomer {
        number,
        half,
        fate: Arc::clone(fate),
    });
    wake(waiting);
    None
}

fn settle<H>(side: &Side<H>) {
    let mut waiting = lock(side);
    waiting.is_growing = false;
    wake(waiting);
}

/// Wakes who waits, outside of the lock.
fn wake<H>(mut waiting: MutexGuard<'_, Waiting<H>>) {
    let waker = waiting.waker.take();
    drop(waiting);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H> Seat<H> {
    /// Takes those that have joined. The task is woken when others do, and when no more will.
    pub(super) fn newcomers(&mut self, cx: &Context<'_>) -> Vec<Newcomer<H>> {
        if self.is_settled {
            return Vec::new();
        }
        let mut waiting = lock(&self.side);
        self.is_settled = !waiting.is_growing;
        if waiting.is_growing {
            waiting.waker = Some(cx.waker().clone());
        }
        std::mem::take(&mut waiting.newcomers)
    }

    /// Returns whether there may be more, when it was last asked for them.
    pub(super) fn is_growing(&self) -> bool {
        !self.is_settled
    }

    /// Says where this direction ends, and takes the last ones: those that come later are told by who brings them.
    pub(super) fn end_at(&mut self, offset: u64) -> Vec<Newcomer<H>> {
        self.is_settled = true;
        let mut waiting = lock(&self.side);
        waiting.end = Some(offset);
        std::mem::take(&mut waiting.newcomers)
    }
}

impl<H> Drop for Seat<H> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.side);
        waiting.is_gone = true;
        let newcomers = std::mem::take(&mut waiting.newcomers);
        drop(waiting);
        drop(newcomers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_either_used_or_gone() {
        let (used, gone) = (Fate::default(), Fate::default());
        assert!(used.claim() && used.claim() && !used.give_up());
        assert!(gone.give_up() && gone.give_up() && !gone.claim());
    }
}
