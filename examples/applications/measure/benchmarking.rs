//! The page of private benchmarking: seconds by number of companies and delay, compared with the
//! paper.

use std::error::Error;

use crate::records::{Record, Table, cell, groups, median, of, said_by_a, said_by_b, text, value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The largest values in the paper: companies, and one-way delay in milliseconds.
const LARGEST: (f64, f64) = (45.0, 100.0);

/// The paper's statements about its Figures 4 and 6 (section 3). The figures themselves are plots
/// without numbers.
struct Published {
    order: &'static str,
    figure: &'static str,
    /// The part of the running time that communication takes, in percent, for the values in
    /// [`LARGEST`].
    at_largest: &'static str,
    /// The same part as an average over 5 to 45 companies, in percent.
    on_average: &'static str,
}

const PUBLISHED: [Published; 2] = [
    Published {
        order: "sequential",
        figure: "Figure 4",
        at_largest: "45",
        on_average: "54",
    },
    Published {
        order: "concurrent",
        figure: "Figure 6",
        at_largest: "6",
        on_average: "14",
    },
];

/// Renders the tables of all experiments.
pub(super) fn render(records: &[Record]) -> Outcome<String> {
    let mut page = String::from(
        "n companies learn average, variance, median, maximum and best in class of a figure; \
         [the example](../../../examples/applications/benchmarking/README.md) describes the protocol. The paper is Kerschbaum and \
         others: *On the Practical Importance of Communication Complexity for Secure Multi-Party \
         Computation Protocols* (SAC 2009), whose central server and clients ran on two machines with one-way delays of 0 to 100 ms \
         between them. Delays here are one way too. Times are from the first connection of a company until the \
         last company has its results, including connecting and encryption, as medians of the runs. The results of each run were \
         compared with a plain computation.\n\n",
    );
    for part in [
        beside_the_paper(records)?,
        by_delay(records, "concurrent", "Seconds, all companies at once")?,
        by_delay(
            records,
            "sequential",
            "Seconds, one company after the other",
        )?,
        shares(records)?,
        by_delay(records, "transports", "Seconds, companies over quic")?,
        by_delay(records, "apart", "Seconds, the servers on opposite sides")?,
        many(records)?,
        computation(records)?,
    ] {
        page.push_str(&part);
        page.push('\n');
    }
    Ok(page)
}

fn companies(record: &Record) -> Outcome<f64> {
    value(record, "n")
}

/// Returns the one-way delay in milliseconds, as in the paper.
fn delay(record: &Record) -> f64 {
    record.scenario.rtt_ms() / 2.0
}

fn elapsed_s(record: &Record) -> Outcome<f64> {
    Ok(said_by_b(record, "/elapsed_ms")? / 1e3)
}

fn section(title: &str, text: &str, table: &Table) -> String {
    format!("## {title}\n\n{text}\n\n{}", table.markdown())
}

/// Renders the paper's statements and the measurements.
fn beside_the_paper(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new("", ["45 companies, 100 ms", "paper", "here"]);
    for published in &PUBLISHED {
        let largest: Vec<&Record> = (of(records, published.order).into_iter())
            .filter(|record| {
                companies(record).is_ok_and(|n| n == LARGEST.0) && delay(record) == LARGEST.1
            })
            .collect();
        table.push([
            format!("seconds, {} ({})", published.order, published.figure),
            // The paper's text has one number for both orders of uploads. It has no other numbers.
            "up to 15 minutes".to_owned(),
            cell(&largest, elapsed_s)?,
        ]);
        if published.order == "concurrent" {
            let slower = |record: &Record| {
                Ok(1e3 * said_by_b(record, "/elapsed_ms")? / said_by_b(record, "/plain_us")?)
            };
            table.push([
                "times as long as a plain computation".to_owned(),
                "60,000".to_owned(),
                cell(&largest, slower)?,
            ]);
        }
    }
    Ok(section(
        "Comparison with the paper",
        "The paper's 15 minutes are for its computation with 45 companies, and its 60,000 is the stated ratio to 15 ms of \
         a plain computation in Java; a plain computation here takes microseconds.",
        &table,
    ))
}

/// Renders the times by number of companies and delay.
fn by_delay(records: &[Record], experiment: &str, title: &str) -> Outcome<String> {
    let records = of(records, experiment);
    let delays = delays(&records)?;
    let headers: Vec<String> = (delays.iter().map(|delay| format!("{delay} ms"))).collect();
    let headers = ["companies"]
        .into_iter()
        .chain(headers.iter().map(String::as_str));
    let mut table = Table::new("", headers);
    for (n, records) in groups(records.iter().copied(), companies)? {
        let mut line = vec![format!("{n}")];
        for &at in &delays {
            let records: Vec<&Record> = records
                .iter()
                .copied()
                .filter(|record| delay(record) == at)
                .collect();
            line.push(cell(&records, elapsed_s)?);
        }
        table.push(line);
    }
    let text = match experiment {
        "concurrent" => {
            "The paper's Figure 6. Both servers are on one side, the companies on the other."
        }
        "sequential" => {
            "The paper's Figure 4. Each company connects when both servers have acknowledged the upload of the one before. (In the \
             paper each of five rounds goes through the companies in turn; here there is one.)"
        }
        "transports" => {
            "Like the first of these tables, which is over tcp: quic saves a round trip."
        }
        _ => {
            "The evaluator's server and the companies are on one side, the garbler's server on the other. The evaluator's starts when the \
             companies do, so the times include connecting the servers and sending the tables."
        }
    };
    Ok(section(title, text, &table))
}

fn delays(records: &[&Record]) -> Outcome<Vec<f64>> {
    let groups = groups(records.iter().copied(), |record| Ok(delay(record)))?;
    Ok(groups.into_iter().map(|(delay, _)| delay).collect())
}

/// Renders the part of the running time that the delay of the path causes.
fn shares(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "companies upload",
            "at 45 and 100 ms: paper",
            "here",
            "on average at 100 ms: paper",
            "here",
        ],
    );
    for published in &PUBLISHED {
        let mut shares = Vec::new();
        let mut at_largest = None;
        for (n, records) in groups(of(records, published.order), companies)? {
            let at = |wanted: f64| {
                let records = records
                    .iter()
                    .copied()
                    .filter(|record| delay(record) == wanted);
                median(&records.collect::<Vec<_>>(), elapsed_s)
            };
            let (Some(near), Some(far)) = (at(0.0)?, at(LARGEST.1)?) else {
                continue;
            };
            let share = 100.0 * (far - near) / far;
            shares.push(share);
            if n == LARGEST.0 {
                at_largest = Some(share);
            }
        }
        let percent =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.0} %"));
        let average = shares.iter().sum::<f64>() / shares.len() as f64;
        table.push([
            published.order.to_owned(),
            format!("{} %", published.at_largest),
            percent(at_largest),
            format!("{} %", published.on_average),
            percent((!shares.is_empty()).then_some(average)),
        ]);
    }
    Ok(section(
        "Share of the path",
        "The share of the time that a delay of 100 ms adds. From its small share with concurrent clients, the paper \
         concluded that computation dominates, not the network. If the share is large, the number of \
         round trips dominates.",
        &table,
    ))
}

