//! The page of the running average, compared with the text of the paper
//! (maltitz-carle-smc-assessment) on its Figures 3 to 13.

use std::error::Error;

use transpute_testbed::report::number;

use crate::rows::{Row, Table, cell, groups, of, said_by_a, said_by_b, text, used, value};

/// The number of rounds that times and traffic are scaled to.
const ROUNDS: f64 = 1000.0;

const MEBI: f64 = (1 << 20) as f64;

/// Round-trip time between the paper's hosts without added latency, in milliseconds (section V-B).
const BASE_RTT_MS: f64 = 0.18;

/// Returns the paper's time of a computation in milliseconds, by added latency in milliseconds
/// (section VI-C, Figure 6). Without latency, it is the baseline in the text. The regression line
/// of the figure does not pass through this value.
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
pub(super) fn render(rows: &[Row]) -> Result<String, Box<dyn Error>> {
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
        latency(rows)?.markdown().trim_end(),
        loss(rows)?.markdown().trim_end(),
        loss_costs(rows)?.markdown().trim_end(),
        batches(rows, "batch", 0.0)?.markdown().trim_end(),
        batches(rows, "batch-500", 500.0)?.markdown().trim_end(),
        opened(rows)?.markdown().trim_end(),
    ))
}

/// Returns the seconds of all rounds, measured by the server.
fn seconds(row: &Row) -> Result<f64, Box<dyn Error>> {
    said_by_a(row, "/seconds")
}

/// Returns the added latency in milliseconds.
fn added(rtt_ms: f64) -> f64 {
    // Rounded to hundredths, because the values are decimal fractions.
    ((rtt_ms - BASE_RTT_MS) * 100.0).round() / 100.0
}

fn ms_of_round(row: &Row) -> Result<f64, Box<dyn Error>> {
    Ok(seconds(row)? * 1e3 / value(row, "rounds")?)
}

/// Returns the megabytes on the wire of a thousand rounds, both directions.
fn megabytes(row: &Row) -> Result<f64, Box<dyn Error>> {
    let bytes: u64 = row.party_bytes.iter().sum();
    Ok(bytes as f64 / 1e6 * ROUNDS / value(row, "rounds")?)
}

fn latency(rows: &[Row]) -> Result<Table, Box<dyn Error>> {
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
    let both = of(rows, "latency")
        .into_iter()
        .chain(of(rows, "long-latency"));
    for (rtt, rows) in groups(both, |row| Ok(row.scenario.rtt_ms()))? {
        let added = added(rtt);
        table.push([
            number(added),
            rows.first()
                .map_or(Ok(String::new()), |row| text(row, "rounds"))?,
            used(&rows),
            cell(&rows, ms_of_round)?,
            cell(&rows, |row| Ok(ms_of_round(row)? / rtt))?,
            cell(&rows, |row| Ok(ms_of_round(row)? * ROUNDS / 1e3))?,
            number(published_latency(added)),
            number(published_latency(added) * ROUNDS / 1e3),
        ]);
    }
    Ok(table)
}

fn loss(rows: &[Row]) -> Result<Table, Box<dyn Error>> {
    let rows = of(rows, "loss");
    let transports = groups(rows.iter().copied(), |row| text(row, "transport"))?;
    let names = transports.iter().map(|(name, _)| name.as_str());
    let mut table = Table::new(
        "Loss",
        ["loss (%)"].into_iter().chain(names).collect::<Vec<_>>(),
    );
    for (loss, rows) in groups(rows, |row| Ok(row.scenario.up.loss))? {
        let mut line = vec![number(loss * 100.0)];
        for (name, _) in &transports {
            let of_name: Vec<&Row> = (rows.iter().copied())
                .filter(|row| text(row, "transport").is_ok_and(|text| text == *name))
                .collect();
            line.push(cell(&of_name, ms_of_round)?);
        }
        table.push(line);
    }
    Ok(table)
}

fn loss_costs(rows: &[Row]) -> Result<Table, Box<dyn Error>> {
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
    let auto = (of(rows, "loss").into_iter())
        .filter(|row| text(row, "transport").is_ok_and(|text| text == "auto"));
    for (loss, rows) in groups(auto, |row| Ok(row.scenario.up.loss))? {
        table.push([
            number(loss * 100.0),
            used(&rows),
            cell(&rows, megabytes)?,
            cell(&rows, |row| said_by_b(row, "/cpu_s"))?,
            cell(&rows, |row| said_by_a(row, "/cpu_s"))?,
        ]);
    }
    Ok(table)
}

fn batches(rows: &[Row], experiment: &str, added_ms: f64) -> Result<Table, Box<dyn Error>> {
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
    let mut groups = groups(of(rows, experiment), |row| value(row, "batch"))?;
    // Values of the paper without a measurement here get a line of their own.
    for &(added, batch, _) in &PUBLISHED_BATCHES {
        if added == added_ms && !groups.iter().any(|(known, _)| *known == batch) {
            groups.push((batch, Vec::new()));
        }
    }
    groups.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (batch, rows) in groups {
        let theirs = PUBLISHED_BATCHES
            .iter()
            .find(|(added, known, _)| (*added, *known) == (added_ms, batch));
        let memory = |bytes: f64| bytes / MEBI;
        table.push([
            batch.to_string(),
            cell(&rows, seconds)?,
            theirs.map_or("-".to_owned(), |(.., seconds)| number(*seconds)),
            cell(&rows, megabytes)?,
            cell(&rows, |row| said_by_b(row, "/cpu_s"))?,
            cell(&rows, |row| said_by_a(row, "/cpu_s"))?,
            cell(&rows, |row| {
                said_by_b(row, "/peak_resident_bytes").map(memory)
            })?,
            cell(&rows, |row| {
                said_by_a(row, "/peak_resident_bytes").map(memory)
            })?,
        ]);
    }
    Ok(table)
}

fn opened(rows: &[Row]) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Opened",
        ["added (ms)", "sums opened", "AND gates", "MB", "seconds"],
    );
    let key = |row: &Row| Ok((row.scenario.rtt_ms(), text(row, "opened")?));
    for ((rtt, opened), rows) in groups(of(rows, "opened"), key)? {
        table.push([
            number(added(rtt)),
            format!("each {opened}"),
            cell(&rows, |row| said_by_a(row, "/and_gates"))?,
            cell(&rows, megabytes)?,
            cell(&rows, seconds)?,
        ]);
    }
    Ok(table)
}
