//! A connector and a listener joined by a fixed delay, with a filter for every datagram.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use transpute_rudp::{Read, RudpConfig, RudpConnection, RudpEvent, Time};

use crate::serving::{Listener, connect, transmit};
use crate::sim::address;

/// The delay of each direction.
pub(crate) const DELAY: Duration = Duration::from_millis(20);

pub(crate) const RTT: Duration = Duration::from_millis(40);

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) is_upward: bool,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Datagram {
    /// Returns whether this is a handshake packet of this type, by its first byte.
    pub(crate) fn is(&self, kind: u8) -> bool {
        self.bytes.first() == Some(&kind)
    }
}

/// The observations at one end: when it was established, its events, and the number of bytes read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) established: Option<Time>,
    pub(crate) events: Vec<RudpEvent>,
    pub(crate) read: usize,
}

/// A connector and a listener.
pub(crate) struct Link {
    pub(crate) connector: RudpConnection,
    pub(crate) listener: Listener,
    pub(crate) now: Time,
    /// The source address of the connector's packets.
    pub(crate) source: SocketAddr,
    /// The observations at the connector and at the listener's first connection.
    pub(crate) seen: [Seen; 2],
    flying: VecDeque<(Time, Datagram)>,
}

impl Link {
    pub(crate) fn new(config: &RudpConfig) -> Self {
        let connector = connect(config.clone(), Time::ZERO, true, 1);
        Self::of(connector, Listener::new(config.clone(), true, 1000))
    }

    pub(crate) fn of(connector: RudpConnection, listener: Listener) -> Self {
        Self {
            connector,
            listener,
            now: Time::ZERO,
            source: address(1),
            seen: Default::default(),
            flying: VecDeque::new(),
        }
    }

    /// Sends a datagram, which arrives after the delay.
    pub(crate) fn inject(&mut self, datagram: Datagram) {
        self.flying.push_back((self.now + DELAY, datagram));
    }

    /// Runs for this time. `filter` may change a datagram when it is sent, and returns `false` to
    /// drop it.
    pub(crate) fn run(&mut self, time: Duration, filter: &mut dyn FnMut(&mut Datagram) -> bool) {
        let until = self.now + time;
        loop {
            while self.flying.front().is_some_and(|(at, _)| *at <= self.now) {
                if let Some((_, datagram)) = self.flying.pop_front() {
                    self.deliver(datagram);
                }
            }
            if self
                .connector
                .next_timeout()
                .is_some_and(|at| at <= self.now)
            {
                self.connector.handle_timeout(self.now);
            }
            self.listener.handle_timeout(self.now);
            let mut sent = Vec::new();
            transmit(&mut self.connector, self.now, &mut sent);
            let upward = sent
                .into_iter()
                .map(|(to, bytes)| (true, self.source, to, bytes));
            let down = self.listener.transmit(self.now).into_iter();
            let down = down.map(|(to, bytes)| (false, address(2), to, bytes));
            for (is_upward, from, to, bytes) in upward.chain(down).collect::<Vec<_>>() {
                let mut datagram = Datagram {
                    is_upward,
                    from,
                    to,
                    bytes,
                };
                if filter(&mut datagram) {
                    self.inject(datagram);
                }
            }
            self.record();
            let timeouts = [self.connector.next_timeout(), self.listener.next_timeout()];
            let arrival = self.flying.front().map(|(at, _)| *at);
            let next = timeouts.into_iter().chain([arrival]).flatten().min();
            match next {
                // Timers that are due now were handled above. The datagrams that they allow are
                // sent at the next tick.
                Some(next) if next < until => {
                    self.now = next.max(self.now + Duration::from_micros(1));
                }
                _ => break,
            }
        }
        self.now = until;
    }

    fn deliver(&mut self, mut datagram: Datagram) {
        let Datagram {
            is_upward,
            from,
            to,
            bytes,
        } = &mut datagram;
        if *is_upward {
            self.listener.handle_datagram(self.now, *from, bytes);
        } else if *to == self.source {
            self.connector.handle_datagram(self.now, *from, bytes);
        }
    }

    fn record(&mut self) {
        let now = self.now;
        let ends = [Some(&mut self.connector), self.listener.connection()];
        let mut buffer = [0; 4096];
        for (end, seen) in ends.into_iter().zip(&mut self.seen) {
            let Some(end) = end else { continue };
            while let Some(event) = end.poll_event() {
                if event == RudpEvent::Established {
                    seen.established = Some(now);
                }
                seen.events.push(event);
            }
            while let Read::Data(count) = end.read(now, &mut buffer) {
                seen.read += count;
            }
        }
    }

    /// Returns the listener's first connection.
    pub(crate) fn accepted(&mut self) -> &mut RudpConnection {
        self.listener.connection().expect("there is a connection")
    }
}
