//! `transpute testbed run --hosts`: runs a matrix between two real hosts.

use std::{ops::ControlFlow, time::Duration};

use transpute_cli::Failure;
use transpute_testbed::{
    report,
    runner::{
        Matrix, MatrixOptions,
        hosts::{self, HostPair, read_hosts_records},
    },
};

use super::{
    super::{
        common::{cancellable, own_program},
        progress::ProgressReporter,
    },
    Args, matrix, print_summary,
};

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let pair = HostPair::new(&args.hosts, args.address.as_deref())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let matrix = Matrix {
        // The path is that between the hosts.
        scenarios: Vec::new(),
        ..matrix(args)?
    };
    let timeout = Duration::from_secs(args.timeout);
    let options = MatrixOptions::new(own_program()?, args.results.clone(), timeout);
    let reporter = ProgressReporter::new(args.quiet || args.json);
    let (running, running_pair) = (matrix.clone(), pair.clone());
    let summary = cancellable(move |cancel| {
        hosts::run(&running, &running_pair, &options, cancel, |progress| {
            reporter.report(progress);
            ControlFlow::Continue(())
        })
    })?;
    print_summary(args, summary, || {
        let records = read_hosts_records(&args.results)?;
        Ok(report::hosts_summary(&hosts::records_of(
            &matrix, &pair, records,
        )))
    })
}
