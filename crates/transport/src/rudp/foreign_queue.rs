//! The interface for another protocol, such as QUIC, on a UDP port of reliable UDP. Its received
//! datagrams wait in a queue, and it sends through the shared socket.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use quinn_udp::{EcnCodepoint, Transmit};

use super::{EndpointHandle, socket::Arrival};

/// The queue of received datagrams of another protocol. When it is full, further datagrams are
/// dropped, as in a socket.
#[derive(Debug, Default)]
pub(crate) struct ForeignQueue(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    bytes: usize,
    waker: Option<Waker>,
}

/// Datagrams from one sender that the kernel delivered together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Length of each datagram in bytes. The last datagram may be shorter.
    pub(crate) stride: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Maximum number of bytes in the queue, including the memory for each batch.
const MAX_BYTES: usize = 4 << 20;
const MIN_BATCH_BYTES: usize = 256;

impl Batch {
    fn cost(&self) -> usize {
        self.bytes.capacity().max(MIN_BATCH_BYTES)
    }
}

impl ForeignQueue {
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

    /// Takes at most this number of batches from the queue. Waits if the queue is empty.
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

impl EndpointHandle {
    /// Sends datagrams of another protocol.
    pub(crate) fn send_foreign(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.endpoint().served.socket.send_foreign(transmit)
    }

    /// Returns the maximum number of datagrams that one system call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.endpoint().served.socket.max_segments()
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.endpoint().served.socket.local()
    }

    /// Returns a duplicate descriptor of the socket, with which another runtime can wait until the
    /// socket is writable.
    pub(crate) fn duplicate(&self) -> io::Result<UdpSocket> {
        self.endpoint().served.socket.as_std().try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_comes_out_in_order() {
        let foreign = ForeignQueue::default();
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
