//! Packets under way, and how their loss is noticed.
//!
//! A packet is lost when one that was sent sufficiently later is acknowledged: later by number, or
//! by time (RFC 9002, section 6.1). Retransmissions have numbers of their own, so that their loss
//! is noticed the same way. A packet that was taken for lost and is acknowledged after all shows
//! how far this path reorders; both thresholds adapt (the idea of RACK, RFC 8985, section 6.2).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::Time;
use crate::rate::SentState;
use crate::rtt::Rtt;

/// How many later packets must be acknowledged before one counts as lost, to begin with and at
/// most.
const FIRST_PACKET_THRESHOLD: u64 = 3;
const MAX_PACKET_THRESHOLD: u64 = 300;

/// How many packets that were found lost are remembered, to notice that they were not.
const MAX_REMEMBERED: usize = 8_192;

/// How many packets may be unaccounted for. At 1,500 bytes this is 98 MB.
pub(crate) const MAX_TRACKED: usize = 65_536;

/// What a packet carried that may have to be sent again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Contents {
    /// Its part of the stream.
    pub(crate) data: Option<Range<u64>>,
    /// The data end the stream.
    pub(crate) end: bool,
    /// The block to which its data or its correction symbol belong.
    pub(crate) block: Option<u32>,
    /// It carries a correction symbol.
    pub(crate) parity: bool,
    /// A limit on the stream of the other end.
    pub(crate) limit: bool,
    /// It only asks whether packets of its size pass.
    pub(crate) size_probe: bool,
}

impl Contents {
    /// Nothing but a request to acknowledge.
    pub(crate) const PING: Self = Self {
        data: None,
        end: false,
        block: None,
        parity: false,
        limit: false,
        size_probe: false,
    };
}

/// A packet that asks for an acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    pub(crate) number: u64,
    pub(crate) at: Time,
    /// Bytes of UDP payload.
    pub(crate) size: u16,
    /// What counts as in flight and towards the rate.
    pub(crate) wire: u64,
    pub(crate) state: SentState,
    pub(crate) contents: Contents,
}

#[derive(Clone, Debug)]
enum Slot {
    /// Acknowledged, or never to be.
    Empty,
    InFlight(SentPacket),
    /// Found lost.
    Lost,
}

/// What an acknowledgement changed.
#[derive(Debug, Default)]
pub(crate) struct AckOutcome {
    pub(crate) acked: Vec<SentPacket>,
    /// How many packets had been taken for lost.
    pub(crate) spurious: u64,
    /// The largest number was acknowledged for the first time; when it was sent.
    pub(crate) largest_sent_at: Option<Time>,
}

/// All packets under way, by number.
#[derive(Debug, Default)]
pub(crate) struct SentLog {
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    /// No packet below this number is in flight.
    settled: u64,
    in_flight: usize,
    bytes_in_flight: u64,
    largest_acked: Option<u64>,
    /// When the last packet that asks for an acknowledgement left.
    last_sent: Time,
    packet_threshold: u64,
    /// How many eighths of a round trip a packet may be late, beyond the one that RFC 9002 allows.
    extra_eighths: u32,
    loss_time: Option<Time>,
}

impl SentLog {
    pub(crate) fn new() -> Self {
        Self {
            packet_threshold: FIRST_PACKET_THRESHOLD,
            ..Self::default()
        }
    }

    /// Notes a packet; numbers must grow.
    pub(crate) fn on_sent(&mut self, packet: SentPacket) {
        if self.slots.is_empty() {
            self.first = packet.number;
        }
        while self.first + (self.slots.len() as u64) < packet.number {
            self.slots.push_back(Slot::Empty);
        }
        self.in_flight += 1;
        self.bytes_in_flight += packet.wire;
        self.last_sent = packet.at;
        self.slots.push_back(Slot::InFlight(packet));
    }

    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_TRACKED
    }

    pub(crate) fn last_sent(&self) -> Time {
        self.last_sent
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Takes the packets off that these ranges name.
    pub(crate) fn on_ack(&mut self, ranges: &[Range<u64>]) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let end = self.first + self.slots.len() as u64;
        for range in ranges {
            if range.end <= self.first {
                break;
            }
            for number in range.start.max(self.first)..range.end.min(end) {
                // Within the slots by the bounds of the loop.
                let slot = &mut self.slots[(number - self.first) as usize];
                match std::mem::replace(slot, Slot::Empty) {
                    Slot::Empty => {}
                    Slot::InFlight(packet) => {
                        self.in_flight -= 1;
                        self.bytes_in_flight -= packet.wire;
                        if self.largest_acked.is_none_or(|largest| number > largest) {
                            self.largest_acked = Some(number);
                            outcome.largest_sent_at = Some(packet.at);
                        }
                        outcome.acked.push(packet);
                    }
                    Slot::Lost => {
                        outcome.spurious += 1;
                        self.adapt(number);
                    }
                }
            }
        }
        outcome
    }

    /// Learns from a packet that came although it was taken for lost.
    fn adapt(&mut self, number: u64) {
        let behind = self.largest_acked.unwrap_or(number).saturating_sub(number);
        // The acknowledgement may be late as well, so the distance is an upper bound; go there in
        // steps.
        let wanted = (behind + 1).min(2 * self.packet_threshold);
        self.packet_threshold = (self.packet_threshold)
            .max(wanted)
            .min(MAX_PACKET_THRESHOLD);
        self.extra_eighths = (self.extra_eighths + 1).min(8);
    }

    /// Takes packets off that are lost by now, and returns them in order.
    pub(crate) fn detect_lost(&mut self, now: Time, rtt: &Rtt) -> Vec<SentPacket> {
        self.loss_time = None;
        let mut lost = Vec::new();
        let Some(largest) = self.largest_acked else {
            return lost;
        };
        let base = rtt.smoothed().max(rtt.latest());
        let patience = (base + base * (1 + self.extra_eighths) / 8).max(Duration::from_millis(1));
        self.settled = self.settled.max(self.first);
        let end = (largest + 1).min(self.first + self.slots.len() as u64);
        for number in self.settled..end {
            let index = (number - self.first) as usize;
            let Slot::InFlight(packet) = &self.slots[index] else {
                if number == self.settled {
                    self.settled += 1;
                }
                continue;
            };
            let due = packet.at + patience;
            let overtaken = largest.saturating_sub(packet.number) >= self.packet_threshold;
            if overtaken || due <= now {
                if let Slot::InFlight(packet) =
                    std::mem::replace(&mut self.slots[index], Slot::Lost)
                {
                    self.in_flight -= 1;
                    self.bytes_in_flight -= packet.wire;
                    lost.push(packet);
                    if number == self.settled {
                        self.settled += 1;
                    }
                }
            } else {
                // Later packets were sent no earlier.
                self.loss_time = Some(due);
                break;
            }
        }
        self.forget();
        lost
    }

    /// Returns when [`detect_lost`](Self::detect_lost) may find more.
    pub(crate) fn loss_time(&self) -> Option<Time> {
        self.loss_time
    }

    /// Drops slots that say nothing any more.
    fn forget(&mut self) {
        while let Some(front) = self.slots.front() {
            let done = match front {
                Slot::Empty => true,
                Slot::Lost => {
                    let largest = self.largest_acked.unwrap_or(0);
                    largest.saturating_sub(self.first) > MAX_REMEMBERED as u64
                }
                Slot::InFlight(_) => false,
            };
            if !done {
                break;
            }
            self.slots.pop_front();
            self.first += 1;
        }
    }
}
