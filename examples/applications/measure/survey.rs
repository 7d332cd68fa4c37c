//! The page of the survey: histograms compared with Table 17 of rebane-2012, frequent itemsets with
//! its Table 14.

use std::error::Error;

use transpute_testbed::report::number;

use crate::records::{Record, Table, cell, groups, median, of, said_by_a, said_by_b, text, used};

/// A row of Table 17.
struct Published {
    /// The prefix of the names of our experiments that correspond to the row.
    variant: &'static str,
    /// Number of bits of an answer in our experiment: 5 choices, or numbers below 256. The answers
    /// in the paper have 32 bits.
    bits: u32,
    protocol: &'static str,
    /// Upper bound of the time, in seconds.
    seconds: f64,
    megabytes: f64,
    /// Cost of the traffic in USD, at 0.1 and at 0.2 USD per gigabyte.
    dollars: &'static str,
}

const TABLE_17: [Published; 2] = [
    Published {
        variant: "equality",
        bits: 3,
        protocol: "Equal",
        seconds: 60.0,
        megabytes: 35.5,
        dollars: "0.0036 to 0.0071",
    },
    Published {
        variant: "range",
        bits: 8,
        protocol: "ShiftR",
        seconds: 240.0,
        megabytes: 173.6,
        dollars: "0.0174 to 0.0347",
    },
];

/// Number of transactions in the data of Table 14.
const TRANSACTIONS: f64 = 8124.0;

/// Number of supports compared with the threshold in Table 14: 91 vectors of 100, one of 25, one of
/// 1.
const CANDIDATES: f64 = 91.0 * 100.0 + 25.0 + 1.0;

/// Seconds of the whole algorithm, including database queries (section 6.6).
const ALGORITHM_S: f64 = 137.415;

/// Prices of traffic, in USD per gigabyte.
const PRICES: [f64; 2] = [0.1, 0.2];

const MEGA: f64 = 1e6;

/// Renders the tables.
pub(super) fn render(records: &[Record]) -> Result<String, Box<dyn Error>> {
    let (histograms, plans) = histograms(records)?;
    Ok(format!(
        "## A histogram for each of 20 questions, 5,000 answers\n\n\
         Two servers with XOR shares of the answers; *equality* counts each of 5 choices, *range* the numbers of 8 bits \
         in 5 ranges. Rows with the name of a protocol are what Table 17 of rebane-2012 estimates for three parties, which \
         compare numbers of 32 bits in both variants: *bits* is the length of what is compared. *Seconds* are from both servers being connected to the histograms; \
         *program* is from its start, reading of shares and compiling included. *MB* are on the wire, headers and \
         all, both ways together; *USD* are for them at 0.1 and 0.2 for a gigabyte. Medians.\n\n{}\n\n\
         ## Beside what `transpute plan` predicted\n\n\
         By `transpute plan --workload`, which is told the circuit and the path and has never seen a run of the survey. \
         *Time* is from the first packet, connecting included.\n\n{}\n\n\
         ## Frequent itemsets\n\n\
         Apriori on made-up transactions: whether a set is frequent is opened, its support is not. The row of Table 14 is \
         of as many transactions, on the authors' cluster: {} candidates were compared with the threshold, in {} s with \
         database queries.\n\n{}\n",
        histograms.markdown().trim_end(),
        plans.markdown().trim_end(),
        number(CANDIDATES),
        number(ALGORITHM_S),
        itemsets(records)?.markdown().trim_end(),
    ))
}

