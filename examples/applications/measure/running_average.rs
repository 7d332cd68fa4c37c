//! The page of the running average, compared with the text of the paper
//! (maltitz-carle-smc-assessment) on its Figures 3 to 13.

use std::error::Error;

use transpute_testbed::report::number;

use crate::records::{Record, Table, cell, groups, of, said_by_a, said_by_b, text, used, value};

/// The number of rounds that times and traffic are scaled to.
const ROUNDS: f64 = 1000.0;

const MEBI: f64 = (1 << 20) as f64;

/// Round-trip time between the paper's hosts without added latency, in milliseconds (section V-B).
const BASE_RTT_MS: f64 = 0.18;

/// Returns the paper's time of a computation for an added latency, both in milliseconds (section
/// VI-C, Figure 6). It follows from the regression line of the figure. Without latency, it is the
/// baseline in the text, because the line does not pass through this value.
fn published_latency(added_ms: f64) -> f64 {
    if added_ms == 0.0 {
        return 5.35;
    }
    47.327 + 4.61851 * added_ms
}

/// The paper's seconds of a thousand parallel computations, by added latency and parallelism
/// (section VI-D, Figures 9 and 10).
const PUBLISHED_BATCHES: [(f64, f64, f64); 4] = [
    (0.0, 1.0, 4.910),
    (0.0, 500.0, 3.631),
    (500.0, 1.0, 2315.0),
    (500.0, 200.0, 435.0),
];

/// Renders the tables.
pub(super) fn render(records: &[Record]) -> Result<String, Box<dyn Error>> {
    Ok(format!(
        "One device and one statistics server, where the paper has two devices and the server (three parties, which \
         is its baseline). A round adds the device's distance to the running sum; the server learns the sum. Times \
         are the server's, from being connected until it knows the last sum. Figures of the paper are those of its text: \
         our copy has the drawings without numbers.\n\n\
         ## One round after the other, against latency (Figure 6)\n\n\
         Added latency is to the round trip of {BASE_RTT_MS} ms, both in milliseconds. *Their line* is the regression line \
         of the paper's text, 47.327 + 4.61851 times the latency, evaluated; at 0 it is the time of the text. The text has one \
         other measured time: 2315 s for 1,000 computations at 500 ms.\n\n{}\n\n\
         ## Against loss (Figures 3, 4 and 7)\n\n\
         Milliseconds for a round, at a round trip of {BASE_RTT_MS} ms. Theirs without loss is 5.35; it becomes up to 110 \
         times as long, and their sessions \"started failing due to timeouts at a packet loss rate of 10%\".\n\n{}\n\n\
         What it costs besides, over the transport that is chosen. Theirs is 5.35 MB per peer in 1,000 computations, and up to \
         0.4 MB more with loss; 16.5 to 21.5 billion processor cycles without, 12.5 with, at 2.5 GHz.\n\n{}\n\n\
         ## A thousand rounds in batches (Figures 9 and 11 to 13)\n\n\
         No latency added. *Processor* is that of a whole process, start and connecting included, *memory* what was \
         resident at most, *MB* are on the wire, both ways together. Their heap is 69 MB, and their traffic 5.7 MB per peer at most.\n\n{}\n\n\
         ## The same at 500 ms (Figure 10)\n\n{}\n\n\
         ## What is opened\n\n\
         Batches of 1,000 rounds: the sum after each of them, as theirs, or after the last only.\n\n{}\n",
        latency(records)?.markdown().trim_end(),
        loss(records)?.markdown().trim_end(),
        loss_costs(records)?.markdown().trim_end(),
        batches(records, "batch", 0.0)?.markdown().trim_end(),
        batches(records, "batch-500", 500.0)?.markdown().trim_end(),
        opened(records)?.markdown().trim_end(),
    ))
}

/// Returns the seconds of all rounds, measured by the server.
fn seconds(record: &Record) -> Result<f64, Box<dyn Error>> {
    said_by_a(record, "/seconds")
}

/// Returns the added latency in milliseconds.
fn added(rtt_ms: f64) -> f64 {
    // Rounding to hundredths removes floating-point errors: added latencies are decimal fractions.
    ((rtt_ms - BASE_RTT_MS) * 100.0).round() / 100.0
}

fn ms_of_round(record: &Record) -> Result<f64, Box<dyn Error>> {
    Ok(seconds(record)? * 1e3 / value(record, "rounds")?)
}

/// Returns the megabytes on the wire of a thousand rounds, both directions.
fn megabytes(record: &Record) -> Result<f64, Box<dyn Error>> {
    let bytes: u64 = record.party_bytes.iter().sum();
    Ok(bytes as f64 / 1e6 * ROUNDS / value(record, "rounds")?)
}

