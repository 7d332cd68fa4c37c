//! Makes tables of runs between two real hosts.

use super::{
    Samples, Table, number,
    tables::{text, with_rows},
};
use crate::runner::hosts::{HostsMeasured, HostsRecord};

/// Makes all tables of runs between two real hosts for which the records have data.
#[must_use]
pub fn hosts_tables(records: &[HostsRecord]) -> Vec<(&'static str, Table)> {
    with_rows([
        ("hosts-runtimes", hosts_summary(records)),
        ("hosts", hosts(records)),
        ("hosts-failures", failures(records)),
    ])
}

/// Makes the table of times of runs between two real hosts.
#[must_use]
pub fn hosts_summary(records: &[HostsRecord]) -> Table {
    let mut table = Table::new(
        "Times between two hosts: total is connecting, handshake and run time, as the evaluator measured them; \
         the run time is from both parties being connected to the output",
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
            "payload Mbit/s",
            "rtt ms",
        ],
    );
    let mut names: Vec<String> = Vec::new();
    for record in records {
        let name = cell(record);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let of_cell: Vec<_> = records.iter().filter(|one| cell(one) == name).collect();
        let samples = |quantity: fn(&HostsMeasured) -> f64| -> Samples {
            let measured = of_cell.iter().filter_map(|one| one.measured.as_ref());
            measured.map(quantity).collect()
        };
        let time = samples(|run| run.runtime_ms);
        let range = time.range();
        let rtt: Samples = of_cell.iter().map(|one| one.hosts.rtt_ms).collect();
        table.push([
            name,
            time.len().to_string(),
            (of_cell.len() - time.len()).to_string(),
            text(samples(|run| run.total_ms).median()),
            text(time.mean()),
            text(time.deviation()),
            text(time.median()),
            text(range.map(|(min, _)| min)),
            text(range.map(|(_, max)| max)),
            text(samples(|run| run.achieved_mbit).mean()),
            text(rtt.median()),
        ]);
    }
    table
}

/// Returns the label of a record's cell, such as `aes128, tcp, half-gates, a to b`.
fn cell(record: &HostsRecord) -> String {
    let mut name = format!(
        "{}, {}, {}, {} to {}",
        record.circuit,
        record.transport,
        record.scheme,
        record.hosts.garbler.destination,
        record.hosts.evaluator.destination
    );
    if record.batch != 1 {
        name.push_str(&format!(", batch {}", record.batch));
    }
    if !record.encrypted {
        name.push_str(", plaintext");
    }
    name
}

/// Makes the table of hosts: the machines, and the offsets of their clocks.
fn hosts(records: &[HostsRecord]) -> Table {
    let mut table = Table::new(
        "Hosts, with the offset of the clock from that of the controlling machine, and its largest error, \
         in the first run",
        [
            "host",
            "role",
            "clock offset ms",
            "error ms",
            "transpute",
            "kernel",
            "processor",
            "processors",
            "congestion control",
        ],
    );
    let mut known: Vec<(&str, &str)> = Vec::new();
    for record in records {
        let hosts = [
            ("garbler", &record.hosts.garbler),
            ("evaluator", &record.hosts.evaluator),
        ];
        for (role, host) in hosts {
            if known.contains(&(role, &host.destination)) {
                continue;
            }
            known.push((role, &host.destination));
            let environment = &host.environment;
            table.push([
                host.destination.clone(),
                role.to_owned(),
                number(host.clock_offset_ms),
                number(host.clock_uncertainty_ms),
                environment.transpute.clone(),
                environment.kernel.clone(),
                environment.cpu.clone(),
                environment.cpus.to_string(),
                environment.congestion_control.clone(),
            ]);
        }
    }
    table
}

/// Makes the table of failed runs, with their errors.
fn failures(records: &[HostsRecord]) -> Table {
    let mut table = Table::new("Runs between two hosts that failed", ["run", "why"]);
    for record in records.iter().filter(|record| record.measured.is_none()) {
        let error = record.error.as_deref().unwrap_or("not measured");
        table.push([
            format!("{} #{}", cell(record), record.repetition),
            error.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::fixture::hosts_record;
    use super::*;

    #[test]
    fn cells_have_times_and_hosts_have_clocks() {
        let mut records = [
            hosts_record("aes128", 100.0),
            hosts_record("aes128", 140.0),
            hosts_record("aes128", 1.0),
        ];
        records[2].measured = None;
        records[2].error = Some("garbler: no".to_owned());
        let tables = hosts_tables(&records);
        let csv: Vec<_> = tables.iter().map(|(_, table)| table.csv()).collect();
        assert!(
            csv[0].contains(
                "\"aes128, tcp, half-gates, a to b\",2,1,150,120,28.3,120,100,140,68.6,12.0\r\n"
            ),
            "{}",
            csv[0]
        );
        assert!(csv[1].contains("\r\na,garbler,1.50,0.250,"), "{}", csv[1]);
        assert!(csv[1].contains("\r\nb,evaluator,"), "{}", csv[1]);
        assert!(csv[2].contains("a to b #0\",garbler: no"), "{}", csv[2]);
        assert!(hosts_tables(&[]).is_empty());
    }
}
