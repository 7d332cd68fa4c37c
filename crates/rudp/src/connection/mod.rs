//! One end of a connection: the interface to the caller, and the parts of its state.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod adversarial;
mod ending;
#[cfg(test)]
mod invalid_reports;
mod migration;
mod payload;
mod receive;
mod set_up;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use transpute_units::Loss;

use crate::Time;
use crate::ack::AckState;
use crate::config::{FecPolicy, Reliability, RudpConfig};
use crate::event::{ClosedReason, RudpEvent};
use crate::fec::{BlockEncoder, DecoderLimits, DecoderStore};
use crate::flow::Window;
use crate::frame::{BLOCK_DATA_HEADER, PARITY_HEADER};
use crate::handshake::Handshake;
use crate::keys::{EndpointSide, PacketKeys};
use crate::mtu::{MIN_DATAGRAM, Mtu};
use crate::pacer::Pacer;
use crate::protection::Protection;
use crate::rate::{DeliverySampler, RateController, bytes_in};
use crate::recv_stream::RecvStream;
use crate::redundancy::Redundancy;
use crate::replay::ReplayWindow;
use crate::rtt::Rtt;
use crate::seal::PACKET_OVERHEAD;
use crate::send_stream::SendStream;
use crate::sent::SentLog;
use crate::stats::{Counters, Stats, TrainResult};
use crate::trains::Trains;

pub use ending::Read;
use ending::State;
use migration::Migration;
use set_up::Early;
pub use transmit::Transmit;

/// The minimum of `max_receive_window` and of `max_send_buffer`, in bytes.
const MIN_BUFFER: u64 = 1 << 20;

/// The maximum amount that the application may write ahead of the path, as the time that the path
/// takes to carry it at the current rate. Chosen: timers and threads may be late by some
/// milliseconds.
const MAX_WRITE_AHEAD: Duration = Duration::from_millis(16);
/// The minimum number of bytes that the application may write ahead of the path.
const MIN_WRITE_AHEAD_BYTES: u64 = 128 << 10;

/// The maximum of [`receive_delay`](Connection::receive_delay). The packets that arrive in this
/// time fill only a small part of a socket's receive buffer.
const MAX_RECEIVE_DELAY: Duration = Duration::from_micros(200);

/// One end of a connection: a byte stream in each direction.
///
/// The caller owns the socket and the clock. After every call that passes the time, it calls
/// [`poll_transmit`](Self::poll_transmit) until there are no datagrams, and
/// [`poll_event`](Self::poll_event) until there are no events. Then it waits for a datagram or for
/// [`next_timeout`](Self::next_timeout).
pub struct RudpConnection {
    side: EndpointSide,
    config: RudpConfig,
    phase: Phase,
    /// The keys of data packets, once the handshake is complete.
    keys: Option<PacketKeys>,
    early: Early,
    replay: ReplayWindow,
    forgeries: u64,
    remote: SocketAddr,
    migration: Migration,
    state: State,
    trains: Trains,
    established: bool,
    next_number: u64,

    send: SendStream,
    sent: SentLog,
    redundancy: Redundancy,
    protection: Protection,
    /// The time at which the last segment was added to the open block.
    block_touched: Time,
    /// The time since which packets have been in flight without a pause.
    busy_since: Time,
    /// `true` if the end of the stream is to be repeated in a packet of its own, because parity
    /// does not cover it.
    end_echo: bool,
    /// The train that the first data packets form: the index of its next packet, its length, and
    /// the time of its first packet.
    data_train: Option<(u8, u8, Time)>,
    /// The time at which this end stops waiting for the peer's report on its train. `None` if no
    /// report is expected.
    report_until: Option<Time>,
    /// The peer's report on the train of the handshake.
    outgoing_train: Option<TrainResult>,
    rtt: Rtt,
    /// Probe timeouts since the last acknowledgement.
    backoff: u32,
    /// Probe packets to send, regardless of rate and window.
    probes: u8,
    ping: bool,
    peer_limit: u64,
    write_blocked: bool,

    recv: RecvStream,
    decoder: DecoderStore,
    acks: AckState,
    window: Window,
    advertised: u64,
    limit_due: bool,

    controller: Box<dyn RateController>,
    sampler: DeliverySampler,
    pacer: Pacer,
    seeded: bool,
    /// `true` if the initial rate is a lower bound, or if the train may have been compressed on the
    /// path.
    unproven: bool,
    mtu: Mtu,

    last_heard: Time,
    last_sent: Time,
    readable: bool,
    events: VecDeque<RudpEvent>,
    counters: Counters,
}

/// The phase of a connection: handshake packets are accepted only before the data phase.
enum Phase {
    SetUp(Box<Handshake>),
    Data,
}

impl Phase {
    fn handshake(&self) -> Option<&Handshake> {
        match self {
            Self::SetUp(handshake) => Some(handshake),
            Self::Data => None,
        }
    }

    fn handshake_mut(&mut self) -> Option<&mut Handshake> {
        match self {
            Self::SetUp(handshake) => Some(handshake),
            Self::Data => None,
        }
    }
}

