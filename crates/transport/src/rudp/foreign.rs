//! A UDP port that another protocol shares. Its datagrams wait here for it, and it sends through
//! this socket.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use quinn_udp::{EcnCodepoint, Transmit};

use super::{Door, socket::Arrival};

/// Datagrams of another protocol. The queue is bounded. When it is full, datagrams are dropped, as
/// a socket does.
#[derive(Debug, Default)]
pub(crate) struct Foreign(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    bytes: usize,
    waker: Option<Waker>,
}

/// Datagrams of one sender and one time.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Length of each datagram in bytes. The last one may be shorter.
    pub(crate) stride: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Maximum number of waiting bytes. A batch counts at least the memory that it takes.
const MAX_BYTES: usize = 4 << 20;
const LEAST_BYTES: usize = 256;

impl Batch {
    fn cost(&self) -> usize {
        self.bytes.capacity().max(LEAST_BYTES)
    }
}

impl Foreign {
    pub(super) fn put(&self, arrival: &Arrival<'_>) {
        let batch = Batch {
            from: arrival.from,
            to: arrival.to,
            ecn: arrival.ecn,
            stride: arrival.stride,
            bytes: arrival.bytes.to_vec(),
        };
        let mut queue = self.lock();
        if batch.bytes.is_empty() || queue.bytes + batch.cost() > MAX_BYTES {
            return;
        }
        queue.bytes += batch.cost();
        queue.batches.push_back(batch);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns up to this number of batches, or waits if there are none.
    pub(crate) fn poll_take(
        &self,
        cx: &Context<'_>,
        most: usize,
        mut each: impl FnMut(Batch),
    ) -> Poll<()> {
        let mut queue = self.lock();
        if queue.batches.is_empty() {
            queue.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        for _ in 0..most {
            let Some(batch) = queue.batches.pop_front() else {
                break;
            };
            queue.bytes -= batch.cost();
            each(batch);
        }
        Poll::Ready(())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// Sends datagrams of another protocol.
    pub(crate) fn send_foreign(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.endpoint().served.socket.send_foreign(transmit)
    }

    /// Returns the number of datagrams that one call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.endpoint().served.socket.max_segments()
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.endpoint().served.socket.local()
    }

    /// Returns another descriptor of the socket, to wait until it is writable.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.endpoint().served.socket).try_clone_to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_comes_out_in_order() {
        let foreign = Foreign::default();
        let cx = Context::from_waker(Waker::noop());
        assert!(foreign.poll_take(&cx, 1, |_| ()).is_pending());
        for index in 0..100_000_u32 {
            let mut bytes = index.to_le_bytes();
            foreign.put(&Arrival {
                from: ([192, 0, 2, 1], 1).into(),
                to: None,
                ecn: None,
                bytes: &mut bytes,
                stride: 4,
                age: std::time::Duration::ZERO,
            });
        }
        assert!(foreign.lock().bytes <= MAX_BYTES);
        let held = foreign.lock().batches.len();
        let mut taken = Vec::new();
        while foreign
            .poll_take(&cx, 7, |batch| taken.push(batch))
            .is_ready()
        {}
        assert_eq!(taken.len(), held);
        assert_eq!(foreign.lock().bytes, 0);
        for (index, batch) in (0_u32..).zip(taken) {
            assert_eq!(batch.bytes, index.to_le_bytes());
        }
    }
}
