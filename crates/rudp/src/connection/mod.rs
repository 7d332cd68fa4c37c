//! One end of a connection: what the caller sees, and the parts it is made of.

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
use crate::config::{Config, FecPolicy, Reliability};
use crate::event::{ClosedReason, Event};
use crate::fec::{BlockEncoder, DecoderStore, Limits};
use crate::flow::Window;
use crate::frame::{BLOCK_DATA_HEADER, PARITY_HEADER};
use crate::handshake::Handshake;
use crate::keys::{Keys, Side};
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

/// The least that either stream may be bounded to.
const MIN_BUFFER: u64 = 1 << 20;

/// How far ahead of the path the application may write: 16 ms at the current rate, and 128 KiB at least. Chosen: timers and threads
/// may be late by some milliseconds.
const AHEAD: Duration = Duration::from_millis(16);
const MIN_AHEAD_BYTES: u64 = 128 << 10;

/// The longest [`patience`](Connection::patience): arrivals are a small part of what a socket's buffer holds.
const MAX_PATIENCE: Duration = Duration::from_micros(200);

/// One end of a connection: a byte stream in each direction.
///
/// The caller owns the socket and the clock. After every call that passes the time, it calls
/// [`poll_transmit`](Self::poll_transmit) until there is nothing more to send, [`poll_event`](Self::poll_event) until
/// there is nothing more to tell, and then waits for a datagram or for [`next_timeout`](Self::next_timeout).
pub struct Connection {
    side: Side,
    config: Config,
    phase: Phase,
    /// The keys of data packets, once the handshake is complete.
    keys: Option<Keys>,
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
    /// When the open block was last added to.
    block_touched: Time,
    /// When packets began to be under way without a pause.
    busy_since: Time,
    /// The end of the stream is sent once more, in a packet of its own: correction does not cover it.
    end_echo: bool,
    /// Packets of the first flight of data that are a train: the next one, how many, and when the first one left.
    data_train: Option<(u8, u8, Time)>,
    /// When this end stops waiting for the peer's report on its train. `None`: no report will come.
    report_until: Option<Time>,
    /// What the other end said about the train of the set-up.
    outgoing_train: Option<TrainResult>,
    rtt: Rtt,
    /// Probe timeouts since the last acknowledgement.
    backoff: u32,
    /// Packets to send although rate and window forbid it.
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
    /// The rate to begin with is one that the train could not tell from a greater or, pushed together, a smaller one.
    unproven: bool,
    mtu: Mtu,

    last_heard: Time,
    last_sent: Time,
    readable: bool,
    events: VecDeque<Event>,
    counters: Counters,
}

/// Whether packets of the set-up may still come and go.
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

impl Connection {
    fn new(side: Side, remote: SocketAddr, config: Config, now: Time, seed: u64) -> Self {
        let settings = migration::settings(&config);
        let most_data = data_room(config.max_datagram.max(MIN_DATAGRAM));
        // The room of a datagram is never zero nor beyond what a code takes, since datagrams have at most 2^16 bytes and
        // sizes are capped at jumbo frames.
        let encoder = match (config.fec, config.reliability) {
            (FecPolicy::Adaptive, Reliability::Repair) => BlockEncoder::new(most_data).ok(),
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
            decoder: DecoderStore::new(Limits {
                max_segment: crate::fec::MAX_SEGMENT,
                ..Limits::default()
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
            mtu: Mtu::new(config.max_datagram.min(crate::fec::MAX_SEGMENT as u16)),
            last_heard: now,
            last_sent: now,
            readable: false,
            events: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Takes bytes for the other end and returns how many. Fewer than given: wait for [`Event::Writable`].
    ///
    /// All that is written goes out as soon as rate and window allow; nothing waits for more to be written.
    pub fn write(&mut self, data: &[u8]) -> usize {
        if !self.state.is_open() {
            return 0;
        }
        let taken = self.send.write(data, self.send_capacity());
        self.write_blocked |= taken < data.len();
        taken
    }

    /// Returns how many bytes [`write`](Self::write) would take now.
    #[must_use]
    pub fn writable(&self) -> u64 {
        if self.state.is_open() && !self.send.is_finished() {
            self.send_capacity().saturating_sub(self.send.held())
        } else {
            0
        }
    }

    /// Asks the other end for a sign of life, because something suggests that it is gone.
    pub fn probe(&mut self) {
        self.ping |= self.established;
    }

    /// Ends the outgoing stream. What was written is delivered first; the other direction goes on.
    pub fn finish(&mut self) {
        self.send.finish();
    }

    /// Reads what has come, in order.
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
        // Acknowledgements carry the limit; it is sent by itself only where none may come because the sender is stuck.
        let window = self.window.bytes();
        let left = self.advertised.saturating_sub(self.recv.highest());
        if left < window / 2 && self.recv.limit() - self.advertised >= window / 4 {
            self.limit_due = true;
        }
        Read::Data(taken)
    }

    /// Returns whether the other end has every byte written here, and everything it will ever send has come: what may be
    /// missing is its knowledge that this end has finished.
    #[must_use]
    pub fn has_exchanged(&self) -> bool {
        self.send.held() == 0 && self.recv.is_complete()
    }

    /// Returns how many bytes can be read at once.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Returns what happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if std::mem::take(&mut self.readable) {
            return Some(Event::Readable);
        }
        // Not for every acknowledgement.
        if self.write_blocked && self.writable() >= (self.send_capacity() / 4).min(MIN_BUFFER / 4) {
            self.write_blocked = false;
            return Some(Event::Writable);
        }
        None
    }

    /// Returns the address of the other end.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns which end this is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the id on data packets to this end; `None` until the handshake is complete.
    #[must_use]
    pub fn local_id(&self) -> Option<u32> {
        self.keys.as_ref().map(Keys::local_id)
    }

    /// Returns whether the peer is authenticated and packets pass in both directions.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Returns whether the connection has ended. What has come in order can still be read.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.is_over()
    }