impl RudpConnection {
    fn new(
        side: EndpointSide,
        remote: SocketAddr,
        config: RudpConfig,
        now: Time,
        seed: u64,
    ) -> Self {
        let settings = migration::settings(&config);
        // `BlockEncoder::new` rejects sizes above `MAX_SEGMENT`.
        let max_datagram =
            (config.max_datagram).clamp(MIN_DATAGRAM, crate::fec::MAX_SEGMENT as u16);
        let max_data = data_room(max_datagram);
        let encoder = match (config.fec, config.reliability) {
            (FecPolicy::Adaptive, Reliability::Repair) => BlockEncoder::new(max_data).ok(),
            (FecPolicy::Off, _) | (_, Reliability::Detect) => None,
        };
        let window = Window::new(config.max_receive_window);
        let mut recv = RecvStream::default();
        recv.raise_limit(window.bytes());
        let controller = config.controller.controller(&settings);
        let mut pacer = Pacer::new(now, config.max_burst, settings.packet_bytes);
        pacer.set_rate(now, controller.pacing_rate());
        Self {
            side,
            phase: Phase::Data,
            keys: None,
            early: Early::default(),
            replay: ReplayWindow::new(),
            forgeries: 0,
            remote,
            state: State::Open,
            migration: Migration::new(seed),
            trains: Trains::new(config.probe),
            established: false,
            next_number: 0,
            send: SendStream::default(),
            sent: SentLog::new(),
            redundancy: Redundancy::new(encoder),
            protection: Protection::new(config.prior.loss.map(Loss::fraction)),
            block_touched: now,
            busy_since: now,
            end_echo: false,
            data_train: None,
            report_until: None,
            outgoing_train: None,
            rtt: Rtt::default(),
            backoff: 0,
            probes: 0,
            ping: false,
            peer_limit: 0,
            write_blocked: false,
            recv,
            decoder: DecoderStore::new(DecoderLimits {
                max_segment: crate::fec::MAX_SEGMENT,
                ..DecoderLimits::default()
            }),
            acks: AckState::default(),
            window,
            advertised: 0,
            limit_due: false,
            controller,
            sampler: DeliverySampler::new(),
            pacer,
            seeded: false,
            unproven: false,
            mtu: Mtu::new(max_datagram),
            last_heard: now,
            last_sent: now,
            readable: false,
            events: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Takes bytes for the peer and returns their number. If it is less than the length of `data`,
    /// the caller waits for [`RudpEvent::Writable`].
    ///
    /// All bytes are sent as soon as rate and window allow. They do not wait for further writes.
    pub fn write(&mut self, data: &[u8]) -> usize {
        if !self.state.is_open() {
            return 0;
        }
        let taken = self.send.write(data, self.send_capacity());
        self.write_blocked |= taken < data.len();
        taken
    }

    /// Returns the number of bytes that [`write`](Self::write) would accept now.
    #[must_use]
    pub fn writable(&self) -> u64 {
        if self.state.is_open() && !self.send.is_finished() {
            self.send_capacity().saturating_sub(self.send.held())
        } else {
            0
        }
    }

    /// Sends a ping, because the caller suspects that the peer is gone.
    pub fn probe(&mut self) {
        self.ping |= self.established;
    }

    /// Finishes the outgoing stream. Data written before this call are still delivered, and the
    /// incoming stream continues.
    pub fn finish(&mut self) {
        self.send.finish();
    }

    /// Reads data that arrived in order.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> Read {
        let taken = self.recv.read(out);
        if taken == 0 {
            return if self.recv.is_read() {
                Read::End
            } else if self.state.is_over() {
                Read::Closed
            } else {
                Read::Nothing
            };
        }
        let readable = self.recv.readable();
        self.window.on_read(now, taken as u64, readable);
        let limit = self.recv.read_offset() + self.window.bytes();
        self.recv.raise_limit(limit);
        // Acknowledgements carry the limit. If the sender has little credit left, it may be blocked
        // before the next acknowledgement is due. Then the limit is sent in a frame of its own.
        let window = self.window.bytes();
        let left = self.advertised.saturating_sub(self.recv.highest());
        if left < window / 2 && self.recv.limit() - self.advertised >= window / 4 {
            self.limit_due = true;
        }
        Read::Data(taken)
    }

    /// Returns whether the peer has received every byte written here, and all data of the peer have
    /// arrived. The peer may not know yet that this end has finished its stream.
    #[must_use]
    pub fn has_exchanged(&self) -> bool {
        self.send.held() == 0 && self.recv.is_complete()
    }

    /// Returns the number of bytes that can be read now.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<RudpEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if std::mem::take(&mut self.readable) {
            return Some(RudpEvent::Readable);
        }
        // The application is woken only once a quarter of the buffer is free, and not for every
        // acknowledgement.
        if self.write_blocked && self.writable() >= (self.send_capacity() / 4).min(MIN_BUFFER / 4) {
            self.write_blocked = false;
            return Some(RudpEvent::Writable);
        }
        None
    }

    /// Returns the address of the peer.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns the side of this end.
    #[must_use]
    pub fn side(&self) -> EndpointSide {
        self.side
    }

    /// Returns the connection ID in data packets to this end, or `None` until the handshake is
    /// complete.
    #[must_use]
    pub fn local_id(&self) -> Option<u32> {
        self.keys.as_ref().map(PacketKeys::local_id)
    }

    /// Returns whether the handshake is complete: the peer is authenticated, and packets pass in
    /// both directions.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Returns whether the connection has ended. Data that arrived in order can still be read.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.is_over()
    }

    /// Returns whether the connection has ended and sends nothing more, so that it can be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Returns the reason why the connection ended. Returns `None` while it is open, and if it
    /// ended with everything delivered.
    #[must_use]
    pub fn closed_reason(&self) -> Option<ClosedReason> {
        self.state.reason()
    }

    /// Returns the current maximum size of packets, in bytes of UDP payload.
    #[must_use]
    pub fn datagram_size(&self) -> u16 {
        self.mtu.current()
    }

    /// Returns the peer's report on this end's train of the handshake, or `None` before it arrives.
    #[must_use]
    pub fn outgoing_train(&self) -> Option<TrainResult> {
        self.outgoing_train
    }

    /// Returns the measurement of the peer's train of the handshake. It is `None` while the train
    /// arrives, and if there was none.
    #[must_use]
    pub fn incoming_train(&self) -> Option<TrainResult> {
        self.trains.measured()
    }

    /// Returns whether a train of the peer is arriving, so that a measurement of the path is
    /// imminent.
    #[must_use]
    pub fn is_train_arriving(&self) -> bool {
        !self.trains.incoming_is_over()
    }

    /// Returns the time for which the caller may leave arrived packets in the socket buffer, so
    /// that it reads more of them in one system call. Like the interval of acknowledgements, it is
    /// an eighth of the round-trip time.
    #[must_use]
    pub fn receive_delay(&self) -> Duration {
        if self.established && self.rtt.is_known() {
            (self.rtt.smoothed() / 8).min(MAX_RECEIVE_DELAY)
        } else {
            Duration::ZERO
        }
    }

    /// Returns statistics of the connection.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counters = &self.counters;
        Stats {
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            sent_data_bytes: counters.sent_data_bytes,
            retransmitted_packets: counters.retransmitted_packets,
            retransmitted_bytes: counters.retransmitted_bytes,
            parity_packets: counters.parity_packets,
            parity_bytes: counters.parity_bytes,
            probe_packets: counters.probe_packets,
            lost_packets: counters.lost_packets,
            spurious_losses: counters.spurious_losses,
            probe_timeouts: counters.probe_timeouts,
            received_packets: counters.received_packets,
            received_bytes: counters.received_bytes,
            duplicated_bytes: self.recv.duplicated(),
            recovered_segments: counters.recovered_segments,
            ignored_foreign: counters.ignored_foreign,
            ignored_forged: counters.ignored_forged,
            ignored_replayed: counters.ignored_replayed,
            dropped_packets: counters.dropped_packets,
            rtt: if self.rtt.is_known() {
                self.rtt.smoothed()
            } else {
                Duration::ZERO
            },
            min_rtt: self.rtt.min(),
            bytes_in_flight: self.sent.bytes_in_flight(),
            datagram_size: self.mtu.current(),
            migrations: counters.migrations,
            mtu_reductions: self.mtu.reductions(),
            peer_arrival_rate: counters.peer_arrival_rate,
            arrival_rate: self.acks.arrival_rate(),
            receive_window: self.window.bytes(),
            limited_by: counters.limited_by,
            controller: self.controller.snapshot(),
        }
    }

    /// Returns the maximum number of bytes that the outgoing stream may hold: four bandwidth-delay
    /// products plus the bytes that the application may write ahead of the path, but at most two
    /// products plus 2 MiB.
    ///
    /// The application should not write seconds ahead of a slow path, because its output may depend
    /// on the peer's. It must be able to write three round trips ahead, or the parity policy
    /// assumes that the transfer is about to end ([`fec::BlockPlan`](crate::fec::BlockPlan)).
    fn send_capacity(&self) -> u64 {
        let rate = self.controller.pacing_rate();
        let product = bytes_in(rate, self.rtt.smoothed()).min(u64::MAX / 8);
        let ahead = bytes_in(rate, MAX_WRITE_AHEAD).clamp(MIN_WRITE_AHEAD_BYTES, 2 * MIN_BUFFER);
        (4 * product + ahead)
            .min(2 * product + 2 * MIN_BUFFER)
            .min(self.config.max_send_buffer.max(MIN_BUFFER))
    }

    fn update_pacing(&mut self, now: Time) {
        self.pacer.set_rate(now, self.controller.pacing_rate());
    }
}

/// Returns the number of data bytes in a packet of this size, such that a parity symbol over them
/// fits as well.
fn data_room(datagram: u16) -> usize {
    let room = usize::from(datagram) - PACKET_OVERHEAD;
    let symbol = (room - PARITY_HEADER) & !1;
    (symbol - crate::fec::LENGTH_BYTES).min(room - BLOCK_DATA_HEADER)
}

impl fmt::Debug for RudpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("state", &self.state)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
