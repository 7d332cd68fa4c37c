//! Connection establishment: from the first packet to the keys for data.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::{Phase, RudpConnection, payload::REPORT_TIMEOUT};
use crate::Time;
use crate::config::RudpConfig;
use crate::event::{CODE_ALERT, ClosedReason, RudpEvent};
use crate::frame::{put_limit, put_padding, put_report, put_train};
use crate::handshake::{
    BeginTls, Complete, CompleteHello, EarlyBytes, Entropy, Handshake, Id, SET_UP_DATAGRAM,
    SetUpEvent, Tls, split_entropy,
};
use crate::keys::EndpointSide;
use crate::seal::TAG_LEN;
use crate::trains::{SETUP_TRAIN, TRAIN_BURST, TRAIN_PACKETS};

/// The maximum number of bytes of data packets that a listener keeps for one connection before its
/// handshake completes. Data may arrive before the last messages of the handshake.
const MAX_EARLY_BYTES: usize = 1 << 20;

/// The maximum number of bytes of early data packets that a listener keeps, over all of its
/// connections.
const MAX_TOTAL_EARLY_BYTES: usize = 16 << 20;

/// The memory that a kept packet takes in addition to its own bytes, in bytes.
const EARLY_OVERHEAD: usize = size_of::<(Time, SocketAddr, Vec<u8>)>();

/// A buffer for data packets that arrived before the keys that decrypt them.
#[derive(Default)]
pub(super) struct Early {
    packets: Vec<(Time, SocketAddr, Vec<u8>)>,
    bytes: usize,
    all: EarlyBytes,
}

impl Early {
    /// Adds a packet, unless a limit is reached.
    fn put(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let size = datagram.len() + EARLY_OVERHEAD;
        let is_allowed = self.bytes + size <= MAX_EARLY_BYTES
            && self.all.load(Ordering::Relaxed) + size <= MAX_TOTAL_EARLY_BYTES;
        if is_allowed {
            self.bytes += size;
            self.all.fetch_add(size, Ordering::Relaxed);
            self.packets.push((now, from, datagram.to_vec()));
        }
    }

    fn take(&mut self) -> Vec<(Time, SocketAddr, Vec<u8>)> {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
        std::mem::take(&mut self.packets)
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.take();
    }
}

impl RudpConnection {
    /// Creates a connection to a listener at this address. The first call of
    /// [`poll_transmit`](Self::poll_transmit) returns the first packet.
    ///
    /// `entropy` consists of random bytes, different for each connection. `tls` starts a TLS
    /// handshake with these transport parameters.
    ///
    /// Returns `None` if `tls` returns `None`, or if the cryptographic library fails.
    #[must_use]
    pub fn connect(
        remote: SocketAddr,
        config: RudpConfig,
        now: Time,
        entropy: &Entropy,
        tls: impl FnOnce(&[u8]) -> Option<Box<dyn Tls>>,
    ) -> Option<Self> {
        let (first, own, seed) = split_entropy(entropy);
        let timeout = config.setup_timeout;
        let mut connection = Self::new(EndpointSide::Connector, remote, config, now, seed);
        let limit = connection.recv.limit();
        let tls = tls(&Handshake::connector_parameters(first, own, limit))?;
        let handshake = Handshake::connect(now, (first, own), tls, timeout)?;
        connection.phase = Phase::SetUp(Box::new(handshake));
        connection.advertised = limit;
        connection.trains.start();
        Some(connection)
    }

    /// Creates a connection to a connector whose first messages are complete.
    pub(crate) fn accept(
        now: Time,
        (from, hello): (SocketAddr, CompleteHello),
        mut config: RudpConfig,
        (seed, early): (u64, EarlyBytes),
        tls: &mut BeginTls<'_>,
    ) -> Option<Self> {
        // A listener under load does not send a train.
        config.probe &= !hello.retried;
        let timeout = config.setup_timeout;
        let mut connection = Self::new(EndpointSide::Listener, from, config, now, seed);
        let limit = connection.recv.limit();
        let tls = tls(&Handshake::listener_parameters(&hello, limit))?;
        connection.early.all = early;
        connection.advertised = limit;
        for (at, packet) in &hello.train {
            connection.trains.on_packet(*at, *packet);
        }
        let (handshake, events) = Handshake::accept(now, hello, tls, timeout);
        connection.phase = Phase::SetUp(Box::new(handshake));
        connection.on_set_up_events(now, events);
        Some(connection)
    }