    /// Returns whether there is nothing more to send either: the connection can be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Returns why the connection ended; `None` also where it ended as it should.
    #[must_use]
    pub fn closed_reason(&self) -> Option<ClosedReason> {
        self.state.reason()
    }

    /// Returns the size of full packets, in bytes of UDP payload.
    #[must_use]
    pub fn datagram_size(&self) -> u16 {
        self.mtu.current()
    }

    /// Returns what the other end said about the train of this end's set-up; `None` until it has.
    #[must_use]
    pub fn outgoing_train(&self) -> Option<TrainResult> {
        self.outgoing_train
    }

    /// Returns what the train of the other end's set-up told; `None` until it is over, and if there was none.
    #[must_use]
    pub fn incoming_train(&self) -> Option<TrainResult> {
        self.trains.measured()
    }

    /// Says whether a train of the other end is arriving, so that more of the path is known soon.
    #[must_use]
    pub fn is_train_arriving(&self) -> bool {
        !self.trains.incoming_is_over()
    }

    /// Returns for how long packets that have arrived may be left lying while more are coming, so that they are taken
    /// together: by an eighth of the round trip, as acknowledgements are.
    #[must_use]
    pub fn patience(&self) -> Duration {
        if self.established && self.rtt.is_known() {
            (self.rtt.smoothed() / 8).min(MAX_PATIENCE)
        } else {
            Duration::ZERO
        }
    }

    /// Returns numbers about the connection.
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
            moves: counters.moves,
            mtu_falls: self.mtu.falls(),
            peer_arrival_rate: counters.peer_arrival_rate,
            arrival_rate: self.acks.arrival_rate(),
            receive_window: self.window.bytes(),
            limited_by: counters.limited_by,
            controller: self.controller.snapshot(),
        }
    }

    /// Returns how many bytes the outgoing stream may hold: what can be under way for two round trips, and some more to
    /// be written meanwhile.
    ///
    /// Who writes is not to be seconds ahead of a slow path: what is written could depend on what comes from the other end. Three
    /// round trips ahead it has to be, or correction takes the end for near ([`fec::Plan`](crate::fec::Plan)).
    fn send_capacity(&self) -> u64 {
        let rate = self.controller.pacing_rate();
        let product = bytes_in(rate, self.rtt.smoothed()).min(u64::MAX / 8);
        let ahead = bytes_in(rate, AHEAD).clamp(MIN_AHEAD_BYTES, 2 * MIN_BUFFER);
        (4 * product + ahead)
            .min(2 * product + 2 * MIN_BUFFER)
            .min(self.config.max_send_buffer.max(MIN_BUFFER))
    }

    fn now_pacing(&mut self, now: Time) {
        self.pacer.set_rate(now, self.controller.pacing_rate());
    }
}

/// Returns how many bytes of data a packet of this size carries such that a correction symbol over them fits as well.
fn data_room(datagram: u16) -> usize {
    let room = usize::from(datagram) - PACKET_OVERHEAD;
    let symbol = (room - PARITY_HEADER) & !1;
    (symbol - crate::fec::LENGTH_BYTES).min(room - BLOCK_DATA_HEADER)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("state", &self.state)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
