//! `transpute testbed report`: prints tables and writes charts of recorded runs.

use std::path::PathBuf;

use transpute_cli::{Failure, FailureKind, output};
use transpute_testbed::{
    record::{RecordError, read_run_records},
    report::{self, ReportError},
    runner::hosts::read_hosts_records,
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute testbed report results.jsonl --out report")]
pub(crate) struct Args {
    /// Files of results from `transpute testbed run`
    #[arg(value_name = "FILE", default_value = "results.jsonl")]
    results: Vec<PathBuf>,
    /// Write report.md, all tables (CSV) and all charts (SVG, PNG) to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print the tables as Markdown
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn report(args: &Args) -> Result<(), Failure> {
    let mut records = Vec::new();
    let mut hosts = Vec::new();
    for path in &args.results {
        let invalid =
            |error: RecordError| Failure::new(FailureKind::File, error.to_string()).because(error);
        records.extend(read_run_records(path).map_err(invalid)?);
        hosts.extend(read_hosts_records(path).map_err(invalid)?);
    }
    if records.is_empty() && hosts.is_empty() {
        return Err(failure(ReportError::Empty));
    }
    let mut tables = report::tables(&records);
    tables.extend(report::hosts_tables(&hosts));
    output::print(|out| {
        for (_, table) in &tables {
            if args.markdown {
                writeln!(out, "## {}\n\n{}", table.title(), table.markdown())?;
            } else {
                writeln!(out, "{}\n{}", table.title(), table.terminal())?;
            }
        }
        Ok(())
    })?;
    if let Some(folder) = &args.out {
        let files = report::write(&records, &hosts, folder).map_err(failure)?;
        output::note(format!(
            "{} files written to {}",
            files.len(),
            folder.display()
        ));
    }
    Ok(())
}

fn failure(error: ReportError) -> Failure {
    Failure::new(FailureKind::File, error.to_string()).because(error)
}
