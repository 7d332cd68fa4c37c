//! The page of collaborative forecasting: secure division in three ways, compared with the paper's
//! tables.

use std::error::Error;

use crate::records::{Record, Table, cell, groups, median, of, said_by_b, text, value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The widths of Table 3, in bits.
const WIDTHS: [f64; 7] = [8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0];

/// Round-trip time of the internet path, in milliseconds.
const FAR_MS: f64 = 45.0;

/// A part of the paper's Table 3, for large numbers: for each width, the seconds of the party that
/// took longer.
struct Published {
    approach: &'static str,
    /// Both parties on host 1, and both on host 2.
    near: [[Option<f64>; 7]; 2],
    /// Bob on host 1 and Alice on host 2.
    far: [Option<f64>; 7],
}

const fn all(seconds: [f64; 7]) -> [Option<f64>; 7] {
    let [a, b, c, d, e, f, g] = seconds;
    [
        Some(a),
        Some(b),
        Some(c),
        Some(d),
        Some(e),
        Some(f),
        Some(g),
    ]
}

const fn first(a: f64, b: f64, c: f64) -> [Option<f64>; 7] {
    [Some(a), Some(b), Some(c), None, None, None, None]
}

const PUBLISHED: [Published; 3] = [
    Published {
        approach: "circuit",
        near: [first(2.20, 3.50, 6.94), first(2.19, 3.80, 7.05)],
        far: first(11.34, 39.84, 113.74),
    },
    Published {
        approach: "fast",
        near: [
            all([1.79, 1.75, 2.11, 2.03, 2.03, 1.99, 2.09]),
            all([2.99, 2.91, 2.87, 3.11, 3.21, 3.15, 3.01]),
        ],
        far: all([3.22, 3.00, 2.93, 2.88, 3.39, 4.09, 3.37]),
    },
    Published {
        approach: "newton",
        near: [
            all([14.35, 17.57, 21.12, 21.00, 24.41, 24.28, 28.87]),
            all([9.59, 11.46, 13.30, 13.28, 15.05, 15.15, 16.85]),
        ],
        far: all([16.90, 20.81, 24.91, 24.94, 28.04, 27.45, 32.38]),
    },
];

/// Renders the tables of all experiments.
pub(super) fn render(records: &[Record]) -> Outcome<String> {
    let mut page = String::from(
        "Two parties divide numbers that they hold additive shares of, and average time series;\n\
         [the example](../../../examples/applications/forecast/README.md) describes the protocols and what each party learns. The\n\
         paper is Blanton: *Empirical Evaluation of Secure Two-Party Computation Models* (CERIAS TR\n\
         2005-58). Its hosts were Power Mac G5 of 2005, its programs in Java, its circuits executed by\n\
         Fairplay, so only orders of magnitude can be compared. All three approaches are\n\
         secure against semi-honest parties only; *fast* leaks what its description states, including the divisor\n\
         if the dividend is 0.\n\n\
         Seconds are from the start of connecting to the quotient, including the TLS handshake, for the party\n\
         that connects, as medians of the runs. Key generation is not included, as in\n\
         the paper. Keys have the paper's 1,024 bits unless the table states another size.\n\n",
    );
    for part in [
        verdict(records)?,
        beside_table_3(records)?,
        figures(records)?,
        connected(records)?,
        transports(records)?,
        signed(records)?,
        key_sizes(records)?,
        averages(records)?,
        gates(records)?,
    ] {
        page.push_str(&part);
        page.push('\n');
    }
    Ok(page)
}

fn section(title: &str, text: &str, table: &Table) -> String {
    format!("## {title}\n\n{text}\n\n{}", table.markdown())
}

fn is_far(record: &Record) -> bool {
    record.scenario.rtt_ms() == FAR_MS
}

fn path(is_far: bool) -> &'static str {
    if is_far { "45 ms" } else { "0.5 ms" }
}

fn total(record: &Record) -> Outcome<f64> {
    said_by_b(record, "/seconds/total")
}

/// Returns the records of a cell of the main experiment.
fn divisions<'a>(
    records: &'a [Record],
    far: bool,
    approach: &str,
    numbers: &str,
    width: f64,
) -> Vec<&'a Record> {
    (of(records, "division").into_iter())
        .filter(|record| {
            is_far(record) == far
                && text(record, "approach").is_ok_and(|found| found == approach)
                && text(record, "numbers").is_ok_and(|found| found == numbers)
                && value(record, "width").is_ok_and(|found| found == width)
        })
        .collect()
}

