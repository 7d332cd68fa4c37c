//! Measurement of the losses of a set-up and a first flight on a slow path with a short queue,
//! compared with the `quic` transport.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use transpute_netem::lab::View;

use super::{
    figures::{head, list, median, repetitions, row, warn_of_overruns},
    party::{Orders, Parties, nanoseconds},
    start,
};

const RTT_MS: [f64; 2] = [20.0, 110.0];
/// Number of bytes of a transfer, more than the path carries in the first flight.
const BYTES: u64 = 1_000_000;
const RATE_MBIT: f64 = 10.0;
const QUEUE_BYTES: u64 = 32_000;

/// Pause between two readings of the emulator's counters.
const PAUSE: Duration = Duration::from_millis(1);

/// Packets that a run lost to full queues, and its duration.
struct Run {
    /// Packets to the listener, until one round trip after the connector's link was established,
    /// without train packets.
    to_listener: f64,
    /// Packets to the connector in the same time, without train packets.
    to_connector: f64,
    /// Lost train packets of the set-up, in both directions.
    trains: f64,
    /// Sent train packets of the set-up, in both directions.
    sent_trains: f64,
    /// All packets of the run.
    total: f64,
    /// Seconds from the first packet to the last byte.
    arrived: f64,
}

/// Measures both transports on every path, and prints a row for each.
pub(crate) fn measure() {
    let repetitions = repetitions();
    println!(
        "{BYTES} bytes over {RATE_MBIT} Mbit/s with a queue of {QUEUE_BYTES} bytes, medians of {repetitions} runs.\n\
         Lost packets are those that find a queue full. \"Early\": set-up and first flight, until one RTT after the link is\n\
         up, without the trains of rudp's set-up. A train that leaves when the set-up is over cannot be told from other\n\
         packets: where fewer than 64 were sent, the rest is of the listener and counts as early, to the connector.\n\
         Early, rudp may not lose more than quic.\n"
    );
    head(&[
        "RTT (ms)",
        "transport",
        "lost early",
        "x quic",
        "to the listener",
        "to the connector",
        "of trains",
        "trains sent",
        "in the whole run",
        "last byte (s)",
    ]);
    for &rtt_ms in &list("RTT", &RTT_MS) {
        let [quic, rudp] = ["quic", "rudp"].map(|transport| {
            let runs: Vec<_> = (0..repetitions)
                .map(|repetition| run(transport, rtt_ms, repetition))
                .collect();
            (transport, runs)
        });
        let lost = |runs: &[Run]| median(runs.iter().map(|run| run.to_listener + run.to_connector));
        for (transport, runs) in [&quic, &rudp] {
            let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure)).to_string();
            row(&[
                rtt_ms.to_string(),
                (*transport).to_owned(),
                lost(runs).to_string(),
                match lost(&quic.1) {
                    0.0 => "-".to_owned(),
                    limit => format!("{:.2}", lost(runs) / limit),
                },
                of(|run| run.to_listener),
                of(|run| run.to_connector),
                of(|run| run.trains),
                of(|run| run.sent_trains),
                of(|run| run.total),
                format!("{:.3}", median(runs.iter().map(|run| run.arrived))),
            ]);
        }
    }
}

fn run(transport: &str, rtt_ms: f64, repetition: u32) -> Run {
    let path = format!("rtt_ms = {rtt_ms}\nrate_mbit = {RATE_MBIT:?}\nqueue_bytes = {QUEUE_BYTES}");
    let mut lab = start(&path, repetition);
    let view = lab.view();
    let orders = Orders {
        transport,
        bytes: BYTES,
        marks: &[],
        counts_trains: true,
    };
    let (said, losses) = thread::scope(|scope| {
        let parties = scope.spawn(|| {
            let mut parties = Parties::start(&lab, &orders);
            let arrived = parties.listener.wait_for("arrived");
            (arrived, parties.connector.wait_for("sent"))
        });
        let losses = watch(&view, || parties.is_finished());
        (parties.join().unwrap(), losses)
    });
    let ([arrived, listener_sent, listener_got], [linked, connector_sent, connector_got]) = said;
    let first = nanoseconds(lab.party_traffic().first_packet.unwrap());
    warn_of_overruns(&mut lab);
    // Train packets of the two directions that were lost in a queue.
    let trains: [u64; 2] = [connector_sent - listener_got, listener_sent - connector_got];
    // A packet that finds the queue full is counted when it is sent.
    let end = linked + (rtt_ms * 1e6) as u64;
    let early = losses.partition_point(|(time, _)| *time <= end);
    let lost = |count: usize| count.checked_sub(1).map_or([0; 2], |last| losses[last].1);
    let [up, down] = lost(early);
    Run {
        to_listener: up as f64 - trains[0] as f64,
        to_connector: down as f64 - trains[1] as f64,
        trains: (trains[0] + trains[1]) as f64,
        sent_trains: (connector_sent + listener_sent) as f64,
        total: lost(losses.len()).iter().sum::<u64>() as f64,
        arrived: (arrived - first) as f64 / 1e9,
    }
}

/// Samples the number of packets that found the queues full, up and down, until the run is over.
/// Returns the times at which they grew, in order.
fn watch(view: &View, is_over: impl Fn() -> bool) -> Vec<(u64, [u64; 2])> {
    let mut losses: Vec<(u64, [u64; 2])> = Vec::new();
    loop {
        let is_last = is_over();
        // The time of a loss is at most one pause too late.
        let time = nanoseconds(SystemTime::now());
        let lost = view.counters().map(|way| way.overflowed_packets);
        if losses.last().map_or([0; 2], |last| last.1) != lost {
            losses.push((time, lost));
        }
        if is_last {
            return losses;
        }
        thread::sleep(PAUSE);
    }
}
