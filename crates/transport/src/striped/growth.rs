//! Adds stripes to a link in use.
//!
//! A link has two queues of new stripes ([`Arrivals`]): one for its reader, and one for its writer.
//! Every clone of [`Growth`] can add stripes to both queues. When the last clone is dropped, no
//! more stripes can join. When both halves of the link are dropped, [`Growth::link_ended`] returns.

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

/// Time limit for sending the end frame on a stripe that joins after the end of this direction.
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

/// The queue of stripes that have joined, from which one half of the link takes them.
pub(super) struct Arrivals<H> {
    queue: UnboundedReceiver<Stripe<H>>,
    is_growing: bool,
    _link: watch::Receiver<()>,
}

/// Records whether a stripe has carried a data frame or has failed. If a stripe fails before its
/// first data frame, the link ignores the failure. The reader and the writer share this state.
#[derive(Debug, Default)]
pub(super) struct Usage(AtomicU8);

const UNUSED: u8 = 0;
const USED: u8 = 1;
const FAILED: u8 = 2;

impl Usage {
    /// Records that the stripe carries a data frame. Returns `false` if it has failed before.
    pub(super) fn begin(&self) -> bool {
        self.change(USED)
    }

    /// Records that the stripe has failed. Returns `false` if it has carried a data frame before.
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

    /// Waits until both halves of the link are dropped.
    pub(super) fn link_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let link = self.link.clone();
        async move { link.closed().await }
    }

    /// Adds a connection as a stripe, after the listener has accepted it.
    pub(super) fn add(&self, number: u8, channel: Channel) {
        self.probe.add(channel.socket().probe());
        let (reader, writer) = channel.into_halves();
        self.add_halves(number, reader, writer);
    }

    pub(super) fn add_halves(&self, number: u8, reader: LinkReader, writer: LinkWriter) {
        let usage = Arc::<Usage>::default();
        // Sending fails if that half of the link was dropped. It then needs no stripe.
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
    /// Wraps a half of stripe 0.
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

    /// Takes the stripes that have joined since the last call. Wakes the task when another one
    /// joins, and when no more can join.
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

    /// Returns whether more stripes can join, as of the last [`take`](Self::take).
    pub(super) fn is_growing(&self) -> bool {
        self.is_growing
    }
}

impl Arrivals<LinkWriter> {
    /// Takes the stripes that have joined, at the end of this direction. A background task sends
    /// the frame `end` on stripes that join later.
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

/// Sends the end frame on each stripe of a queue, and shuts the stripe down.
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