/// Renders a comparison on the internet path: our circuits and the paper's fastest protocol.
fn verdict(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "bits",
            "circuit, 45 ms (s)",
            "the paper's fastest, 40-45 ms (s)",
            "times",
        ],
    );
    let (mut faster, mut measured) = (0, 0);
    for (index, width) in WIDTHS.into_iter().enumerate() {
        let fastest = (PUBLISHED.iter())
            .filter_map(|published| published.far[index])
            .fold(f64::INFINITY, f64::min);
        let ours = divisions(records, true, "circuit", "large", width);
        let Some(seconds) = median(&ours, total)? else {
            continue;
        };
        measured += 1;
        faster += usize::from(seconds < fastest);
        table.push([
            format!("{width}"),
            cell(&ours, total)?,
            format!("{fastest}"),
            format!("{:.0}", fastest / seconds),
        ]);
    }
    let text = format!(
        "One division of large numbers with a garbled circuit, from the start of connecting, is faster\n\
         than the fastest of the paper's measurements at {faster} of the {measured} widths measured. The\n\
         paper's fastest is always fast division, which leaks. This is over tcp, as the paper's was; the\n\
         default choice of a transport is faster (*By transport*, below)."
    );
    Ok(section("One division over the internet", &text, &table))
}

fn beside_table_3(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "approach", "path", "whose", "8", "16", "24", "32", "48", "64", "128",
        ],
    );
    for published in &PUBLISHED {
        for far in [false, true] {
            let name = |whose: &str| {
                vec![
                    published.approach.to_owned(),
                    path(far).to_owned(),
                    whose.to_owned(),
                ]
            };
            let theirs = |seconds: &[Option<f64>; 7]| {
                let seconds = seconds.iter();
                seconds
                    .map(|known| known.map_or("-".to_owned(), |known| format!("{known:.2}")))
                    .collect::<Vec<_>>()
            };
            if far {
                table.push([name("paper, 40-45 ms"), theirs(&published.far)].concat());
            } else {
                for (host, seconds) in published.near.iter().enumerate() {
                    table.push(
                        [name(&format!("paper, host {}", host + 1)), theirs(seconds)].concat(),
                    );
                }
            }
            let mut line = name("here");
            for width in WIDTHS {
                let records = divisions(records, far, published.approach, "large", width);
                line.push(cell(&records, total)?);
            }
            table.push(line);
        }
    }
    Ok(section(
        "Comparison with Table 3",
        "Seconds for large numbers by width in bits. The paper's are those of the party that took longer;\n\
         its compiler could not build circuits for 32 bits and more. Its parties were on one host instead\n\
         of a short path.",
        &table,
    ))
}

fn figures(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "approach", "path", "numbers", "8", "16", "24", "32", "48", "64", "128",
        ],
    );
    for far in [false, true] {
        for numbers in ["small", "large"] {
            for published in &PUBLISHED {
                let approach = published.approach;
                let mut line = vec![
                    approach.to_owned(),
                    path(far).to_owned(),
                    numbers.to_owned(),
                ];
                for width in WIDTHS {
                    line.push(cell(
                        &divisions(records, far, approach, numbers, width),
                        total,
                    )?);
                }
                table.push(line);
            }
        }
    }
    Ok(section(
        "Figures 2 to 4",
        "The paper's Figure 2 is about small numbers on one host, Figure 3 about large ones, Figure 4 about\n\
         both over the internet; they are plots without numbers. They show that the\n\
         time does not depend on the numbers.",
        &table,
    ))
}

fn connected(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "approach",
            "bits",
            "connected (ms), 0.5 ms",
            "connected (ms), 45 ms",
            "bytes sent and received",
        ],
    );
    for published in &PUBLISHED {
        for width in WIDTHS {
            let [near, far] = [false, true]
                .map(|far| divisions(records, far, published.approach, "large", width));
            if near.is_empty() && far.is_empty() {
                continue;
            }
            let online = |record: &Record| Ok(1e3 * said_by_b(record, "/seconds/online")?);
            let bytes = |record: &Record| {
                Ok(said_by_b(record, "/bytes/sent")? + said_by_b(record, "/bytes/received")?)
            };
            let bytes = median(&far, bytes)?;
            table.push([
                published.approach.to_owned(),
                format!("{width}"),
                cell(&near, online)?,
                cell(&far, online)?,
                bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
            ]);
        }
    }
    Ok(section(
        "Without connecting",
        "From the established connection to the quotient, and the bytes of the evaluator without those\n\
         of TLS and TCP. Fast division takes two round trips, Newton's two per iteration and some\n\
         more. A small circuit takes one; the tables of a larger one take more bytes than a connection may\n\
         send at its start, and then each doubling of that takes a round trip. So the widest circuits are\n\
         slower here than our own fast division, which leaks.",
        &table,
    ))
}

