//! The thread that carries packets from one side to the other.

use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use super::flow::{PartyTraffic, is_of_parties, is_udp};
use super::{Timeline, icmp};
use crate::model::{Path, PathCounters, derive_seed};
use crate::scenario::Scenario;

/// The maximum number of packets read from one side before the other side is read.
const MAX_BATCH: usize = 64;

/// The time before a packet is due at which the forwarder stops sleeping and polls, in nanoseconds.
///
/// A wake-up takes about 50 us, as long as the round trip of a short path. So the forwarder polls
/// for a lone packet. In a bulk flow the latency does not matter, and polling would take processor
/// time from the two ends.
const SPIN_NS: u64 = 120_000;

/// The minimum sleep in a bulk flow while no packet comes in, in nanoseconds.
///
/// At 1 Gbit/s a packet takes 12 us, less than a wake-up. So the forwarder hands packets over in
/// batches. Their departure times from the bottleneck do not depend on this value.
const MIN_BULK_SLEEP_NS: u64 = 50_000;

/// The number of packets under way above which the traffic counts as a bulk flow.
const BULK_PACKETS: usize = 4;

/// The size of the read buffer, in bytes: the largest IP packet.
const MAX_PACKET_BYTES: usize = 1 << 16;

/// The state of the path that other threads may read while packets flow.
#[derive(Debug, Default)]
pub(super) struct Published {
    pub(super) counters: [PathCounters; 2],
    pub(super) timeline: Timeline,
    pub(super) first_packet: Option<Instant>,
    pub(super) parties: PartyTraffic,
    pub(super) failure: Option<String>,
}

/// The handle of the running forwarder thread. The thread stops when the handle is dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    published: Arc<Mutex<Published>>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts to carry packets between the TUN devices of side A and side B.
    pub(super) fn start(tuns: [OwnedFd; 2], scenario: &Scenario) -> std::io::Result<Self> {
        let published = Arc::new(Mutex::new(Published::default()));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut state = Running {
            tuns,
            paths: [
                Path::new(&scenario.up, derive_seed(scenario.seed, 0)),
                Path::new(&scenario.down, derive_seed(scenario.seed, 1)),
            ],
            udp_blocked: [scenario.up.udp_blocked, scenario.down.udp_blocked],
            blocked: [0; 2],
            stop: stop.try_clone()?,
            sends_icmp: [scenario.up.icmp, scenario.down.icmp],
            origin: None,
            parties: PartyTraffic::default(),
            published: Arc::clone(&published),
        };
        let thread = std::thread::Builder::new()
            .name("wan".to_owned())
            .spawn(move || {
                if let Err(errno) = state.run() {
                    lock(&state.published).failure = Some(std::io::Error::from(errno).to_string());
                }
            })?;
        Ok(Self {
            published,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn published(&self) -> MutexGuard<'_, Published> {
        lock(&self.published)
    }

    /// Returns the shared state of the path, for a reader that does not own the path.
    pub(super) fn share(&self) -> Arc<Mutex<Published>> {
        Arc::clone(&self.published)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // A write to an event descriptor fails only after 2^64 writes.
        let _ = write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the forwarder is not propagated: a panic in `drop` could abort the
            // process.
            let _ = thread.join();
        }
    }
}

pub(super) fn lock(published: &Mutex<Published>) -> MutexGuard<'_, Published> {
    // Each update is complete before the lock is released, so a panic elsewhere leaves the state
    // valid.
    published.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a packet to the TUN device of a side, so that the kernel delivers it there.
