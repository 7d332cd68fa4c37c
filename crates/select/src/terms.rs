//! What a predicted time is made of, before the factors: the terms of the model for one transport, path and workload.

use crate::{
    Bound, End, Factors, Law, Loss, PathEstimate, Shape, TimeParts, Workload,
    law::{self, Carriage, Conditions},
    plausible::{self, Range},
};

/// The least queue that is reckoned with unless it is known, in bytes; longer paths have one product of rate and round-trip time.
const DEFAULT_QUEUE: f64 = 262_144.0;

/// How likely a queue of which nothing is known loses a part of the first windows of several connections, which leave together:
/// then a timer is waited for.
const BURST_RISK: f64 = 0.25;

/// Packets of a train that would have shown a short queue.
const TRAIN_PACKETS: u64 = 64;

/// A path with every figure filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) rtt: f64,
    pub(crate) rate: [f64; 2],
    pub(crate) loss: [f64; 2],
    pub(crate) queue: [Option<f64>; 2],
    /// Whether nothing is known of the queue, not even that it is no short one.
    pub(crate) is_queue_unseen: [bool; 2],
    pub(crate) kernel_window: f64,
}

/// Both directions of a path as they plausibly are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plausible {
    pub(crate) rate: [Range; 2],
    pub(crate) loss: [Range; 2],
    mid: Point,
}

impl Plausible {
    pub(crate) fn of(path: &PathEstimate) -> Self {
        let rtt = path.rtt_s();
        let both = [&path.up, &path.down];
        let rate = both.map(|direction| plausible::rate(direction, rtt));
        let loss = both.map(|direction| plausible::loss(direction, rtt));
        Self {
            rate,
            loss,
            mid: Point {
                rtt,
                rate: rate.map(|range| range.mid),
                loss: loss.map(|range| range.mid),
                queue: both.map(|direction| direction.queue_bytes),
                is_queue_unseen: both.map(|direction| {
                    let sent = direction.loss.map_or(0, Loss::sent);
                    direction.queue_bytes.is_none() && sent < TRAIN_PACKETS
                }),
                kernel_window: plausible::kernel_window(path),
            },
        }
    }

    /// Returns the likeliest path.
    pub(crate) fn mid(&self) -> Point {
        self.mid
    }

    /// Returns the path with rates and losses of both directions at an end of what is plausible, or not.
    pub(crate) fn at(&self, rate: fn(&Range) -> f64, loss: fn(&Range) -> f64) -> Point {
        Point {
            rate: [rate(&self.rate[0]), rate(&self.rate[1])],
            loss: [loss(&self.loss[0]), loss(&self.loss[1])],
            ..self.mid
        }
    }
}

impl Point {
    /// `direction`: 0 is up.
    fn conditions(&self, direction: usize) -> Conditions {
        let rate = self.rate[direction];
        Conditions {
            rtt: self.rtt,
            rate,
            loss: self.loss[direction],
            queue: self.queue[direction].unwrap_or((rate / 8.0 * self.rtt).max(DEFAULT_QUEUE)),
            kernel_window: self.kernel_window,
        }
    }
}

/// What happens one after the other from the first table on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// Round trips of the protocol, in seconds.
    pub(crate) waiting: f64,
    /// Bytes at the rate that is reached, in seconds.
    pub(crate) transfer: f64,
    /// What coming to that rate adds.
    pub(crate) growth: f64,
    /// What losses add.
    pub(crate) loss: f64,
    bound: Bound,
}

impl Chain {
    fn seconds(&self, factors: &Factors) -> f64 {
        factors.rounds * self.waiting
            + factors.carriage * self.transfer
            + factors.growth * self.growth
            + factors.loss * self.loss
    }
}

/// What a time is made of, before the factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Round trips of the set-up, and what losses of its packets cost, in seconds.
    pub(crate) setup: f64,
    /// Round trips until the first table, in seconds.
    pub(crate) rounds: f64,
    /// Computing that nothing overlaps.
    pub(crate) serial: f64,
    /// From the first table on: tables towards the evaluator, or waiting for the labels, whichever takes longer.
    chains: [Chain; 2],
    pub(crate) compute: f64,
    /// How likely losses meet the run.
    pub(crate) lossiness: f64,
}

/// Seconds after which the first packet of a connection is sent again where nothing is known of the path.
const FIRST_TIMEOUT_S: f64 = 0.25;

/// Returns the geometric mean of a time and of the same with a delay that it has with probability `p`: that is where relative
/// errors balance.
fn delayed(seconds: f64, delay: f64, p: f64) -> f64 {
    seconds.powf(1.0 - p) * (seconds + delay).powf(p)
}

/// How well carrying and computing hide each other: the exponent of a norm, of which 1 is one after the other and infinity
/// all at the same time.
const OVERLAP: f64 = 2.0;

