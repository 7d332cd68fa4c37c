//! Flows through one bottleneck, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::time::Duration;

use transpute_netem::model::Path;
use transpute_netem::scenario::PathConfig;
use transpute_rudp::Time;
use transpute_rudp::rate::{DeliverySampler, Feedback, RateController, RttView, SentState};

/// The size of every packet, in bytes.
pub(crate) const PACKET: u64 = 1500;

/// The maximum delay of an acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(2);
/// The number of packets after which an acknowledgement is sent at once.
const ACK_PACKETS: usize = 32;

/// The maximum transmission time of a burst.
const MAX_BURST: Duration = Duration::from_micros(500);

/// The length of the bins in which arrivals are counted.
pub(crate) const BIN: Duration = Duration::from_millis(100);

static ZEROS: [u8; PACKET as usize] = [0; PACKET as usize];

#[derive(Clone)]
struct Packet {
    flow: usize,
    number: u64,
}

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &ZEROS
    }
}

#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Send(usize),
    FlushAck(usize),
    Ack(usize, Vec<u64>),
    Timeout(usize),
}

/// A sender and the measurements at its receiver.
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn RateController>,
    start: Time,
    /// Number of packets to send. Lost packets are not retransmitted.
    limit: u64,
    /// The rate at which the application produces data, and the time until which it is limited to
    /// that rate.
    source: Option<(u64, Duration)>,
    next_number: u64,
    next_send: Time,
    send_scheduled: bool,
    in_flight: BTreeMap<u64, (Time, SentState)>,
    sampler: DeliverySampler,
    rtt: RttView,
    last_heard: Time,
    probe_due: bool,
    backoff: u32,
    unacked: Vec<u64>,
    arrivals: (u64, Time, Option<u64>),
    /// Bytes that arrived.
    pub(crate) delivered: u64,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) finished: Option<Time>,
    /// Bytes that arrived per bin.
    pub(crate) curve: Vec<u64>,
    /// The pacing rate and the state name of the controller at the start of each bin.
    pub(crate) states: Vec<(u64, &'static str)>,
}

