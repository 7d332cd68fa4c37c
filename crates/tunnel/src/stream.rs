//! A stream: the state that the tasks of the link and of the local connection share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

use crate::{
    address::TunnelAddress,
    error::TunnelProtocolError,
    frame::Kind,
    local::Local,
    queue::{ByteQueue, SpareChunks},
    window::{INITIAL_WINDOW, MAX_WINDOW, Pool, ReceiveWindow},
};

/// The reason for which a stream was aborted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Abort {
    /// The local connection failed. The peer does not know yet.
    ByLocal,
    /// The peer refused or reset the stream.
    ByPeer,
}

/// The memory that the streams of a link share.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) pool: Arc<Pool>,
    pub(crate) spare: Arc<SpareChunks>,
}

/// One forwarded connection on a link.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// The address that the accepting side connects to.
    pub(crate) target: TunnelAddress,
    /// True if this side opened the stream.
    pub(crate) is_ours: bool,
    /// Wakes the task that sends: credit arrived, or the stream was aborted.
    pub(crate) send_wake: Notify,
    /// Wakes the task that receives: bytes were queued, the peer has ended its direction, or the
    /// stream was aborted.
    pub(crate) receive_wake: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The local end. `None` until it is connected.
    local: Option<Arc<Local>>,
    /// Number of bytes that this side may send.
    pub(crate) credit: u64,
    window: ReceiveWindow,
    /// Bytes from the peer that wait for the local program.
    pub(crate) queue: ByteQueue,
    /// True if the peer accepted this stream.
    is_accepted: bool,
    /// True if the peer sends no more bytes.
    pub(crate) is_ended: bool,
    pub(crate) aborted: Option<Abort>,
}

impl State {
    /// Removes bytes that the local program took from the queue. Returns the credit to grant.
    pub(crate) fn consume(&mut self, count: usize) -> Option<u32> {
        self.queue.remove(count);
        self.passed(count)
    }

    /// Counts bytes that the local program took, from the queue or directly. Returns the credit to
    /// grant.
    fn passed(&mut self, count: usize) -> Option<u32> {
        let is_drained = self.queue.is_empty();
        self.window.consume(count as u64, is_drained, Instant::now)
    }
}

impl Stream {
    pub(crate) fn new(
        id: u32,
        target: TunnelAddress,
        is_ours: bool,
        local: Option<Arc<Local>>,
        memory: &Memory,
    ) -> Arc<Self> {
        let state = State {
            local,
            credit: INITIAL_WINDOW,
            window: ReceiveWindow::new(Arc::clone(&memory.pool), Instant::now()),
            queue: ByteQueue::new(Arc::clone(&memory.spare)),
            is_accepted: false,
            is_ended: false,
            aborted: None,
        };
        Arc::new(Self {
            id,
            target,
            is_ours,
            send_wake: Notify::new(),
            receive_wake: Notify::new(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.state().aborted.is_some()
    }

    /// Returns the smaller of the remaining credit and `max`, in bytes.
    pub(crate) fn credit(&self, max: usize) -> usize {
        usize::try_from(self.state().credit).map_or(max, |credit| credit.min(max))
    }

    /// Subtracts sent bytes from the credit. `bytes` must not exceed [`credit`](Self::credit).
    pub(crate) fn spend(&self, bytes: usize) {
        let mut state = self.state();
        state.credit = state.credit.saturating_sub(bytes as u64);
    }

    /// Sets the connected local end.
    pub(crate) fn connected(&self, local: Arc<Local>) {
        self.state().local = Some(local);
    }

    /// Aborts both directions. If the stream is already aborted, the first reason is kept.
    pub(crate) fn abort(&self, reason: Abort) {
        let mut state = self.state();
        state.aborted.get_or_insert(reason);
        // Frees the memory now: the task of the stream may end much later.
        state.queue = ByteQueue::default();
        drop(state);
        self.send_wake.notify_one();
        self.receive_wake.notify_one();
    }

    /// Handles bytes from the peer: passes them to the local program at once if possible, and
    /// queues the rest. Never waits. Returns the credit to grant to the peer.
    pub(crate) fn deliver(&self, bytes: &[u8]) -> Result<Option<u32>, TunnelProtocolError> {
        let mut state = self.state();
        let received = state.window.receive(bytes.len() as u64);
        received.map_err(|credit| TunnelProtocolError::CreditExceeded {
            id: self.id,
            credit,
            found: bytes.len() as u64,
        })?;
        if state.is_ended {
            return Err(self.unexpected(Kind::Data));
        }
        if state.aborted.is_some() {
            return Ok(None);
        }
        let written = match &state.local {
            // An error is not handled here. The task of the stream writes the queued bytes next,
            // and the same error then ends the stream.
            Some(local) if state.queue.is_empty() => local.try_write(bytes).unwrap_or(0),
            _ => 0,
        };
        if written < bytes.len() {
            state.queue.push(&bytes[written..]);
            self.receive_wake.notify_one();
        }
        match written {
            0 => Ok(None),
            written => Ok(state.passed(written)),
        }
    }

    /// Handles the peer's acceptance.
    pub(crate) fn accept(&self) -> Result<(), TunnelProtocolError> {
        match self.is_ours && !std::mem::replace(&mut self.state().is_accepted, true) {
            true => Ok(()),
            false => Err(self.unexpected(Kind::Opened)),
        }
    }

    /// Handles the peer's refusal.
    pub(crate) fn refuse(&self) -> Result<(), TunnelProtocolError> {
        if !self.is_ours || self.state().is_accepted {
            return Err(self.unexpected(Kind::Refused));
        }
        self.abort(Abort::ByPeer);
        Ok(())
    }

    /// Handles the end of the peer's direction.
    pub(crate) fn end(&self) -> Result<(), TunnelProtocolError> {
        if std::mem::replace(&mut self.state().is_ended, true) {
            return Err(self.unexpected(Kind::End));
        }
        self.receive_wake.notify_one();
        Ok(())
    }

    /// Handles credit from the peer.
    pub(crate) fn add_credit(&self, bytes: u32) -> Result<(), TunnelProtocolError> {
        let mut state = self.state();
        let found = state.credit + u64::from(bytes);
        if found > MAX_WINDOW {
            return Err(TunnelProtocolError::CreditOverflow {
                id: self.id,
                max: MAX_WINDOW,
                found,
            });
        }
        state.credit = found;
        drop(state);
        self.send_wake.notify_one();
        Ok(())
    }

    fn unexpected(&self, kind: Kind) -> TunnelProtocolError {
        TunnelProtocolError::Unexpected {
            kind: kind.name(),
            id: self.id,
        }
    }
}
