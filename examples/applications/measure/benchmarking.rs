//! Private benchmarking: seconds by number of companies and delay, beside what the paper says of its own.

use std::error::Error;

use crate::rows::{Row, Table, cell, groups, median, of, said_by_a, said_by_b, text, value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the paper's conditions are at their largest: companies, and the delay one way in milliseconds.
const LARGEST: (f64, f64) = (45.0, 100.0);

/// What the paper states in words of its Figures 4 and 6 (section 3); the figures themselves are plots.
struct Published {
    order: &'static str,
    figure: &'static str,
    /// Percent of the running time that went into communication, at the largest.
    at_largest: &'static str,
    /// The same on average over 5 to 45 companies.
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

/// Tables of all experiments.
pub(super) fn render(rows: &[Row]) -> Outcome<String> {
    let mut page = String::from(
        "n companies learn average, variance, median, maximum and best in class of a figure; \
         [the example](../../../examples/applications/benchmarking/README.md) tells how. The paper is Kerschbaum and \
         others: *On the Practical Importance of Communication Complexity for Secure Multi-Party \
         Computation Protocols* (SAC 2009), whose central server and clients stood on two machines with 0 to 100 ms \
         between them, one way. So are delays here. Times are from the first connection of a company until the \
         last company has its results, connecting and encryption included, as medians of the runs; each run's results were \
         compared with a plain computation.\n\n",
    );
    for part in [
        beside_the_paper(rows)?,
        by_delay(rows, "concurrent", "Seconds, all companies at once")?,
        by_delay(rows, "sequential", "Seconds, one company after the other")?,
        shares(rows)?,
        by_delay(rows, "transports", "Seconds, companies over quic")?,
        by_delay(rows, "apart", "Seconds, the servers on opposite sides")?,
        many(rows)?,
        computation(rows)?,
    ] {
        page.push_str(&part);
        page.push('\n');
    }
    Ok(page)
}

fn companies(row: &Row) -> Outcome<f64> {
    value(row, "n")
}

/// Milliseconds one way, as the paper counts.
fn delay(row: &Row) -> f64 {
    row.scenario.rtt_ms() / 2.0
}

fn elapsed_s(row: &Row) -> Outcome<f64> {
    Ok(said_by_b(row, "/elapsed_ms")? / 1e3)
}

fn section(title: &str, text: &str, table: &Table) -> String {
    format!("## {title}\n\n{text}\n\n{}", table.markdown())
}

/// The paper's words beside ours.
fn beside_the_paper(rows: &[Row]) -> Outcome<String> {
    let mut table = Table::new("", ["45 companies, 100 ms", "paper", "here"]);
    for published in &PUBLISHED {
        let largest: Vec<&Row> = (of(rows, published.order).into_iter())
            .filter(|row| companies(row).is_ok_and(|n| n == LARGEST.0) && delay(row) == LARGEST.1)
            .collect();
        table.push([
            format!("seconds, {} ({})", published.order, published.figure),
            // The text gives one figure for both, and their plots have the rest.
            "up to 15 minutes".to_owned(),
            cell(&largest, elapsed_s)?,
        ]);
        if published.order == "concurrent" {
            let slower =
                |row: &Row| Ok(1e3 * said_by_b(row, "/elapsed_ms")? / said_by_b(row, "/plain_us")?);
            table.push([
                "times as long as a plain computation".to_owned(),
                "60,000".to_owned(),
                cell(&largest, slower)?,
            ]);
        }
    }
    Ok(section(
        "Beside the paper",
        "The paper's 15 minutes are those of its computation for 45 companies, and its 60,000 the ratio that it states to 15 ms of \
         a plain computation in Java; a plain computation here takes microseconds.",
        &table,
    ))
}

/// Companies down, delays across.
fn by_delay(rows: &[Row], experiment: &str, title: &str) -> Outcome<String> {
    let rows = of(rows, experiment);
    let delays = delays(&rows)?;
    let headers: Vec<String> = (delays.iter().map(|delay| format!("{delay} ms"))).collect();
    let headers = ["companies"]
        .into_iter()
        .chain(headers.iter().map(String::as_str));
    let mut table = Table::new("", headers);
    for (n, rows) in groups(rows.iter().copied(), companies)? {
        let mut line = vec![format!("{n}")];
        for &at in &delays {
            let rows: Vec<&Row> = rows
                .iter()
                .copied()
                .filter(|row| delay(row) == at)
                .collect();
            line.push(cell(&rows, elapsed_s)?);
        }
        table.push(line);
    }
    let text = match experiment {
        "concurrent" => {
            "The paper's Figure 6. Both servers stand on one side, the companies on the other."
        }
        "sequential" => {
            "The paper's Figure 4. Each company connects when both servers have acknowledged the upload of the one before. (In the \
             paper each of five rounds goes through the companies in turn; here there is one.)"
        }
        "transports" => "As the first of these tables, which is over tcp: quic saves a round trip.",
        _ => {
            "The evaluator's server and the companies on one side, the garbler's on the other. The evaluator's starts when the \
             companies do, so connecting the servers and sending the tables is in it too."
        }
    };
    Ok(section(title, text, &table))
}

fn delays(rows: &[&Row]) -> Outcome<Vec<f64>> {
    let groups = groups(rows.iter().copied(), |row| Ok(delay(row)))?;
    Ok(groups.into_iter().map(|(delay, _)| delay).collect())
}

/// How much of the time the path takes.
fn shares(rows: &[Row]) -> Outcome<String> {
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
        for (n, rows) in groups(of(rows, published.order), companies)? {
            let at = |wanted: f64| {
                let rows = rows.iter().copied().filter(|row| delay(row) == wanted);
                median(&rows.collect::<Vec<_>>(), elapsed_s)
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
        "How much of it is the path",
        "The part of the time that is there with 100 ms and not without. The paper concluded from the small part of it with clients at \
         once that computing decides, and not the network. Where the part is large it is the other way round: what counts is how few \
         round trips there are.",
        &table,
    ))
}

/// A thousand companies.
fn many(rows: &[Row]) -> Outcome<String> {
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
    let key = |row: &Row| Ok((companies(row)?, delay(row)));
    for ((n, delay), rows) in groups(of(rows, "thousand"), key)? {
        table.push([
            format!("{n}"),
            format!("{delay}"),
            cell(&rows, |row| Ok(said_by_b(row, "/uploaded_ms")? / 1e3))?,
            cell(&rows, elapsed_s)?,
            cell(&rows, |row| said_by_a(row, "/computing_ms"))?,
        ]);
    }
    Ok(section(
        "A thousand companies",
        "All are in one program, which makes two encrypted connections for each: it shares its processors with both servers, and most of \
         the time is handshakes.",
        &table,
    ))
}

/// What the servers compute.
fn computation(rows: &[Row]) -> Outcome<String> {
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
    let rows = rows
        .iter()
        .filter(|row| ["concurrent", "thousand"].contains(&row.experiment.as_str()));
    for (n, rows) in groups(rows, companies)? {
        let is_at = |row: &&Row| text(row, "order").is_ok_and(|order| order == "concurrent");
        let rows: Vec<&Row> = rows.into_iter().filter(is_at).collect();
        let transport = rows.iter().find_map(|row| {
            let said = row.said.a.as_ref()?.pointer("/transport")?;
            Some(said.as_str()?.to_owned())
        });
        let whole = |pointer: &'static str| -> Outcome<String> {
            let median = median(&rows, |row| said_by_a(row, pointer))?;
            Ok(median.map_or("-".to_owned(), |value| format!("{value:.0}")))
        };
        table.push([
            format!("{n}"),
            whole("/and_gates")?,
            whole("/computing_bytes")?,
            cell(&rows, |row| said_by_a(row, "/computing_ms"))?,
            transport.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    Ok(section(
        "What the servers compute",
        "As the evaluator's server says. Tables are sent before the figures are there, so from inputs to output there is evaluating, and \
         a round trip between the servers.",
        &table,
    ))
}