fn histograms(records: &[Record]) -> Result<(Table, Table), Box<dyn Error>> {
    let mut table = Table::new(
        "Histograms",
        [
            "variant",
            "bits",
            "path",
            "transport",
            "AND gates",
            "seconds",
            "program",
            "MB",
            "USD",
        ],
    );
    let mut plans = Table::new(
        "Plans",
        [
            "variant",
            "path",
            "predicted (s)",
            "from",
            "to",
            "time (s)",
            "predicted (MB)",
            "traffic (MB)",
            "off (%)",
        ],
    );
    for published in &TABLE_17 {
        let variant = published.variant;
        let of_variant = records
            .iter()
            .filter(|record| record.experiment.starts_with(variant));
        let key = |record: &Record| Ok((record.scenario.name.clone(), text(record, "transport")?));
        for ((path, _), records) in groups(of_variant, key)? {
            let taken = used(&records);
            let dollars = match median(&records, |record| Ok(wire(record)))? {
                Some(bytes) => PRICES
                    .map(|price| format!("{:.4}", bytes / 1e9 * price))
                    .join(" to "),
                None => "-".to_owned(),
            };
            table.push([
                variant.to_owned(),
                published.bits.to_string(),
                path.clone(),
                taken,
                cell(&records, |record| said_by_b(record, "/and_gates"))?,
                cell(&records, |record| said_by_b(record, "/seconds"))?,
                cell(&records, |record| said_by_b(record, "/total_s"))?,
                cell(&records, |record| Ok(wire(record) / MEGA))?,
                dollars,
            ]);
            let time = |record: &Record| {
                Ok(said_by_b(record, "/total_s")? - said_by_b(record, "/prepare_s")?)
            };
            plans.push([
                variant.to_owned(),
                path,
                cell(&records, |record| said_by_a(record, "/seconds"))?,
                cell(&records, |record| said_by_a(record, "/interval_s/0"))?,
                cell(&records, |record| said_by_a(record, "/interval_s/1"))?,
                cell(&records, time)?,
                cell(&records, |record| Ok(planned(record)? / MEGA))?,
                cell(&records, |record| Ok(wire(record) / MEGA))?,
                cell(&records, |record| {
                    Ok((wire(record) / planned(record)? - 1.0) * 100.0)
                })?,
            ]);
        }
        table.push([
            published.protocol.to_owned(),
            "32".to_owned(),
            "Table 17".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            format!("< {}", published.seconds),
            "-".to_owned(),
            published.megabytes.to_string(),
            published.dollars.to_owned(),
        ]);
    }
    Ok((table, plans))
}

/// Returns the bytes on the wire, both directions.
fn wire(record: &Record) -> f64 {
    record.party_bytes.iter().map(|&bytes| bytes as f64).sum()
}

/// Returns the predicted bytes, both directions.
fn planned(record: &Record) -> Result<f64, Box<dyn Error>> {
    Ok(said_by_a(record, "/garbler_bytes")? + said_by_a(record, "/evaluator_bytes")?)
}

fn itemsets(records: &[Record]) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "Itemsets",
        [
            "transactions",
            "path",
            "transport",
            "candidates",
            "frequent",
            "million AND",
            "MB",
            "seconds",
            "ms for a candidate",
        ],
    );
    let key = |record: &Record| Ok((record.scenario.name.clone(), text(record, "transport")?));
    for ((path, _), records) in groups(of(records, "itemsets"), key)? {
        let frequent = |record: &Record| -> Result<f64, Box<dyn Error>> {
            let found = record
                .said
                .b
                .as_ref()
                .and_then(|said| said.get("frequent")?.as_array());
            Ok(found.ok_or("side B printed no frequent sets")?.len() as f64)
        };
        let of_candidate = |record: &Record| {
            Ok(said_by_b(record, "/seconds")? * 1e3 / said_by_b(record, "/candidates")?)
        };
        table.push([
            cell(&records, |record| said_by_b(record, "/transactions"))?,
            path,
            used(&records),
            cell(&records, |record| said_by_b(record, "/candidates"))?,
            cell(&records, frequent)?,
            cell(&records, |record| {
                Ok(said_by_b(record, "/and_gates")? / MEGA)
            })?,
            cell(&records, |record| Ok(wire(record) / MEGA))?,
            cell(&records, |record| said_by_b(record, "/seconds"))?,
            cell(&records, of_candidate)?,
        ]);
    }
    table.push([
        number(TRANSACTIONS),
        "Table 14".to_owned(),
        "-".to_owned(),
        number(CANDIDATES),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        number(ALGORITHM_S),
        number(ALGORITHM_S * 1e3 / CANDIDATES),
    ]);
    Ok(table)
}