/// Renders the times of rounds with a thousand companies.
fn many(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "companies",
            "delay (ms)",
            "uploads (s)",
            "all (s)",
            "from inputs to output (ms)",
        ],
    );
    let key = |record: &Record| Ok((companies(record)?, delay(record)));
    for ((n, delay), records) in groups(of(records, "thousand"), key)? {
        table.push([
            format!("{n}"),
            format!("{delay}"),
            cell(&records, |record| {
                Ok(said_by_b(record, "/uploaded_ms")? / 1e3)
            })?,
            cell(&records, elapsed_s)?,
            cell(&records, |record| said_by_a(record, "/computing_ms"))?,
        ]);
    }
    Ok(section(
        "A thousand companies",
        "All companies run in one process, with two encrypted connections each. It shares the processors with both servers, and most of \
         the time is spent on handshakes.",
        &table,
    ))
}

/// Renders the costs of the servers' computation.
fn computation(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "companies",
            "AND gates",
            "bytes between the servers",
            "from inputs to output (ms)",
            "transport",
        ],
    );
    let records = records
        .iter()
        .filter(|record| ["concurrent", "thousand"].contains(&record.experiment.as_str()));
    for (n, records) in groups(records, companies)? {
        let is_at =
            |record: &&Record| text(record, "order").is_ok_and(|order| order == "concurrent");
        let records: Vec<&Record> = records.into_iter().filter(is_at).collect();
        let transport = records.iter().find_map(|record| {
            let said = record.said.a.as_ref()?.pointer("/transport")?;
            Some(said.as_str()?.to_owned())
        });
        let whole = |pointer: &'static str| -> Outcome<String> {
            let median = median(&records, |record| said_by_a(record, pointer))?;
            Ok(median.map_or("-".to_owned(), |value| format!("{value:.0}")))
        };
        table.push([
            format!("{n}"),
            whole("/and_gates")?,
            whole("/computing_bytes")?,
            cell(&records, |record| said_by_a(record, "/computing_ms"))?,
            transport.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    Ok(section(
        "Computation of the servers",
        "As reported by the evaluator's server. Tables are sent before the figures arrive, so the time from inputs to output is that of evaluation and \
         one round trip between the servers.",
        &table,
    ))
}
