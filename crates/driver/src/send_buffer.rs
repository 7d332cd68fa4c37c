//! The send buffers: a ring between the computing thread and the writer.

use tokio::sync::mpsc::{self, error::TrySendError};

/// Maximum number of filled buffers that wait for the writer. It is small, so that an urgent frame
/// does not wait behind megabytes of tables.
const MAX_WAITING_BUFFERS: usize = 2;

/// Number of bytes at which a buffer is passed to the writer while the computing thread still has
/// work. It is large, because every buffer wakes the writer.
const FLUSH_BYTES: usize = 128 << 10;

/// Initial capacity of a buffer, in bytes. A buffer just below [`FLUSH_BYTES`] has room for one
/// more chunk of tables of the default length.
const CAPACITY: usize = FLUSH_BYTES + (64 << 10) + 64;

/// Returns the two ends of a new ring.
pub(super) fn ring() -> (SendBuffer, SendQueue) {
    let (full, taken) = mpsc::channel(MAX_WAITING_BUFFERS);
    // In addition to the waiting buffers, the filling end and the writing end have one each.
    let (empty, returned) = mpsc::channel(MAX_WAITING_BUFFERS + 2);
    let send_buffer = SendBuffer {
        bytes: Vec::with_capacity(CAPACITY),
        full,
        empty: returned,
    };
    (send_buffer, SendQueue { full: taken, empty })
}

/// The end of the ring at which buffers are filled.
pub(super) struct SendBuffer {
    /// The buffer being filled.
    pub(super) bytes: Vec<u8>,
    full: mpsc::Sender<Vec<u8>>,
    empty: mpsc::Receiver<Vec<u8>>,
}

/// The end of the ring at which buffers are written to the network.
pub(super) struct SendQueue {
    full: mpsc::Receiver<Vec<u8>>,
    empty: mpsc::Sender<Vec<u8>>,
}

impl SendBuffer {
    /// Returns whether the buffer has reached [`FLUSH_BYTES`] and should be sent.
    pub(super) fn should_flush(&self) -> bool {
        self.bytes.len() >= FLUSH_BYTES
    }

    /// Returns whether there are bytes to send and the writer still runs.
    pub(super) fn can_send(&self) -> bool {
        !self.bytes.is_empty() && !self.full.is_closed()
    }

    /// Passes the buffer to the writer if the buffer is not empty and the queue has room.
    pub(super) fn try_send(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        match self.full.try_send(std::mem::take(&mut self.bytes)) {
            Ok(()) => self.renew(),
            Err(TrySendError::Full(bytes) | TrySendError::Closed(bytes)) => self.bytes = bytes,
        }
    }

    /// Waits for room in the queue and passes the buffer to the writer; returns `false` if the
    /// writer has stopped.
    ///
    /// # Cancel safety
    /// If the future is dropped, the buffer is unchanged.
    pub(super) async fn send(&mut self) -> bool {
        let Ok(permit) = self.full.reserve().await else {
            return false;
        };
        permit.send(std::mem::take(&mut self.bytes));
        self.renew();
        true
    }

    /// Takes an empty buffer that the writer returned, or a new one if there is none. The number of
    /// buffers is bounded, because the queue, the writer and this side hold a bounded number.
    fn renew(&mut self) {
        self.bytes = (self.empty.try_recv()).unwrap_or_else(|_| Vec::with_capacity(CAPACITY));
    }
}

impl SendQueue {
    /// Returns the next buffer, or `None` after the last one.
    ///
    /// # Cancel safety
    /// If the future is dropped, no buffer is lost.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.full.recv().await
    }

    /// Returns whether no buffer waits to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Clears a written buffer and gives it back to the [`SendBuffer`] for reuse.
    pub(super) fn recycle(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        // The channel has room for all buffers; sending fails only if the other end was dropped.
        let _ = self.empty.try_send(bytes);
    }
}