fn latency(records: &[Record]) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Latency",
        [
            "added",
            "rounds run",
            "transport",
            "ms for a round",
            "round trips",
            "s for 1,000",
            "their line (ms)",
            "their line (s)",
        ],
    );
    let both = of(records, "latency")
        .into_iter()
        .chain(of(records, "long-latency"));
    for (rtt, records) in groups(both, |record| Ok(record.scenario.rtt_ms()))? {
        let added = added(rtt);
        table.push([
            number(added),
            records
                .first()
                .map_or(Ok(String::new()), |record| text(record, "rounds"))?,
            used(&records),
            cell(&records, ms_of_round)?,
            cell(&records, |record| Ok(ms_of_round(record)? / rtt))?,
            cell(&records, |record| Ok(ms_of_round(record)? * ROUNDS / 1e3))?,
            number(published_latency(added)),
            number(published_latency(added) * ROUNDS / 1e3),
        ]);
    }
    Ok(table)
}

fn loss(records: &[Record]) -> Result<Table, Box<dyn Error>> {
    let records = of(records, "loss");
    let transports = groups(records.iter().copied(), |record| text(record, "transport"))?;
    let names = transports.iter().map(|(name, _)| name.as_str());
    let mut table = Table::new(
        "Loss",
        ["loss (%)"].into_iter().chain(names).collect::<Vec<_>>(),
    );
    for (loss, records) in groups(records, |record| Ok(record.scenario.up.loss))? {
        let mut line = vec![number(loss * 100.0)];
        for (name, _) in &transports {
            let of_name: Vec<&Record> = (records.iter().copied())
                .filter(|record| text(record, "transport").is_ok_and(|text| text == *name))
                .collect();
            line.push(cell(&of_name, ms_of_round)?);
        }
        table.push(line);
    }
    Ok(table)
}

fn loss_costs(records: &[Record]) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Costs of loss",
        [
            "loss (%)",
            "transport",
            "MB for 1,000",
            "device's processor (s)",
            "server's processor (s)",
        ],
    );
    let auto = (of(records, "loss").into_iter())
        .filter(|record| text(record, "transport").is_ok_and(|text| text == "auto"));
    for (loss, records) in groups(auto, |record| Ok(record.scenario.up.loss))? {
        table.push([
            number(loss * 100.0),
            used(&records),
            cell(&records, megabytes)?,
            cell(&records, |record| said_by_b(record, "/cpu_s"))?,
            cell(&records, |record| said_by_a(record, "/cpu_s"))?,
        ]);
    }
    Ok(table)
}

fn batches(records: &[Record], experiment: &str, added_ms: f64) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Batches",
        [
            "rounds in a batch",
            "seconds",
            "theirs (s)",
            "MB",
            "device's processor (s)",
            "server's processor (s)",
            "device's memory (MiB)",
            "server's memory (MiB)",
        ],
    );
    let mut groups = groups(of(records, experiment), |record| value(record, "batch"))?;
    // A published value gets a separate line if there is no measurement for the same parameters.
    for &(added, batch, _) in &PUBLISHED_BATCHES {
        if added == added_ms && !groups.iter().any(|(known, _)| *known == batch) {
            groups.push((batch, Vec::new()));
        }
    }
    groups.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (batch, records) in groups {
        let theirs = PUBLISHED_BATCHES
            .iter()
            .find(|(added, known, _)| (*added, *known) == (added_ms, batch));
        let memory = |bytes: f64| bytes / MEBI;
        table.push([
            batch.to_string(),
            cell(&records, seconds)?,
            theirs.map_or("-".to_owned(), |(.., seconds)| number(*seconds)),
            cell(&records, megabytes)?,
            cell(&records, |record| said_by_b(record, "/cpu_s"))?,
            cell(&records, |record| said_by_a(record, "/cpu_s"))?,
            cell(&records, |record| {
                said_by_b(record, "/peak_resident_bytes").map(memory)
            })?,
            cell(&records, |record| {
                said_by_a(record, "/peak_resident_bytes").map(memory)
            })?,
        ]);
    }
    Ok(table)
}

fn opened(records: &[Record]) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Opened",
        ["added (ms)", "sums opened", "AND gates", "MB", "seconds"],
    );
    let key = |record: &Record| Ok((record.scenario.rtt_ms(), text(record, "opened")?));
    for ((rtt, opened), records) in groups(of(records, "opened"), key)? {
        table.push([
            number(added(rtt)),
            format!("each {opened}"),
            cell(&records, |record| said_by_a(record, "/and_gates"))?,
            cell(&records, megabytes)?,
            cell(&records, seconds)?,
        ]);
    }
    Ok(table)
}
