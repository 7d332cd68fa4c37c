//! `transpute testbed exec`: runs two commands on an emulated path.

use transpute_cli::{
    Failure, FailureKind,
    output::{self, grouped},
};
use transpute_testbed::{pair, runner::Sweep};

use super::common::{cancellable, load, scenario_failure};

#[derive(clap::Args)]
#[command(after_help = "\
/bin/sh runs both commands, with the addresses of the sides in TRANSPUTE_A and TRANSPUTE_B. The command \
on side A starts first. It is terminated when the command on side B ends.

Example:
  transpute testbed exec --scenario eu-us \\
      --a 'transpute link serve --unpinned --listen $TRANSPUTE_A:7700' \\
      --b 'transpute link send --unpinned --connect $TRANSPUTE_A:7700 --bytes 30500000'")]
pub(crate) struct Args {
    /// Network conditions: a preset (see `transpute testbed scenarios`) or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "eu-us")]
    scenario: String,
    /// The command on side A, for example a server
    #[arg(long, value_name = "COMMAND")]
    a: String,
    /// The command on side B
    #[arg(long, value_name = "COMMAND")]
    b: String,
    /// Round-trip time in milliseconds [default: the scenario's]
    #[arg(long, value_name = "MS")]
    rtt: Option<f64>,
    /// Loss probability in each direction [default: the scenario's]
    #[arg(long, value_name = "P")]
    loss: Option<f64>,
    /// Rate in Mbit/s in each direction [default: the scenario's]
    #[arg(long, value_name = "MBIT")]
    rate: Option<f64>,
    /// Drop every UDP packet in both directions, as a firewall does
    #[arg(long)]
    block_udp: bool,
    /// TCP congestion control algorithm
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Maximum size of socket buffers, in bytes
    #[arg(long, value_name = "BYTES")]
    socket_buffer: Option<u64>,
    /// Seed of the path's random numbers
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the counters of the path as a JSON object to standard error
    #[arg(long)]
    json: bool,
}

pub(crate) fn exec(args: Args) -> Result<(), Failure> {
    let sweep = Sweep {
        rtt_ms: args.rtt.into_iter().collect(),
        loss: args.loss.into_iter().collect(),
        rate_mbit: args.rate.into_iter().collect(),
        block_udp: args.block_udp,
        congestion_control: args.congestion_control.into_iter().collect(),
        socket_buffer: args.socket_buffer.into_iter().collect(),
    };
    let mut scenarios = sweep
        .apply(&[load(&args.scenario)?])
        .map_err(scenario_failure)?;
    // A single scenario and at most one value per setting result in one scenario.
    let mut scenario = scenarios.swap_remove(0);
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    let (a, b) = (args.a, args.b);
    let report = cancellable(move |cancel| pair::run(&scenario, [&a, &b], cancel))?;
    if args.json {
        let json = serde_json::to_string(&report)
            .map_err(|error| Failure::other("cannot write JSON").because(error))?;
        eprintln!("{json}");
    } else {
        for (way, path) in [("A to B", &report.up), ("B to A", &report.down)] {
            output::note(format!(
                "{way}: {} packets with {} bytes in total; {} lost, {} dropped at a full queue",
                grouped(path.packets_in),
                grouped(path.bytes_in),
                grouped(path.lost_packets),
                grouped(path.overflowed_packets),
            ));
        }
    }
    let a_code = if report.a_stopped {
        Some(0)
    } else {
        report.a_code
    };
    let problems: Vec<_> = [("A", a_code), ("B", report.b_code)]
        .into_iter()
        .filter_map(|(side, code)| match code {
            Some(0) => None,
            Some(code) => Some(format!("the command on side {side} ended with code {code}")),
            None => Some(format!("the command on side {side} was ended by a signal")),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(FailureKind::Protocol, problems.join("; "))),
    }
}