fn hand_over(tun: &OwnedFd, packet: &[u8]) -> Result<(), Errno> {
    match write(tun, packet) {
        // The kernel rejects data that is not an IP packet, and IPv6 packets where IPv6 is
        // disabled. The path has carried the packet nevertheless.
        Ok(_) | Err(Errno::INVAL | Errno::INTR | Errno::AGAIN | Errno::NOBUFS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

struct Running {
    tuns: [OwnedFd; 2],
    /// The path from A to B, and the path from B to A.
    paths: [Path<Vec<u8>>; 2],
    /// `true` if the path reports oversized packets to their sender by ICMP.
    sends_icmp: [bool; 2],
    /// `true` if UDP packets are dropped before they enter the path.
    udp_blocked: [bool; 2],
    /// Number of packets dropped because of `udp_blocked`.
    blocked: [u64; 2],
    stop: OwnedFd,
    /// The time of the first packet, which is time zero of both paths.
    origin: Option<Instant>,
    parties: PartyTraffic,
    published: Arc<Mutex<Published>>,
}

impl Running {
    fn run(&mut self) -> Result<(), Errno> {
        // Reduces the timer slack, which delays a wake-up by up to 50 us. Both calls may fail: they
        // improve precision and do not change results.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = rustix::process::setpriority_process(None, -15);
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        let mut readable = [true; 2];
        loop {
            let mut more = false;
            for from in [0, 1] {
                if readable[from] {
                    more |= self.read_packets(from, &mut buffer)?;
                }
            }
            let delivered = [self.deliver(0)?, self.deliver(1)?];
            self.publish(delivered);
            match self.wait(more)? {
                Some(ready) => readable = ready,
                None => return Ok(()),
            }
        }
    }

    /// Returns the time since the first packet, in nanoseconds.
    fn now(&self) -> u64 {
        // The cast is exact for the first 584 years.
        (self.origin).map_or(0, |origin| origin.elapsed().as_nanos() as u64)
    }

    /// Reads packets that a side has sent. Returns whether more may be waiting.
    fn read_packets(&mut self, from: usize, buffer: &mut [u8]) -> Result<bool, Errno> {
        for _ in 0..MAX_BATCH {
            match read(&self.tuns[from], &mut *buffer) {
                Ok(length) => {
                    if self.origin.is_none() {
                        self.origin = Some(Instant::now());
                    }
                    if is_of_parties(&buffer[..length]) {
                        self.parties
                            .first_packet
                            .get_or_insert_with(SystemTime::now);
                        self.parties.sent_bytes[from] += length as u64;
                    }
                    if self.udp_blocked[from] && is_udp(&buffer[..length]) {
                        self.blocked[from] += 1;
                        continue;
                    }
                    let now = self.now();
                    let refused = self.paths[from].enqueue(now, buffer[..length].to_vec());
                    if let Some(largest) = refused.filter(|_| self.sends_icmp[from])
                        && let Some(message) = icmp::too_big(&buffer[..length], largest)
                    {
                        hand_over(&self.tuns[from], &message)?;
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    /// Delivers the packets that have arrived at the end of a path. Returns their size in bytes.
    fn deliver(&mut self, path: usize) -> Result<u64, Errno> {
        let mut bytes = 0;
        let now = self.now();
        while let Some(packet) = self.paths[path].dequeue(now) {
            bytes += packet.len() as u64;
            hand_over(&self.tuns[1 - path], &packet)?;
        }
        Ok(bytes)
    }

    fn publish(&self, delivered: [u64; 2]) {
        let Some(origin) = self.origin else { return };
        let mut published = lock(&self.published);
        published.first_packet = Some(origin);
        published.parties = self.parties;
        published.counters = [0, 1].map(|path| PathCounters {
            blocked_packets: self.blocked[path],
            ..*self.paths[path].counters()
        });
        if delivered != [0, 0] {
            published.timeline.record(origin.elapsed(), delivered);
        }
    }

    /// Sleeps until a packet arrives or is due. Returns which sides have packets to read, or `None`
    /// to stop.
    fn wait(&self, more: bool) -> Result<Option<[bool; 2]>, Errno> {
        let due = (self.paths.iter()).filter_map(Path::next_deadline).min();
        let bulk = self.paths.iter().map(Path::held_packets).sum::<usize>() > BULK_PACKETS;
        let timeout = match due {
            _ if more => Some(0),
            None => None,
            Some(due) => {
                let left = due.saturating_sub(self.now());
                // The kernel may end a sleep late by a thousandth of its length, so the sleep is
                // shortened by twice as much.
                let left = left - left / 500;
                Some(if bulk {
                    left.max(MIN_BULK_SLEEP_NS)
                } else {
                    left.saturating_sub(SPIN_NS)
                })
            }
        };
        let timeout = timeout.map(|nanoseconds| {
            // The fallback is never taken: 2^64 ns, which is 584 years, are in range.
            Timespec::try_from(Duration::from_nanos(nanoseconds)).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            })
        });
        let mut watched = [
            PollFd::from_borrowed_fd(self.tuns[0].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.tuns[1].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some([true; 2])),
            Err(errno) => return Err(errno),
        }
        let [a, b, stop] = watched.map(|watched| !watched.revents().is_empty());
        Ok((!stop).then_some([a, b]))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write as _};
    use std::net::{SocketAddr, UdpSocket};

    use super::super::{Lab, Side};
    use super::*;
    use crate::testing::unless_skipped;

    #[test]
    fn a_firewall_drops_udp_and_nothing_else() {
        let text = "[down]\nudp_blocked = true";
        let scenario = Scenario::parse(text, "firewall").unwrap();
        let Some(lab) = unless_skipped(Lab::start(&scenario)) else {
            return;
        };
        let sockets = [Side::A, Side::B].map(|side| lab.udp(side, 0).unwrap());
        let send = |from: &UdpSocket, to: &UdpSocket| {
            from.send_to(b"hello", to.local_addr().unwrap()).unwrap()
        };
        for _ in 0..3 {
            send(&sockets[1], &sockets[0]);
        }
        send(&sockets[0], &sockets[1]);
        let mut buffer = [0; 16];
        sockets[1]
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        assert_eq!(sockets[1].recv(&mut buffer).unwrap(), 5);
        // TCP passes both ways: its handshake needs both. The UDP packets were sent before the TCP
        // data, so they would have arrived by now if they had not been blocked.
        let listener = lab.listen(Side::A, 0).unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let mut stream = lab.connect(Side::B, address).unwrap();
        stream.write_all(b"x").unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        assert_eq!(io::Read::read(&mut accepted, &mut buffer).unwrap(), 1);
        sockets[0].set_nonblocking(true).unwrap();
        let nothing = sockets[0].recv(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let blocked = lab.counters().map(|path| path.blocked_packets);
        assert_eq!(blocked, [0, 3]);
    }
}
