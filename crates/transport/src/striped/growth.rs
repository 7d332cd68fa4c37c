//! Adds stripes to a link in use.
//!
//! Each half of a link takes its half of a new stripe from a queue, [`Arrivals`]. Every copy of
//! [`Growth`] can add to both queues. When the last copy is dropped, the link has all its stripes.
//! When both halves are dropped, [`Growth::link_ended`] returns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    runtime::Handle,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        watch,
    },
};

use super::{
    frame::{HEADER, Header},
    probe::StripedProbe,
};
use crate::{LinkReader, LinkWriter, tcp::Channel};

/// Time limit for the end of a direction on a stripe that joins after it.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Adds stripes to a link.
#[derive(Clone)]
pub(crate) struct Growth {
    readers: UnboundedSender<Stripe<LinkReader>>,
    writers: UnboundedSender<Stripe<LinkWriter>>,
    probe: Arc<StripedProbe>,
    link: watch::Sender<()>,
}

/// One half of a stripe.
pub(super) struct Stripe<H> {
    pub(super) number: u8,
    pub(super) half: H,
    pub(super) usage: Arc<Usage>,
}

/// The stripes that have joined and that a half of the link has not taken yet.
pub(super) struct Arrivals<H> {
    queue: UnboundedReceiver<Stripe<H>>,
    is_growing: bool,
    _link: watch::Receiver<()>,
}

/// Records whether a stripe has carried a frame. A stripe without a frame may fail without an
/// error. Both halves must agree on it.
#[derive(Debug, Default)]
pub(super) struct Usage(AtomicU8);

const UNUSED: u8 = 0;
const USED: u8 = 1;
const FAILED: u8 = 2;

impl Usage {
    /// Records that the stripe carries a frame. Returns `false` if it has failed before.
    pub(super) fn begin(&self) -> bool {
        self.change(USED)
    }

    /// Records that the stripe has failed. Returns `false` if it has carried a frame.
    pub(super) fn fail(&self) -> bool {
        self.change(FAILED)
    }

    fn change(&self, to: u8) -> bool {
        let changed = (self.0).compare_exchange(UNUSED, to, Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok() || changed == Err(to)
    }
}

impl Growth {
    /// Makes the queues of a new link.
    pub(super) fn begin(
        probe: Arc<StripedProbe>,
    ) -> (Self, Arrivals<LinkReader>, Arrivals<LinkWriter>) {
        let (link, alive) = watch::channel(());
        let (readers, read) = unbounded_channel();
        let (writers, written) = unbounded_channel();
        let growth = Self {
            readers,
            writers,
            probe,
            link,
        };
        (
            growth,
            Arrivals::new(read, alive.clone()),
            Arrivals::new(written, alive),
        )
    }

    /// Waits until both halves of the link are gone.
    pub(super) fn link_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let link = self.link.clone();
        async move { link.closed().await }
    }

    /// Adds a connection that both ends know to be a stripe.
    pub(super) fn add(&self, number: u8, channel: Channel) {
        self.probe.add(channel.socket().probe());
        let (reader, writer) = channel.into_halves();
        self.add_halves(number, reader, writer);
    }

    pub(super) fn add_halves(&self, number: u8, reader: LinkReader, writer: LinkWriter) {
        let usage = Arc::<Usage>::default();
        // A half of the link that is gone needs no stripe.
        let _ = self.readers.send(Stripe {
            number,
            half: reader,
            usage: Arc::clone(&usage),
        });
        let _ = self.writers.send(Stripe {
            number,
            half: writer,
            usage,
        });
    }
}

impl<H> Stripe<H> {
    /// Makes a half of stripe 0, which a link needs.
    pub(super) fn first(half: H) -> Self {
        Self {
            number: 0,
            half,
            usage: Arc::default(),
        }
    }
}

impl<H> Arrivals<H> {
    fn new(queue: UnboundedReceiver<Stripe<H>>, link: watch::Receiver<()>) -> Self {
        Self {
            queue,
            is_growing: true,
            _link: link,
        }
    }

    /// Takes the stripes that have joined. The task is woken when another one joins, and when no
    /// more can.
    pub(super) fn take(&mut self, cx: &mut Context<'_>) -> Vec<Stripe<H>> {
        let mut taken = Vec::new();
        while self.is_growing {
            match self.queue.poll_recv(cx) {
                Poll::Ready(Some(stripe)) => taken.push(stripe),
                Poll::Ready(None) => self.is_growing = false,
                Poll::Pending => break,
            }
        }
        taken
    }

    /// Returns whether more stripes could join at the last [`take`](Self::take).
    pub(super) fn is_growing(&self) -> bool {
        self.is_growing
    }
}

impl Arrivals<LinkWriter> {
    /// Takes the stripes that have joined at the end of this direction. Those that join later send the same end in the background.
    pub(super) fn end(&mut self, end: Header) -> Vec<Stripe<LinkWriter>> {
        let mut taken = Vec::new();
        while let Ok(stripe) = self.queue.try_recv() {
            taken.push(stripe);
        }
        self.is_growing = false;
        let later = std::mem::replace(&mut self.queue, unbounded_channel().1);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(end_all(later, end.encode()));
        }
        taken
    }
}

/// Ends each stripe of a queue.
async fn end_all(mut stripes: UnboundedReceiver<Stripe<LinkWriter>>, end: [u8; HEADER]) {
    while let Some(Stripe {
        half: mut writer, ..
    }) = stripes.recv().await
    {
        let ended = async {
            writer.write_all(&end).await?;
            writer.shutdown().await
        };
        let _ = tokio::time::timeout(END_LIMIT, ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_either_used_or_failed() {
        let (used, failed) = (Usage::default(), Usage::default());
        assert!(used.begin() && used.begin() && !used.fail());
        assert!(failed.fail() && failed.fail() && !failed.begin());
    }
}
