//! `transpute testbed party`: the part of `transpute testbed run --hosts` that runs on the hosts.
//! The testbed starts this hidden command over ssh.

use std::{ffi::OsString, io, time::Duration};

use transpute_cli::{Failure, output};
use transpute_testbed::runner::hosts::agent;

use super::common::{own_program, run_failure};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time limit of the party, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    limit: u64,
    /// Arguments of the party. Without any, the command describes this host
    #[arg(last = true)]
    args: Vec<OsString>,
}

pub(crate) fn party(args: &Args) -> Result<(), Failure> {
    let program = own_program()?;
    if args.args.is_empty() {
        return output::print_json(&agent::describe(&program).map_err(run_failure)?);
    }
    let limit = Duration::from_secs(args.limit);
    let end = agent::run_party(&program, &args.args, limit, io::stdin()).map_err(run_failure)?;
    output::print_json(&end)
}
