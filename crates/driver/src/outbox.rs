//! The buffers of what is sent: a ring between the computing thread and the writer.

use tokio::sync::mpsc::{self, error::TrySendError};

/// Buffers that may wait for the network: few, so that an urgent message is not stuck behind
/// megabytes of tables.
const WAITING: usize = 2;

/// Bytes collected before a buffer is handed to the network while there is more to do: every time the
/// writer has to be woken.
const ENOUGH: usize = 128 << 10;

/// What is made for a buffer at first: enough for a chunk of the default length behind one that is
/// not enough yet.
const CAPACITY: usize = ENOUGH + (64 << 10) + 64;

/// Makes a ring.
pub(super) fn ring() -> (Outbox, Outlet) {
    let (full, taken) = mpsc::channel(WAITING);
    // Besides those that wait there is one in the hands of either side.
    let (empty, returned) = mpsc::channel(WAITING + 2);
    let outbox = Outbox {
        bytes: Vec::with_capacity(CAPACITY),
        full,
        empty: returned,
    };
    (outbox, Outlet { full: taken, empty })
}

/// The end of the ring where buffers are filled.
pub(super) struct Outbox {
    /// The buffer that is being filled.
    pub(super) bytes: Vec<u8>,
    full: mpsc::Sender<Vec<u8>>,
    empty: mpsc::Receiver<Vec<u8>>,
}

/// The end where buffers are written to the network.
pub(super) struct Outlet {
    full: mpsc::Receiver<Vec<u8>>,
    empty: mpsc::Sender<Vec<u8>>,
}

impl Outbox {
    /// Says whether the buffer has enough in it to be handed over.
    pub(super) fn has_enough(&self) -> bool {
        self.bytes.len() >= ENOUGH
    }

    /// Says whether there is something to hand over and somebody to take it.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty() && !self.full.is_closed()
    }

    /// Hands the buffer over, if it is not empty and the network has room.
    pub(super) fn try_send(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        match self.full.try_send(std::mem::take(&mut self.bytes)) {
            Ok(()) => self.renew(),
            Err(TrySendError::Full(bytes) | TrySendError::Closed(bytes)) => self.bytes = bytes,
        }
    }

    /// Hands the buffer over as soon as there is room; says whether it could, which it cannot when
    /// the writer is gone.
    ///
    /// # Cancel safety
    /// Cancelled, it has handed nothing over.
    pub(super) async fn send(&mut self) -> bool {
        let Ok(permit) = self.full.reserve().await else {
            return false;
        };
        permit.send(std::mem::take(&mut self.bytes));
        self.renew();
        true
    }

    /// Goes on with a buffer that came back, or else a new one: there are never more than the
    /// writer and its queue hold, and this one.
    fn renew(&mut self) {
        self.bytes = (self.empty.try_recv()).unwrap_or_else(|_| Vec::with_capacity(CAPACITY));
    }
}

impl Outlet {
    /// Waits for the next buffer; `None` once there will be no more.
    ///
    /// # Cancel safety
    /// Cancelled, it has taken nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.full.recv().await
    }

    /// Says whether no buffer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Gives a buffer back to be filled again.
    pub(super) fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        // There is room for all there are, unless nobody fills them any more.
        let _ = self.empty.try_send(bytes);
    }
}