    /// Returns the IDs in handshake packets to this end, or `None` once this end accepts no more
    /// handshake packets.
    ///
    /// The demultiplexer must keep these IDs as long as the connection exists, so that late
    /// handshake packets do not start another connection.
    #[must_use]
    pub fn set_up_ids(&self) -> Option<[Id; 2]> {
        Some(self.phase.handshake()?.local_ids())
    }

    /// Returns whether the address of the peer is validated.
    #[must_use]
    pub fn is_validated(&self) -> bool {
        (self.phase.handshake()).is_none_or(Handshake::is_validated)
    }

    /// Processes a handshake datagram.
    pub(super) fn handle_set_up(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) {
        let size = datagram.len();
        let Some(handshake) = (self.phase.handshake_mut()).filter(|_| from == self.remote) else {
            self.counters.ignored_foreign += 1;
            return;
        };
        let (is_authentic, events) = handshake.handle(now, datagram);
        if !is_authentic {
            self.counters.ignored_foreign += 1;
        } else {
            self.counters.received_packets += 1;
            self.counters.received_bytes += size as u64;
            // Handshake packets can be replayed. So they do not reset the idle timer once the
            // connection is established.
            if !self.established {
                self.last_heard = now;
            }
        }
        if !self.state.is_open() {
            let is_close = |event: &SetUpEvent| matches!(event, SetUpEvent::Close(_));
            if is_authentic {
                self.handle_set_up_when_over(now, events.iter().any(is_close));
            }
            return;
        }
        self.on_set_up_events(now, events);
    }

    fn on_set_up_events(&mut self, now: Time, events: Vec<SetUpEvent>) {
        for event in events {
            if self.state.is_over() {
                return;
            }
            match event {
                SetUpEvent::Complete(complete) => self.on_complete(now, *complete),
                SetUpEvent::Train(packet) => self.trains.on_packet(now, packet),
                SetUpEvent::Report(report) => self.on_report(now, &report),
                SetUpEvent::Limit(limit) => self.peer_limit = self.peer_limit.max(limit),
                SetUpEvent::Close(code) => {
                    let alert =
                        (code.checked_sub(CODE_ALERT)).and_then(|alert| u8::try_from(alert).ok());
                    let reason = match alert {
                        Some(alert) => ClosedReason::RefusedByPeer(alert),
                        None => ClosedReason::ClosedByPeer(code),
                    };
                    self.fail(reason);
                }
                SetUpEvent::Failed(reason) => self.fail_set_up(now, reason),
            }
        }
        self.check_train(now);
        self.maybe_answer_with_train();
    }

    /// Keeps a data packet whose keys are not known yet.
    pub(super) fn keep_early(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let is_expected = (self.phase.handshake()).is_some_and(Handshake::is_validated)
            && self.side == EndpointSide::Listener
            && from == self.remote;
        match is_expected {
            true => self.early.put(now, from, datagram),
            false => self.counters.ignored_foreign += 1,
        }
    }

    pub(super) fn on_complete(&mut self, now: Time, complete: Complete) {
        self.keys = Some(complete.keys);
        self.peer_limit = complete.limit;
        self.rtt.sample(complete.rtt, std::time::Duration::ZERO);
        self.established = true;
        // The listener sends its train now, unless it has sent it already.
        let has_train = match self.side {
            EndpointSide::Connector => self.trains.has_sent() && !complete.retried,
            EndpointSide::Listener => self.config.probe,
        };
        self.report_until = has_train.then(|| now + REPORT_TIMEOUT);
        self.events.push_back(RudpEvent::Established);
        if let Some(rate) = self.config.prior.rate {
            self.seed(now, rate.bytes_per_second() as u64);
        }
        // The peer must learn that this end has the keys, even if the application sends nothing.
        self.ping = true;
        if self.side == EndpointSide::Listener {
            // The remaining packets of the train are sent under the data keys.
            self.phase = Phase::Data;
        }
        for (at, from, mut datagram) in self.early.take() {
            self.handle_datagram(at, from, &mut datagram);
        }
    }

    /// Ends the handshake phase: the first packet under the data keys arrived.
    pub(super) fn on_confirmed(&mut self) {
        // The peer has the last flight of this end, and sends nothing more under the handshake
        // keys.
        self.phase = Phase::Data;
    }

