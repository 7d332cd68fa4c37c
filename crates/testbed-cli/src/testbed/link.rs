//! `transpute testbed link`: measures an emulated path.

use std::time::Duration;

use transpute_cli::{
    Failure,
    output::{self, grouped},
};
use transpute_netem::model::PathCounters;
use transpute_testbed::link::{self, FlowReport, LinkReport};

use super::{
    common::{cancellable, load},
    scenarios::describe,
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute testbed link eu-us")]
pub(crate) struct Args {
    /// Network conditions: a preset (see `transpute testbed scenarios`) or a file
    #[arg(value_name = "NAME|FILE", default_value = "loopback")]
    scenario: String,
    /// Time to send in each direction, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn link(args: Args) -> Result<(), Failure> {
    let scenario = load(&args.scenario)?;
    let duration = Duration::from_secs(args.seconds);
    let report = cancellable(move |cancel| link::measure(&scenario, duration, cancel))?;
    if args.json {
        return output::print_json(&report);
    }
    output::print(|out| out.write_all(text(&report).as_bytes()))
}

fn text(report: &LinkReport) -> String {
    let echo = &report.echo;
    let round_trip = match (echo.min_ms, echo.median_ms, echo.max_ms) {
        (Some(min), Some(median), Some(max)) => {
            format!("{median:.2} ms median, {min:.2} to {max:.2} ms")
        }
        _ => "none".to_owned(),
    };
    format!(
        "{}\n\
         round trips  {round_trip}; {} of {} echoed\n\
         up           {}\n\
         down         {}\n\
         emulator     too slow for {} packets\n",
        describe(&report.scenario),
        echo.received,
        echo.sent,
        flow(&report.up, &report.up_packets),
        flow(&report.down, &report.down_packets),
        grouped(report.overruns),
    )
}

fn flow(flow: &FlowReport, packets: &PathCounters) -> String {
    format!(
        "one TCP flow {:.1} Mbit/s at best, {:.1} on average; {} packets sent, {} lost, \
         {} dropped at a full queue",
        flow.peak_mbit,
        flow.mbit,
        grouped(packets.packets_in),
        grouped(packets.lost_packets),
        grouped(packets.overflowed_packets),
    )
}
