//! The thread that serves a socket and its links.
//!
//! The thread receives datagrams, runs the timers, and sends the packets that pacing has delayed.
//! Writers send other packets from their own threads. The thread runs while the socket has a link
//! or a listener, independent of the program's async runtime. So packets are acknowledged while the
//! program computes, and the last packets are sent even after its runtime has ended.

use std::{io, sync::Arc, thread, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use transpute_rudp::Time;

use super::{
    endpoint::Endpoint,
    flow::Flow,
    intake::FirstPacket,
    link::Shared,
    served::{NEVER, ServedSocket},
    socket::{Arrival, BATCH, Inbox},
};

/// The state of the thread.
pub(super) struct Server {
    endpoint: Arc<Endpoint>,
    links: Vec<Arc<Shared>>,
    inbox: Inbox,
    flow: Flow,
    /// End of the period in which each sleep of the thread lasts at most [`ALERT_SLEEP`], so that
    /// writers need not wake the thread.
    alert_until: Time,
}

/// Maximum number of receive calls between two readings of the clock.
const BATCHES: usize = 4;

/// Pause after an unexpected error of waiting or receiving.
const ERROR_PAUSE: Duration = Duration::from_millis(5);

/// Maximum sleep of the thread while there is traffic. It is at most the shortest timer that a
/// write can set, so that a write never has to wake the thread.
const ALERT_SLEEP: Duration = Duration::from_millis(2);

/// Time after the last packet or wake-up for which the sleep stays limited to [`ALERT_SLEEP`].
const ALERT_FOR: Duration = Duration::from_millis(10);

impl Server {
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Self {
        Self {
            endpoint,
            links: Vec::new(),
            inbox: Inbox::new(),
            flow: Flow::default(),
            alert_until: Time::ZERO,
        }
    }

    pub(super) fn run(mut self) {
        // By default, Linux delays timers by up to 50 us. At high rates, several packets become due
        // in that time.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
        loop {
            if self.endpoint.has_grown() {
                self.links = self.endpoint.links();
            }
            let now = self.endpoint.served.now();
            for link in &self.links {
                if link.deadline() <= now.as_nanos() {
                    link.serve();
                }
            }
            if self.links.iter().any(|link| link.is_over()) {
                self.links.retain(|link| !link.is_over());
                self.endpoint.forget_ended();
            }
            if self.links.is_empty() && !self.endpoint.has_handle() {
                if self.endpoint.may_retire() {
                    return;
                }
                continue;
            }
            self.sleep();
            self.receive();
        }
    }

    /// Waits for packets, for the next deadline, or to be woken.
    fn sleep(&mut self) {
        let links = &self.links;
        let earliest = || {
            let deadlines = links.iter().map(|link| link.deadline());
            deadlines.min().unwrap_or(NEVER)
        };
        let now = self.endpoint.served.now();
        let alert = now < self.alert_until;
        let look_around = (now + ALERT_SLEEP).as_nanos();
        let mut until = earliest().min(if alert { look_around } else { NEVER });
        let patience = links.iter().map(|link| link.patience()).min();
        let pause = patience.and_then(|patience| self.flow.pause(patience));
        if let Some(pause) = pause {
            until = until.min((now + pause).as_nanos());
        }
        self.endpoint.served.sleep_until(until);
        if earliest() < until {
            self.endpoint.served.sleep_until(0);
            return;
        }
        let timeout = (until != NEVER).then(|| Time::from_nanos(until).since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let ServedSocket { socket, waker, .. } = &*self.endpoint.served;
        let mut fds = [
            PollFd::new(waker.socket(), PollFlags::IN),
            PollFd::new(socket.as_std(), PollFlags::IN),
        ];
        let polled = if pause.is_some() { 1 } else { fds.len() };
        match rustix::event::poll(&mut fds[..polled], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for packets");
                thread::sleep(ERROR_PAUSE);
            }
        }
        self.endpoint.served.sleep_until(0);
        let woken = !fds[0].revents().is_empty();
        if woken {
            self.alert_until = self.endpoint.served.now() + ALERT_FOR;
            waker.clear();
        }
    }

    fn receive(&mut self) {
        let mut datagrams = 0;
        for _ in 0..BATCHES {
            match self.endpoint.served.socket.receive(&mut self.inbox) {
                Ok(buffers) => {
                    datagrams += self.distribute(buffers);
                    if buffers < BATCH {
                        // A partly filled inbox means that the socket is empty.
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    for link in self.endpoint.links() {
                        link.refused();
                    }
                    break;
                }
                Err(error) => {
                    tracing::debug!(%error, "a UDP socket reports an error");
                    thread::sleep(ERROR_PAUSE);
                    break;
                }
            }
        }
        let now = self.endpoint.served.now();
        self.flow.note(now, datagrams);
        if datagrams > 0 {
            self.alert_until = now + ALERT_FOR;
        }
    }

    /// Passes received datagrams to the links. Returns their number.
    fn distribute(&mut self, buffers: usize) -> usize {
        let now = self.endpoint.served.now();
        let foreign = self.endpoint.foreign();
        let is_ours = |arrival: &Arrival<'_>| {
            let taken = (foreign.as_ref()).filter(|_| !transpute_rudp::is_packet(arrival.bytes));
            taken.inspect(|foreign| foreign.put(arrival)).is_none()
        };
        let mut arrivals: Vec<_> = (self.inbox.arrivals(buffers)).filter(is_ours).collect();
        let mut datagrams = 0;
        for group in arrivals.chunk_by_mut(is_of_one_link) {
            let Some(first) = group.first() else { continue };
            datagrams += (group.iter())
                .map(|arrival| arrival.bytes.len().div_ceil(arrival.stride))
                .sum::<usize>();
            if let Some(link) = self.endpoint.route(first.from, first.bytes) {
                link.take(group.iter_mut().flat_map(|arrival| {
                    let (at, from) = (now - arrival.age, arrival.from);
                    (arrival.bytes.chunks_mut(arrival.stride))
                        .map(move |datagram| (at, from, datagram))
                }));
                if !link.is_registered() {
                    self.endpoint.register(&link);
                }
            } else {
                take_first(&self.endpoint, now, group);
            }
        }
        datagrams
    }
}

/// Returns the bytes of a datagram that contain the id of its link, for any kind of packet.
fn id(datagram: &[u8]) -> Option<&[u8]> {
    match transpute_rudp::is_set_up(datagram) {
        true => datagram.get(1..10),
        false => datagram.get(1..5),
    }
}

/// Returns whether datagrams belong to the same link: they have the same source address and id.
fn is_of_one_link(one: &Arrival<'_>, next: &Arrival<'_>) -> bool {
    one.from == next.from && id(one.bytes) == id(next.bytes)
}

/// Handles datagrams that belong to no link. The first one may start a link, which then gets the
/// others.
fn take_first(endpoint: &Arc<Endpoint>, now: Time, group: &mut [Arrival<'_>]) {
    for arrival in group {
        let packet = FirstPacket {
            at: now - arrival.age,
            from: arrival.from,
            to: arrival.to,
        };
        for datagram in arrival.bytes.chunks_mut(arrival.stride) {
            match endpoint.route(packet.from, datagram) {
                Some(link) => {
                    link.take(std::iter::once((packet.at, packet.from, datagram)));
                    if !link.is_registered() {
                        endpoint.register(&link);
                    }
                }
                None if transpute_rudp::is_set_up(datagram) => {
                    endpoint.take_first(&packet, datagram);
                }
                None => {}
            }
        }
    }
}