    fn fail_set_up(&mut self, now: Time, reason: ClosedReason) {
        match reason {
            ClosedReason::HandshakeFailed(alert) => {
                self.start_ending(now, Some(reason), CODE_ALERT + u64::from(alert));
            }
            ClosedReason::Violation(violation) => self.close_for_violation(now, violation),
            _ => self.fail(reason),
        }
    }

    /// Appends a handshake packet, if one is due, and returns its length. The packet belongs to a
    /// flight or to a train, or carries a report while this end has no data keys yet.
    pub(super) fn set_up_packet(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        let sent = self.try_set_up_packet(now, out);
        if let Some(len) = sent {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += len as u64;
            self.last_sent = now;
        }
        sent.or_else(|| self.train_under_data_keys(now, out))
    }

    /// Appends packets of the train after a first one of `len` bytes, up to [`TRAIN_BURST`] packets
    /// in total. Returns the total length in bytes.
    pub(super) fn fill_train_burst(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
        mut len: usize,
        max_segments: usize,
    ) -> usize {
        for packets in 1..max_segments.min(TRAIN_BURST) {
            // Only the last packet of a burst may be shorter.
            if len < packets * SET_UP_DATAGRAM || self.trains.due_packet().is_none() {
                break;
            }
            match self.set_up_packet(now, out) {
                Some(more) => len += more,
                None => break,
            }
        }
        len
    }

    fn try_set_up_packet(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        if let Some(len) = self.phase.handshake_mut()?.transmit(now, out) {
            return Some(len);
        }
        if self.established {
            return None;
        }
        // The train of the connector also determines the flow-control limit.
        let limit = self.limit();
        let handshake = self.phase.handshake_mut()?;
        if let Some(report) = self.trains.due_report() {
            let mut frames = Vec::new();
            put_report(&mut frames, &report);
            put_limit(&mut frames, limit);
            if let Some(len) = handshake.put_frames(now, out, &frames) {
                self.trains.on_report_sent(now);
                self.advertised = self.advertised.max(limit);
                return Some(len);
            }
        }
        let index = self.trains.due_packet()?;
        if !handshake.may_send_train(SET_UP_DATAGRAM) {
            return None;
        }
        let mut frames = Vec::new();
        put_train(
            &mut frames,
            SETUP_TRAIN,
            index,
            TRAIN_PACKETS,
            self.trains.elapsed(now),
        );
        if let Some(report) = self
            .trains
            .report()
            .filter(|_| self.side == EndpointSide::Listener)
        {
            put_report(&mut frames, &report);
            put_limit(&mut frames, limit);
            self.advertised = self.advertised.max(limit);
        }
        let len = handshake.put_train(now, out, &mut frames)?;
        // The cast is lossless, because handshake datagrams have 1,200 bytes.
        self.trains.on_packet_sent(now, len as u16);
        self.counters.probe_packets += 1;
        Some(len)
    }

    /// Appends a packet of the rest of the train, if the handshake is complete before the whole
    /// train was sent.
    fn train_under_data_keys(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        if !self.established {
            return None;
        }
        let index = self.trains.due_packet()?;
        let start = out.len();
        self.begin(out);
        put_train(
            out,
            SETUP_TRAIN,
            index,
            TRAIN_PACKETS,
            self.trains.elapsed(now),
        );
        if let Some(report) = self.trains.report() {
            put_report(out, &report);
        }
        put_limit(out, self.limit());
        put_padding(out, start + SET_UP_DATAGRAM - TAG_LEN - out.len());
        self.seal(now, out, start)?;
        self.trains.on_packet_sent(now, SET_UP_DATAGRAM as u16);
        self.counters.probe_packets += 1;
        Some(out.len() - start)
    }

    /// Starts the listener's train once the connector's is complete.
    ///
    /// Before the address is validated, no more bytes are sent to it than came from it. A train
    /// must be sent at once, however, because otherwise it does not show the rate of the path. A
    /// connector that sends no train gets one when it is validated.
    pub(super) fn maybe_answer_with_train(&mut self) {
        let is_due =
            self.trains.incoming_is_over() && (self.trains.has_incoming() || self.established);
        if self.side == EndpointSide::Listener && is_due {
            self.trains.start();
        }
    }
}
