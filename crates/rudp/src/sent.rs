//! Packets in flight, and loss detection.
//!
//! A packet is lost if a packet that was sent sufficiently later is acknowledged: later by packet
//! number, or by time (RFC 9002, section 6.1). Retransmissions have new packet numbers, so that
//! their loss is detected in the same way. If a packet declared lost is acknowledged after all, it
//! shows how far the path reorders packets. Then both thresholds are raised (the idea of RACK, RFC
//! 8985, section 6.2).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::Time;
use crate::rate::SentState;
use crate::rtt::Rtt;

/// The initial packet threshold: the number of later packets that must be acknowledged before a
/// packet is lost (`kPacketThreshold` of RFC 9002).
const INITIAL_PACKET_THRESHOLD: u64 = 3;
/// The maximum of the packet threshold.
const MAX_PACKET_THRESHOLD: u64 = 300;

/// The maximum number of lost packets that are kept in order to detect spurious losses.
const MAX_REMEMBERED: usize = 8_192;

/// The maximum number of packets whose outcome is unknown. At 1,500 bytes this is 98 MB.
pub(crate) const MAX_TRACKED: usize = 65_536;

/// The contents of a packet, which may have to be retransmitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Contents {
    /// The range of stream data.
    pub(crate) data: Option<Range<u64>>,
    /// `true` if the stream ends after the data.
    pub(crate) end: bool,
    /// The FEC block to which the data or the parity symbol belongs.
    pub(crate) block: Option<u32>,
    /// `true` if the packet carries a parity symbol.
    pub(crate) parity: bool,
    /// `true` if the packet carries a flow-control limit.
    pub(crate) limit: bool,
    /// `true` if the packet probes whether a larger size passes the path.
    pub(crate) size_probe: bool,
}

impl Contents {
    /// The contents of a packet that only requires an acknowledgement.
    pub(crate) const PING: Self = Self {
        data: None,
        end: false,
        block: None,
        parity: false,
        limit: false,
        size_probe: false,
    };
}

/// An ack-eliciting packet.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    pub(crate) number: u64,
    pub(crate) at: Time,
    /// The size in bytes of UDP payload.
    pub(crate) size: u16,
    /// The size in bytes on the wire, from which the bytes in flight and the rate are computed.
    pub(crate) wire: u64,
    pub(crate) state: SentState,
    pub(crate) contents: Contents,
}

#[derive(Clone, Debug)]
enum Slot {
    /// A packet that was acknowledged, or a number whose packet is not ack-eliciting.
    Empty,
    InFlight(SentPacket),
    /// A packet that was declared lost.
    Lost,
}

/// The effect of an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AckOutcome {
    pub(crate) acked: Vec<SentPacket>,
    /// The number of newly acknowledged packets that had been declared lost.
    pub(crate) spurious: u64,
    /// The sending time of the largest packet number, if it was newly acknowledged.
    pub(crate) largest_sent_at: Option<Time>,
}

/// All packets in flight, by packet number.
#[derive(Debug, Default)]
pub(crate) struct SentLog {
    /// The packet number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    /// The number below which no packet is in flight.
    settled: u64,
    in_flight: usize,
    bytes_in_flight: u64,
    largest_acked: Option<u64>,
    /// The time at which the last ack-eliciting packet was sent.
    last_sent: Time,
    packet_threshold: u64,
    /// The time threshold beyond that of RFC 9002, in eighths of a round trip.
    extra_eighths: u32,
    loss_time: Option<Time>,
}

impl SentLog {
    pub(crate) fn new() -> Self {
        Self {
            packet_threshold: INITIAL_PACKET_THRESHOLD,
            ..Self::default()
        }
    }

    /// Records a packet. Packet numbers must increase.
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

    /// Removes the acknowledged packets, whose numbers are in `ranges`, and returns them.
    pub(crate) fn on_ack(&mut self, ranges: &[Range<u64>]) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let end = self.first + self.slots.len() as u64;
        for range in ranges {
            if range.end <= self.first {
                break;
            }
            for number in range.start.max(self.first)..range.end.min(end) {
                // The bounds of the loop keep the index within the slots.
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

    /// Raises the thresholds after a spurious loss.
    fn adapt(&mut self, number: u64) {
        let behind = self.largest_acked.unwrap_or(number).saturating_sub(number);
        // The acknowledgement may be late as well, so `behind` may overstate the reordering.
        // Therefore the threshold at most doubles.
        let wanted = (behind + 1).min(2 * self.packet_threshold);
        self.packet_threshold = (self.packet_threshold)
            .max(wanted)
            .min(MAX_PACKET_THRESHOLD);
        self.extra_eighths = (self.extra_eighths + 1).min(8);
    }

    /// Removes the packets that are lost by now, and returns them in order.
    pub(crate) fn detect_lost(&mut self, now: Time, rtt: &Rtt) -> Vec<SentPacket> {
        self.loss_time = None;
        let mut lost = Vec::new();
        let Some(largest) = self.largest_acked else {
            return lost;
        };
        let base = rtt.smoothed().max(rtt.latest());
        let time_threshold =
            (base + base * (1 + self.extra_eighths) / 8).max(Duration::from_millis(1));
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
            let due = packet.at + time_threshold;
            let is_beyond_threshold =
                largest.saturating_sub(packet.number) >= self.packet_threshold;
            if is_beyond_threshold || due <= now {
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
                // Packets with larger numbers were sent later, so none of them is lost yet either.
                self.loss_time = Some(due);
                break;
            }
        }
        self.forget();
        lost
    }

    /// Returns the time at which [`detect_lost`](Self::detect_lost) may find more losses.
    pub(crate) fn loss_time(&self) -> Option<Time> {
        self.loss_time
    }

    /// Removes slots that are not needed any more.
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
