//! Makes tables of records.

use super::{
    CellRecords, Table,
    cells::{congestion_control, counterpart, mbit},
    number, phases,
    published::{SCHEMES, SETTINGS, TABLE_3},
};
use crate::record::{Measured, PartyRecord, RunRecord};

const MB: f64 = 1e6;
pub(super) const MIB: f64 = (1 << 20) as f64;

/// Makes all tables for which the records have data.
#[must_use]
pub fn tables(records: &[RunRecord]) -> Vec<(&'static str, Table)> {
    let cells = CellRecords::group(records);
    with_rows([
        ("runtimes", runtimes(&cells)),
        ("phases", phases(&cells)),
        ("clock", phases::table(&cells, &labels(&cells))),
        ("resources", resources(&cells)),
        ("paper-table-3", paper_table_3(&cells)),
        ("failures", failures(records)),
        ("environments", environments(records)),
    ])
}

/// Returns the tables that have rows.
pub(super) fn with_rows<const N: usize>(
    all: [(&'static str, Table); N],
) -> Vec<(&'static str, Table)> {
    all.into_iter()
        .filter(|(_, table)| !table.is_empty())
        .collect()
}

/// Makes a table of the median times of each cell, with the limit that the path sets.
#[must_use]
pub fn summary(records: &[RunRecord]) -> Table {
    let cells = CellRecords::group(records);
    let mut table = Table::new(
        "Median times: total from the first packet to the output, run time from connected to the output, \
         and the physical limit of the run time",
        [
            "cell",
            "runs",
            "total ms",
            "run time ms",
            "limit ms",
            "run time / limit",
        ],
    );
    for (cell, label) in cells.iter().zip(labels(&cells)) {
        let time = cell.samples(|measured| measured.runtime_ms);
        table.push([
            label,
            time.len().to_string(),
            text(cell.samples(|measured| measured.total_ms).median()),
            text(time.median()),
            text(cell.samples(|measured| measured.limit.limit_ms).median()),
            text(cell.some_samples(|measured| measured.limit.ratio).median()),
        ]);
    }
    table
}

/// Makes the table of times of all cells, with the limit that the path sets.
fn runtimes(cells: &[CellRecords<'_>]) -> Table {
    let mut table = Table::new(
        "Times: total from the first packet to the output, then the run time, from both parties being connected \
         to the output, and its physical limit",
        [
            "cell",
            "runs",
            "failed",
            "median total ms",
            "mean run time ms",
            "sd ms",
            "median ms",
            "min ms",
            "max ms",
            "limit ms",
            "run time / limit",
            "payload Mbit/s",
            "link",
        ],
    );
    let labels = labels(cells);
    for (cell, label) in cells.iter().zip(labels) {
        let time = cell.samples(|measured| measured.runtime_ms);
        let limit = cell.samples(|measured| measured.limit.limit_ms);
        let link = cell.conditions().scenario.up.rate_mbit;
        let range = time.range();
        table.push([
            label,
            time.len().to_string(),
            cell.failures().to_string(),
            text(cell.samples(|measured| measured.total_ms).median()),
            text(time.mean()),
            text(time.deviation()),
            text(time.median()),
            text(range.map(|(least, _)| least)),
            text(range.map(|(_, most)| most)),
            text(limit.mean()),
            text(cell.some_samples(|measured| measured.limit.ratio).mean()),
            text(cell.samples(|measured| measured.achieved_mbit).mean()),
            link.map_or_else(|| "-".to_owned(), mbit),
        ]);
    }
    table
}

/// Makes the table of the evaluator's phases, by cell.
fn phases(cells: &[CellRecords<'_>]) -> Table {
    let mut table = Table::new(
        "Phases of the evaluator, medians: the durations of connecting and of the handshake, and the other \
         moments counted from both parties being connected",
        [
            "cell",
            "connect ms",
            "handshake ms",
            "agreed ms",
            "labels ms",
            "first table ms",
            "last table ms",
            "output ms",
        ],
    );
    let moments: [fn(&PartyRecord) -> Option<f64>; 7] = [
        |party| Some(party.connect_ms),
        |party| Some(party.handshake_ms),
        |party| party.agreed_ms,
        |party| party.first_labels_ms,
        |party| party.first_table_ms,
        |party| party.last_table_ms,
        |party| party.output_ms,
    ];
    for (cell, label) in cells.iter().zip(labels(cells)) {
        if cell.samples(|measured| measured.runtime_ms).is_empty() {
            continue;
        }
        let medians = moments.map(|moment| {
            text(
                cell.some_samples(|measured| moment(&measured.evaluator))
                    .median(),
            )
        });
        table.push([label].into_iter().chain(medians));
    }
    table
}

/// Makes the table of the resources of runs, by cell. Columns without values are left out.
fn resources(cells: &[CellRecords<'_>]) -> Table {
    type Quantity = fn(&Measured) -> Option<f64>;
    let quantities: [(&str, Quantity); 16] = [
        ("garbler CPU s", |run| Some(cpu(&run.garbler))),
        ("evaluator CPU s", |run| Some(cpu(&run.evaluator))),
        ("garbler 10^9 cycles", |run| billions(run.garbler.cycles)),
        ("evaluator 10^9 cycles", |run| {
            billions(run.evaluator.cycles)
        }),
        ("garbler 10^9 instructions", |run| {
            billions(run.garbler.instructions)
        }),
        ("evaluator 10^9 instructions", |run| {
            billions(run.evaluator.instructions)
        }),
        ("garbler peak heap MiB", |run| {
            Some(run.garbler.peak_heap_bytes? as f64 / MIB)
        }),
        ("evaluator peak heap MiB", |run| {
            Some(run.evaluator.peak_heap_bytes? as f64 / MIB)
        }),
        ("garbler MiB", |run| {
            Some(run.garbler.peak_rss_bytes as f64 / MIB)
        }),
        ("evaluator MiB", |run| {
            Some(run.evaluator.peak_rss_bytes as f64 / MIB)
        }),
        ("up MB", |run| Some(run.wire_up_bytes as f64 / MB)),
        ("down MB", |run| Some(run.wire_down_bytes as f64 / MB)),
        (EXCESS, |run| {
            Some(100.0 * (run.wire_up_bytes as f64 / run.payload_up_bytes as f64 - 1.0))
        }),
        ("lost up", |run| Some(run.up.lost_packets as f64)),
        ("queue full up", |run| {
            Some(run.up.overflowed_packets as f64)
        }),
        ("emulator lost", |run| {
            Some(run.overruns.iter().sum::<u64>() as f64)
        }),
    ];
    let known: Vec<_> = (quantities.into_iter())
        .filter(|(_, quantity)| {
            cells
                .iter()
                .any(|cell| !cell.some_samples(quantity).is_empty())
        })
        .collect();
    let mut table = Table::new(
        "Resources, means: processor seconds (and cycles and instructions, where the machine counts \
         them), peak heap and peak resident memory of whole processes; bytes of the parties on the \
         wire with headers and retransmissions, and their excess over the protocol's messages; \
         packets lost by the path, by its full queue, and by an emulator too slow",
        ["cell"]
            .into_iter()
            .chain(known.iter().map(|(name, _)| *name)),
    );
    for (cell, label) in cells.iter().zip(labels(cells)) {
        if cell.samples(|measured| measured.runtime_ms).is_empty() {
            continue;
        }
        let means = known.iter().map(|(name, quantity)| {
            let mean = cell.some_samples(quantity).mean();
            match mean {
                Some(percent) if *name == EXCESS => format!("{percent:.1} %"),
                mean => text(mean),
            }
        });
        table.push([label].into_iter().chain(means));
    }
    table
}

/// The header of the column of wire bytes that exceed the payload, in percent of the payload.
const EXCESS: &str = "excess up";

fn billions(count: Option<u64>) -> Option<f64> {
    Some(count? as f64 / 1e9)
}

/// Makes the paper's Table 3 with our measurements next to the paper's. It uses TCP cells of the
/// three preset scenarios with one evaluation, if possible with CUBIC and default buffers.
fn paper_table_3(cells: &[CellRecords<'_>]) -> Table {
    let mut table = Table::new(
        "Table 3 of Transputation (2020) and this reproduction: run time in ms, published and ours",
        [
            "circuit",
            "setting",
            "scheme",
            "paper TCP",
            "paper SABUL",
            "our TCP",
            "control",
            "sd",
            "runs",
            "ours / paper TCP",
            "limit",
        ],
    );
    for cell in TABLE_3 {
        let ours = counterpart(cells, cell.circuit, cell.scenario, cell.scheme);
        let Some(main) = ours else { continue };
        let time = main.samples(|measured| measured.runtime_ms);
        let limit = main.samples(|measured| measured.limit.limit_ms);
        let named = |names: &[(&str, &'static str)], name: &str| {
            names
                .iter()
                .find(|(known, _)| *known == name)
                .map_or("", |(_, shown)| shown)
        };
        table.push([
            cell.circuit.to_owned(),
            (SETTINGS.iter())
                .find(|(name, ..)| *name == cell.scenario)
                .map_or(String::new(), |(_, shown, ..)| (*shown).to_owned()),
            named(&SCHEMES, cell.scheme).to_owned(),
            number(cell.tcp_ms),
            number(cell.sabul_ms),
            text(time.mean()),
            congestion_control(main.conditions()).to_owned(),
            text(time.deviation()),
            time.len().to_string(),
            text(time.mean().map(|mean| mean / cell.tcp_ms)),
            text(limit.mean()),
        ]);
    }
    table
}

/// Makes the table of failed runs, with their errors.
fn failures(records: &[RunRecord]) -> Table {
    let mut table = Table::new("Runs that failed", ["run", "why"]);
    for record in records.iter().filter(|record| record.measured.is_none()) {
        table.push([
            format!(
                "{} {} {} {} #{}",
                record.circuit,
                record.scheme,
                record.transport,
                record.scenario.name,
                record.repetition
            ),
            record
                .error
                .clone()
                .unwrap_or_else(|| "not measured".to_owned()),
        ]);
    }
    table
}

/// Makes the table of the machines and settings of the records.
fn environments(records: &[RunRecord]) -> Table {
    type Value = fn(&RunRecord) -> String;
    let mut table = Table::new("Environments", ["what", "value"]);
    let values: [(&str, Value); 11] = [
        ("transpute", |record| record.environment.transpute.clone()),
        ("testbed", |record| record.environment.testbed.clone()),
        ("emulator", |record| record.environment.emulator.clone()),
        ("kernel", |record| record.environment.kernel.clone()),
        ("processor", |record| record.environment.cpu.clone()),
        ("processors", |record| record.environment.cpus.to_string()),
        ("memory (GiB)", |record| {
            number(record.environment.memory_bytes as f64 / MIB / 1024.0)
        }),
        ("congestion control", |record| {
            congestion_control(record).to_owned()
        }),
        ("tcp_rmem", |record| record.environment.tcp_rmem.clone()),
        ("tcp_wmem", |record| record.environment.tcp_wmem.clone()),
        ("hardware counters", |record| {
            record.environment.hardware_counters.clone()
        }),
    ];
    if records.is_empty() {
        return table;
    }
    for (name, value) in values {
        let mut all: Vec<String> = records.iter().map(value).collect();
        all.sort();
        all.dedup();
        table.push([name.to_owned(), all.join("; ")]);
    }
    table
}

/// Returns the names of cells: circuit, scenario, and the other properties in which the cells
/// differ.
fn labels(cells: &[CellRecords<'_>]) -> Vec<String> {
    let facets: Vec<_> = cells.iter().map(CellRecords::facets).collect();
    let always = ["circuit", "transport", "scheme", "scenario"];
    // The name of a scenario implies its round-trip time, loss, rate and queue. They are shown only
    // if two scenarios of one name differ.
    let needed: Vec<bool> = (0..facets.first().map_or(0, |first| first.len()))
        .map(|place| {
            let name = facets[0][place].0;
            always.contains(&name)
                || facets.iter().any(|one| {
                    facets.iter().any(|other| {
                        let by_scenario = ["rtt", "loss", "rate", "queue", "udp"].contains(&name);
                        let same_scenario = one.last() == other.last();
                        one[place] != other[place] && (!by_scenario || same_scenario)
                    })
                })
        })
        .collect();
    (facets.iter())
        .map(|facets| {
            let shown = facets.iter().zip(&needed).filter(|(_, needed)| **needed);
            let texts: Vec<_> = shown.map(|((_, text), _)| text.as_str()).collect();
            texts.join(", ")
        })
        .collect()
}

/// Returns the processor time of a party in seconds, in user mode and in the kernel.
pub(super) fn cpu(party: &PartyRecord) -> f64 {
    party.user_s + party.system_s
}

pub(super) fn text(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    fn table(records: &[RunRecord], name: &str) -> Option<Table> {
        tables(records)
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, table)| table)
    }

    #[test]
    fn published_figures_stand_beside_ours() {
        let mut records = vec![
            record("mincut", "eu-us", 600.0),
            record("mincut", "eu-us", 640.0),
            record("mincut", "mobile", 9.0),
        ];
        // The table prefers a cell with CUBIC, which the paper used, to this one.
        let mut bbr = record("mincut", "eu-us", 1.0);
        bbr.environment.congestion_control = "bbr".to_owned();
        records.insert(0, bbr);
        let text = table(&records, "paper-table-3").unwrap().csv();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            lines[1],
            "mincut,EU-US,Half-Gate,2784,958,620,cubic,28.3,2,0.223,118"
        );
        assert_eq!(table(&records[3..], "paper-table-3"), None);
    }

    #[test]
    fn runtimes_have_limit_and_spread() {
        let mut records = vec![
            record("aes128", "eu-us", 200.0),
            record("aes128", "eu-us", 270.0),
        ];
        records.push(record("aes128", "eu-us", 1.0));
        records[2].measured = None;
        records[2].error = Some("the peer was lost".to_owned());
        let text = table(&records, "runtimes").unwrap().csv();
        assert!(
            text.contains(
                "\"aes128, tcp, half-gates, eu-us\",2,1,265,235,49.5,235,200,270,118,1.99,34.8,1.00 Gbit/s"
            ),
            "{text}"
        );
        let failures = table(&records, "failures").unwrap().csv();
        assert!(failures.contains("aes128 half-gates tcp eu-us #0,the peer was lost"));
    }

    #[test]
    fn resources_have_columns_for_what_was_counted() {
        let mut records = [record("aes128", "eu-us", 200.0)];
        let text = table(&records, "resources").unwrap().csv();
        assert!(
            !text.contains("cycles") && !text.contains("instructions"),
            "{text}"
        );
        let (headers, values) = text.split_once("\r\n").unwrap();
        assert!(
            headers.contains("garbler peak heap MiB,evaluator peak heap MiB,garbler MiB"),
            "{text}"
        );
        // Only the parties' bytes are counted, not those of cross traffic.
        let end = "0.300,0.300,5.00,5.00,20.0,20.0,1.10,1.10,10.0 %,0,0,0\r\n";
        assert!(values.ends_with(end), "{text}");
        records[0].measured.as_mut().unwrap().garbler.cycles = Some(1_500_000_000);
        let text = table(&records, "resources").unwrap().csv();
        assert!(text.contains("garbler CPU s,evaluator CPU s,garbler 10^9 cycles,garbler peak"));
        assert!(text.contains(",0.300,0.300,1.50,5.00,"), "{text}");
    }

    #[test]
    fn labels_name_what_differs() {
        let mut records = vec![
            record("aes128", "eu-us", 1.0),
            record("aes128", "eu-us", 1.0),
        ];
        records[1].scenario.up.loss = 0.01;
        assert_eq!(
            labels(&CellRecords::group(&records)),
            [
                "aes128, tcp, half-gates, loss 0 %, eu-us",
                "aes128, tcp, half-gates, loss 1 %, eu-us"
            ]
        );
    }

    #[test]
    fn no_records_make_no_tables() {
        assert!(tables(&[]).is_empty());
    }
}