impl Flow {
    pub(crate) fn new(controller: Box<dyn RateController>, start: Duration) -> Self {
        Self {
            controller,
            start: Time::ZERO + start,
            limit: u64::MAX,
            source: None,
            next_number: 0,
            next_send: Time::ZERO,
            send_scheduled: false,
            in_flight: BTreeMap::new(),
            sampler: DeliverySampler::new(),
            rtt: RttView::default(),
            last_heard: Time::ZERO,
            probe_due: false,
            backoff: 0,
            unacked: Vec::new(),
            arrivals: (0, Time::ZERO, None),
            delivered: 0,
            sent: 0,
            lost: 0,
            finished: None,
            curve: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Limits the flow to this many bytes.
    pub(crate) fn bytes(mut self, bytes: u64) -> Self {
        self.limit = bytes.div_ceil(PACKET);
        self
    }

    /// Limits the application to this rate until this time.
    pub(crate) fn source(mut self, rate: u64, until: Duration) -> Self {
        self.source = Some((rate, until));
        self
    }

    /// Returns the rate of arrivals between two times in seconds, in Mbit/s.
    pub(crate) fn mbit(&self, from: f64, to: f64) -> f64 {
        let per_bin = BIN.as_secs_f64();
        let bins = (from / per_bin).round() as usize..(to / per_bin).round() as usize;
        let bytes: u64 = self.curve.iter().skip(bins.start).take(bins.len()).sum();
        bytes as f64 * 8e-6 / (to - from)
    }

    fn record(&mut self, now: Time, rtt: Duration) {
        self.rtt.latest = Some(rtt);
        self.rtt.smoothed = if self.rtt.smoothed.is_zero() {
            rtt
        } else {
            (self.rtt.smoothed * 7 + rtt) / 8
        };
        if self.rtt.min.is_zero() || rtt < self.rtt.min {
            self.rtt.min = rtt;
        }
        self.last_heard = now;
        self.backoff = 0;
    }

    fn outstanding(&self) -> u64 {
        self.in_flight.len() as u64 * PACKET
    }

    fn on_ack(&mut self, now: Time, numbers: &[u64]) -> Feedback {
        self.rtt.latest = None;
        let mut newest = None;
        for number in numbers {
            if let Some((sent_at, state)) = self.in_flight.remove(number) {
                self.sampler.on_acked(now, PACKET, &state);
                newest = newest.max(Some(sent_at));
            }
        }
        if let Some(sent_at) = newest {
            self.record(now, now.since(sent_at));
        }
        let lost_below = numbers
            .iter()
            .max()
            .map_or(0, |largest| largest.saturating_sub(2));
        let alive = self.in_flight.split_off(&lost_below);
        for _ in std::mem::replace(&mut self.in_flight, alive) {
            self.sampler.on_lost(PACKET, 1);
            self.lost += 1;
        }
        let outstanding = self.outstanding();
        let mut feedback = self.sampler.take_feedback(now, self.rtt, outstanding);
        feedback.arrival_rate = self.arrivals.2;
        feedback
    }
}

/// The bottleneck, the flows and the scheduled events.
pub(crate) struct Sim {
    path: Path<Packet>,
    back: Duration,
    pub(crate) flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    pub(crate) now: Time,
    /// The capacity of the link that the simulator passes to the flows. UDT derives it from packet
    /// pairs.
    pub(crate) link_capacity: Option<u64>,
}

impl Sim {
    pub(crate) fn new(config: &PathConfig, seed: u64, flows: Vec<Flow>) -> Self {
        let mut sim = Self {
            path: Path::new(config, seed),
            back: Duration::from_secs_f64(config.delay_ms / 1e3),
            flows,
            events: BinaryHeap::new(),
            count: 0,
            now: Time::ZERO,
            link_capacity: None,
        };
        for flow in 0..sim.flows.len() {
            let start = sim.flows[flow].start;
            sim.flows[flow].send_scheduled = true;
            sim.schedule(start, Event::Send(flow));
            sim.schedule(start + Duration::from_millis(500), Event::Timeout(flow));
        }
        sim
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    /// Runs until this time, or until all flows have finished.
    pub(crate) fn run(&mut self, seconds: f64) {
        let end = Time::ZERO + Duration::from_secs_f64(seconds);
        while !self.flows.iter().all(|flow| flow.finished.is_some()) {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let packet = self.path.next_deadline().map(Time::from_nanos);
            let Some(now) = [event, packet].into_iter().flatten().min() else {
                return;
            };
            if now > end {
                return;
            }
            self.now = now;
            if packet.is_some_and(|at| at <= now) {
                while let Some(packet) = self.path.dequeue(now.as_nanos()) {
                    self.arrive(packet);
                }
                if event.is_none_or(|at| at > now) {
                    continue;
                }
            }
            let Some(Reverse((_, _, event))) = self.events.pop() else {
                continue;
            };
            match event {
                Event::Send(flow) => self.send(flow),
                Event::FlushAck(flow) => self.flush(flow),
                Event::Ack(flow, numbers) => {
                    let mut feedback = self.flows[flow].on_ack(now, &numbers);
                    feedback.link_capacity = self.link_capacity;
                    self.flows[flow].controller.on_feedback(&feedback);
                    let done = self.flows[flow].next_number >= self.flows[flow].limit;
                    if done && self.flows[flow].in_flight.is_empty() {
                        self.flows[flow].finished.get_or_insert(now);
                    }
                    self.wake(flow);
                }
                Event::Timeout(flow) => self.timeout(flow),
            }
        }
    }

    fn wake(&mut self, flow: usize) {
        if !self.flows[flow].send_scheduled {
            self.flows[flow].send_scheduled = true;
            let at = self.flows[flow].next_send.max(self.now);
            self.schedule(at, Event::Send(flow));
        }
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        flow.send_scheduled = false;
        flow.next_send = flow.next_send.max(now);
        let bin = (now.since(Time::ZERO).as_nanos() / BIN.as_nanos()) as usize;
        if flow.states.len() <= bin {
            let snapshot = flow.controller.snapshot();
            flow.states
                .resize(bin + 1, (snapshot.pacing_rate, snapshot.state));
        }
        let until = now + MAX_BURST;
        while flow.next_send <= until && flow.next_number < flow.limit {
            let outstanding = flow.outstanding();
            let blocked = outstanding + PACKET > flow.controller.window();
            if blocked && !flow.probe_due {
                return;
            }
            flow.probe_due = false;
            let elapsed = now.since(flow.start);
            let slow = flow.source.filter(|(_, until)| elapsed < *until);
            if slow.is_some_and(|(rate, _)| flow.sent as f64 > rate as f64 * elapsed.as_secs_f64())
            {
                flow.sampler.set_app_limited(outstanding);
                flow.send_scheduled = true;
                self.schedule(now + Duration::from_millis(1), Event::Send(index));
                return;
            }
            let state = flow.sampler.on_sent(now, PACKET, outstanding);
            let limited = flow.sampler.is_app_limited();
            (flow.controller).on_sent(now, PACKET, outstanding + PACKET, limited);
            let number = flow.next_number;
            flow.in_flight.insert(number, (now, state));
            flow.next_number += 1;
            flow.sent += PACKET;
            let rate = flow.controller.pacing_rate().max(1);
            let step = Duration::from_nanos(PACKET * 1_000_000_000 / rate);
            flow.next_send = flow.next_send + step;
            self.path.enqueue(
                now.as_nanos(),
                Packet {
                    flow: index,
                    number,
                },
            );
            if blocked {
                return;
            }
        }
        if flow.next_number < flow.limit {
            self.wake(index);
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let now = self.now;
        let flow = &mut self.flows[packet.flow];
        flow.delivered += PACKET;
        let bin = (now.since(Time::ZERO).as_nanos() / BIN.as_nanos()) as usize;
        if flow.curve.len() <= bin {
            flow.curve.resize(bin + 1, 0);
        }
        flow.curve[bin] += PACKET;
        // The arrival rate is measured over at least 10 ms.
        flow.arrivals.0 += PACKET;
        let since = now.since(flow.arrivals.1);
        if since >= Duration::from_millis(10) {
            let rate = flow.arrivals.0 as f64 / since.as_secs_f64();
            flow.arrivals = (0, now, Some(rate as u64));
        }
        flow.unacked.push(packet.number);
        if flow.unacked.len() == 1 {
            self.schedule(now + ACK_DELAY, Event::FlushAck(packet.flow));
        } else if flow.unacked.len() >= ACK_PACKETS {
            self.flush(packet.flow);
        }
    }

    fn flush(&mut self, flow: usize) {
        let numbers = std::mem::take(&mut self.flows[flow].unacked);
        if !numbers.is_empty() {
            self.schedule(self.now + self.back, Event::Ack(flow, numbers));
        }
    }

    fn timeout(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let timeout =
            (flow.rtt.smoothed * 3 / 2).max(Duration::from_millis(50)) * (1 << flow.backoff.min(4));
        let timeout = timeout.min(Duration::from_secs(1));
        if !flow.in_flight.is_empty()
            && now.since(flow.last_heard) >= timeout
            && !flow.rtt.smoothed.is_zero()
        {
            flow.backoff += 1;
            if flow.backoff >= 3 {
                flow.controller.on_timeout(now);
            }
            flow.probe_due = true;
            // The last packets may have been lost, and no later packet shows it.
            if flow.next_number >= flow.limit {
                flow.limit += 1;
            }
            self.wake(index);
        }
        self.schedule(
            now + timeout.min(Duration::from_millis(100)),
            Event::Timeout(index),
        );
    }

    /// Returns the number of bytes in the queue of the bottleneck.
    pub(crate) fn queued(&self) -> u64 {
        self.path.queued_bytes()
    }

    /// Returns the number of bytes dropped because the queue of the bottleneck was full.
    pub(crate) fn overflowed(&self) -> u64 {
        self.path.counters().overflowed_bytes
    }

    /// Returns a table of all flows, to be printed.
    pub(crate) fn curves(&self, every: usize) -> String {
        let mut text = String::new();
        let bins = self
            .flows
            .iter()
            .map(|flow| flow.curve.len())
            .max()
            .unwrap_or(0);
        for bin in (0..bins).step_by(every) {
            let _ = write!(text, "{:6.1} s", bin as f64 * BIN.as_secs_f64());
            for flow in &self.flows {
                let to = (bin + every) as f64 * BIN.as_secs_f64();
                let mbit = flow.mbit(bin as f64 * BIN.as_secs_f64(), to);
                let (pacing, state) = flow.states.get(bin).copied().unwrap_or_default();
                let _ = write!(text, "  {mbit:7.1} ({:7.1} {state})", pacing as f64 * 8e-6);
            }
            text.push('\n');
        }
        text
    }
}
