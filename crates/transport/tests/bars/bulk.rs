//! Measurement of large transfers over fast long paths, from the first packet to the last byte.

use super::{
    figures::{head, list, median, repetitions, row, transport, warn_of_overruns},
    party::{Orders, Parties, nanoseconds},
    start,
};

const RTT_MS: [f64; 2] = [110.0, 300.0];
const LOSS_PERCENT: [f64; 4] = [0.0, 0.01, 0.05, 1.0];
/// Transfer sizes in bytes: from the tables of one AES-128 circuit (0.2 MB) to twice the tables of
/// a circuit of a million AND gates.
const BYTES: [u64; 4] = [210_000, 2_770_000, 30_500_000, 69_000_000];
const RATE_MBIT: f64 = 1000.0;

/// Times of a run, in seconds.
struct Run {
    /// Time from the first packet to the connector's link.
    linked: f64,
    /// Time from the first packet to the last byte at the listener.
    arrived: f64,
}

/// Measures every cell, and prints a row for each.
pub(crate) fn measure() {
    let (repetitions, transport) = (repetitions(), transport());
    println!(
        "{transport}, {RATE_MBIT} Mbit/s, a queue of one bandwidth-delay product, medians of {repetitions} runs.\n\
         Limit: 1.5 RTT + bytes / rate. After the link is up: to the last byte, over 0.5 RTT + bytes / rate.\n"
    );
    head(&[
        "RTT (ms)",
        "loss (%)",
        "MB",
        "link up (RTT)",
        "last byte (s)",
        "slowest (s)",
        "limit (s)",
        "x limit",
        "bar",
        "after link up x",
    ]);
    for &rtt_ms in &list("RTT", &RTT_MS) {
        for &bytes in &list("BYTES", &BYTES) {
            for &loss in &list("LOSS", &LOSS_PERCENT) {
                let runs: Vec<_> = (0..repetitions)
                    .map(|repetition| run(&transport, rtt_ms, loss, bytes, repetition))
                    .collect();
                print(rtt_ms, loss, bytes, &runs);
            }
        }
    }
}

fn run(transport: &str, rtt_ms: f64, loss: f64, bytes: u64, repetition: u32) -> Run {
    let path = format!(
        "rtt_ms = {rtt_ms}\nrate_mbit = {RATE_MBIT:?}\nqueue_bdp = 1.0\nloss = {:?}",
        loss / 100.0
    );
    let mut lab = start(&path, repetition);
    let mut parties = Parties::start(
        &lab,
        &Orders {
            transport,
            bytes,
            marks: &[],
            counts_trains: false,
        },
    );
    let [arrived, ..] = parties.listener.wait_for::<3>("arrived");
    let [linked, ..] = parties.connector.wait_for::<3>("sent");
    let first = nanoseconds(lab.party_traffic().first_packet.unwrap());
    warn_of_overruns(&mut lab);
    let seconds = |time: u64| (time - first) as f64 / 1e9;
    Run {
        linked: seconds(linked),
        arrived: seconds(arrived),
    }
}

fn print(rtt_ms: f64, loss: f64, bytes: u64, runs: &[Run]) {
    let rtt = rtt_ms / 1e3;
    let transfer = bytes as f64 * 8.0 / (RATE_MBIT * 1e6);
    let limit = 1.5 * rtt + transfer;
    let arrived = median(runs.iter().map(|run| run.arrived));
    let slowest = runs.iter().map(|run| run.arrived).fold(0.0, f64::max);
    let linked = median(runs.iter().map(|run| run.linked));
    let after = median(runs.iter().map(|run| run.arrived - run.linked));
    // docs/testing.md, "Figures of reliable UDP". The correction of many losses costs bytes.
    let bar = if loss > 0.05 { 1.3 } else { 1.15 };
    row(&[
        format!("{rtt_ms}"),
        format!("{loss}"),
        format!("{:.2}", bytes as f64 / 1e6),
        format!("{:.3}", linked / rtt),
        format!("{arrived:.3}"),
        format!("{slowest:.3}"),
        format!("{limit:.3}"),
        format!("{:.2}", arrived / limit),
        format!("{bar:.2}"),
        format!("{:.2}", after / (0.5 * rtt + transfer)),
    ]);
}