fn transports(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        ["transport", "bits", "seconds, 45 ms", "connected (ms)"],
    );
    let key = |record: &Record| Ok((text(record, "width")?, text(record, "transport")?));
    for ((width, transport), records) in groups(of(records, "transports"), key)? {
        let online = |record: &Record| Ok(1e3 * said_by_b(record, "/seconds/online")?);
        table.push([
            transport,
            width,
            cell(&records, total)?,
            cell(&records, online)?,
        ]);
    }
    Ok(section(
        "By transport",
        "Garbled circuits for large numbers over each transport. All other tables are over tcp. The choice\n\
         (*auto*) is part of connecting, and so is in the seconds.",
        &table,
    ))
}

fn signed(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new("", ["approach", "bits", "seconds, 45 ms"]);
    let key = |record: &Record| Ok((text(record, "approach")?, text(record, "width")?));
    for ((approach, width), records) in groups(of(records, "signed"), key)? {
        table.push([approach, width, cell(&records, total)?]);
    }
    Ok(section(
        "Signed numbers",
        "Large numbers with a negative dividend. The paper's circuits did not support signs.",
        &table,
    ))
}

fn key_sizes(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "approach",
            "bits of the key",
            "seconds, 45 ms",
            "making the key (s)",
        ],
    );
    let key = |record: &Record| Ok((text(record, "approach")?, text(record, "key_bits")?));
    for ((approach, bits), records) in groups(of(records, "key-size"), key)? {
        let setup = |record: &Record| said_by_b(record, "/seconds/setup");
        table.push([
            approach,
            bits,
            cell(&records, total)?,
            cell(&records, setup)?,
        ]);
    }
    Ok(section(
        "Longer keys",
        "32-bit division under keys of 1,024 bits, as in the paper, and under keys of sizes recommended today.",
        &table,
    ))
}

fn averages(records: &[Record]) -> Outcome<String> {
    let mut table = Table::new(
        "",
        [
            "forecast",
            "approach",
            "AND gates",
            "seconds, 45 ms",
            "result",
        ],
    );
    let weights = |record: &Record| {
        Ok(match record.experiment.as_str() {
            "average" if text(record, "weights")?.starts_with("--periods") => (
                text(record, "approach")?,
                "moving average of 12 months".to_owned(),
            ),
            "average" => (text(record, "approach")?, "weighted, 12 months".to_owned()),
            _ => (
                "circuit".to_owned(),
                format!(
                    "weighted with split weights, {} months",
                    text(record, "periods")?
                ),
            ),
        })
    };
    let of_averages = [of(records, "average"), of(records, "split-weights")].concat();
    for ((approach, forecast), records) in groups(of_averages, weights)? {
        let gates = records
            .first()
            .and_then(|record| said_by_b(record, "/and_gates").ok());
        let result = records.iter().find_map(|record| {
            let said = record.said.b.as_ref()?.pointer("/value")?;
            Some(said.as_str()?.to_owned())
        });
        table.push([
            forecast,
            approach,
            gates.map_or("-".to_owned(), |gates| format!("{gates}")),
            cell(&records, total)?,
            result.unwrap_or("-".to_owned()),
        ]);
    }
    Ok(section(
        "Forecasts",
        "The average of the last months of a series of signed 32-bit numbers. If the weights are\n\
         known to both parties, each sums its own shares, and only the division is a secure computation,\n\
         as in the paper. Weights that are split too are multiplied in the circuit.",
        &table,
    ))
}

fn gates(records: &[Record]) -> Outcome<String> {
    let mut page = String::new();
    let record = of(records, "gates")
        .into_iter()
        .find(|record| record.error.is_none());
    for (number, name) in [(1, "multiplication"), (2, "division")] {
        let mut table = Table::new(
            "",
            [
                "bits",
                "AND",
                "XOR",
                "AND, signed",
                "XOR, signed",
                "the paper, all gates",
            ],
        );
        let lines = record.and_then(|record| record.said.b.as_ref()?.get(name)?.as_array());
        for line in lines.into_iter().flatten() {
            let number = |pointer: &str| {
                let found = line.pointer(pointer).and_then(serde_json::Value::as_u64);
                found.map_or("-".to_owned(), |gates| gates.to_string())
            };
            table.push(
                [
                    "/width",
                    "/unsigned/and",
                    "/unsigned/xor",
                    "/signed/and",
                    "/signed/xor",
                    "/paper",
                ]
                .map(number),
            );
        }
        let text = match number {
            1 => {
                "Shares of both factors are added, and the sums multiplied to a product of twice the width.\n\
                 Only AND gates cost bytes and time here. The paper's compiler failed at 128 bits."
            }
            _ => {
                "Shares are added, and the quotient has as many bits after the point as the numbers have. The\n\
                 paper's compiler failed at 32 bits, with 4 GB of memory."
            }
        };
        page.push_str(&section(
            &format!("Comparison with Table {number}: gates of {name}"),
            text,
            &table,
        ));
        page.push('\n');
    }
    Ok(page)
}
