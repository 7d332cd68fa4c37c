//! Tests of the circuits, the files and both servers, compared with plain computations.

mod circuits;
mod files;
#[path = "../../processes.rs"]
mod processes;
mod servers;

use std::error::Error;

use clap::Parser;

use crate::{Cli, table::Table};

/// Runs one party in a child process that another test starts. This is not a test by itself.
#[test]
#[ignore = "child of two_processes_count_histograms"]
fn party_process() {
    processes::act(|arguments| async { run(arguments).await });
}

async fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let arguments = ["survey".to_owned()].into_iter().chain(arguments);
    crate::run(Cli::try_parse_from(arguments)?).await
}

/// Runs a command that needs no peer.
fn survey(arguments: &[&str]) -> Result<(), String> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime.unwrap().block_on(run(arguments));
    outcome.map_err(|error| transpute_applications::causes(&*error))
}

fn table(columns: usize, width: u32, cells: &[u32]) -> Table {
    Table::new(columns, width, cells.to_vec()).unwrap()
}