/// Returns how long carrying and computing take together: the longer, and more where they are about as long, since either
/// waits for the other at times, and they share processors.
fn together(carriage: f64, compute: f64) -> f64 {
    let (long, short) = (carriage.max(compute), carriage.min(compute));
    if long <= 0.0 {
        return 0.0;
    }
    long * (1.0 + (short / long).powf(OVERLAP)).powf(1.0 / OVERLAP)
}

impl Terms {
    pub(crate) fn of(law: &Law, shape: &Shape, point: &Point, workload: &Workload) -> Self {
        let parts = workload.parts();
        let (to_evaluator, to_garbler) = match parts.garbler {
            End::Connector => (0, 1),
            End::Listener => (1, 0),
        };
        let carry = |direction: usize, bytes: u64| {
            law::carry(law, shape, &point.conditions(direction), bytes as f64)
        };
        let mut tables = carry(to_evaluator, parts.garbler_bytes);
        let is_burst = law.connections > 1.0
            && parts.garbler_bytes as f64 > law.connections * shape.initial_window;
        if is_burst && point.is_queue_unseen[to_evaluator] {
            tables.growth += BURST_RISK * law::TIMEOUT_S;
        }
        let requests = carry(to_garbler, parts.evaluator_bytes);
        let first = workload.first_table();
        let waiting = (workload.round_trips() - first).max(0.0) * point.rtt;
        // Answers wait for the requests, and then go at the rate that the tables have come to.
        let late = match parts.garbler_bytes {
            0 => 0.0,
            all => tables.transfer * (parts.garbler_late_bytes as f64 / all as f64),
        };
        let chain = |waiting: f64, late: f64, carriage: Carriage| Chain {
            waiting,
            transfer: carriage.transfer + late,
            growth: carriage.growth,
            loss: carriage.loss,
            bound: carriage.bound,
        };
        let chains = [chain(0.0, 0.0, tables), chain(waiting, late, requests)];
        // Each connection has a packet each way that starts it, and about three more of TLS.
        let kept = (1.0 - point.loss[0]) * (1.0 - point.loss[1]);
        let not_all = |packets: f64| 1.0 - kept.powf(packets / 2.0 * law.connections);
        // What does not fit into the queue is lost, and delays nothing.
        let train = [0, 1].map(|direction| {
            let path = point.conditions(direction);
            law.train_bytes.min(path.queue) * 8.0 / path.rate
        });
        let setup = law.setup_round_trips * point.rtt + train[0].max(train[1]);
        let setup = delayed(setup, FIRST_TIMEOUT_S, not_all(2.0));
        let setup = delayed(setup, law::TIMEOUT_S + 2.0 * point.rtt, not_all(3.0));
        let packets = |bytes: u64, loss: f64| bytes as f64 / 1448.0 * loss;
        let losses = packets(parts.garbler_bytes, point.loss[to_evaluator])
            + packets(parts.evaluator_bytes, point.loss[to_garbler]);
        Self {
            setup,
            rounds: first * point.rtt,
            serial: parts.serial_s,
            chains,
            compute: parts.garble_s.max(parts.evaluate_s),
            lossiness: -(-losses).exp_m1(),
        }
    }

    /// Returns the time until the link is up, and from there on.
    pub(crate) fn seconds(&self, factors: &Factors) -> [f64; 2] {
        let carriage = self.chain(factors).seconds(factors);
        let compute = factors.compute * self.compute;
        [
            factors.fixed_s + factors.setup * self.setup,
            factors.rounds * self.rounds
                + factors.compute * self.serial
                + together(carriage, compute),
        ]
    }

    /// Returns the chain that takes longer.
    pub(crate) fn chain(&self, factors: &Factors) -> &Chain {
        let [tables, labels] = &self.chains;
        match labels.seconds(factors) > tables.seconds(factors) {
            true => labels,
            false => tables,
        }
    }

    /// Returns what a second more of carrying and of computing adds to the time of both together.
    pub(crate) fn slopes(&self, factors: &Factors) -> [f64; 2] {
        let carriage = self.chain(factors).seconds(factors);
        let compute = factors.compute * self.compute;
        let both = together(carriage, compute);
        // Of a homogeneous function: times and slopes multiplied sum up to the whole.
        [carriage, compute].map(|one| match both > 0.0 {
            true => (one / both).powf(OVERLAP - 1.0),
            false => 0.0,
        })
    }

    /// Returns what bounds the rate in the direction that decides.
    pub(crate) fn bound(&self, factors: &Factors) -> Bound {
        self.chain(factors).bound
    }

    /// Returns the parts of the time.
    pub(crate) fn split(&self, factors: &Factors) -> TimeParts {
        let chain = self.chain(factors);
        let compute = factors.compute * self.compute;
        TimeParts {
            setup_s: factors.fixed_s + factors.setup * self.setup,
            rounds_s: factors.rounds * (self.rounds + chain.waiting),
            growth_s: factors.growth * chain.growth,
            transfer_s: factors.carriage * chain.transfer,
            loss_s: factors.loss * chain.loss,
            compute_s: factors.compute * self.serial
                + (together(chain.seconds(factors), compute) - chain.seconds(factors)).max(0.0),
        }
    }
}
