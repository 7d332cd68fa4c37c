//! `transpute testbed scenarios`: lists or checks network conditions.

use std::fmt::Write as _;

use transpute_cli::{Failure, output};
use transpute_netem::scenario::{PathConfig, Scenario, presets};

use super::common::{load, scenario_failure};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute testbed scenarios eu-us")]
pub(crate) struct Args {
    /// A preset, whose file is printed, or a file, which is checked and described
    #[arg(value_name = "NAME|FILE")]
    scenario: Option<String>,
    /// Print the list or the scenario as JSON, with all defaults filled in
    #[arg(long)]
    json: bool,
}

pub(crate) fn scenarios(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.scenario else {
        let all = (presets().iter())
            .map(|preset| Scenario::named(preset.name).map_err(scenario_failure))
            .collect::<Result<Vec<_>, _>>()?;
        if args.json {
            return output::print_json(&all);
        }
        let width = all.iter().map(|scenario| scenario.name.len()).max();
        return output::print(|out| {
            for scenario in &all {
                let width = width.unwrap_or_default();
                writeln!(out, "{:width$}  {}", scenario.name, scenario.description)?;
            }
            Ok(())
        });
    };
    let scenario = load(name)?;
    if args.json {
        return output::print_json(&scenario);
    }
    output::print(
        |out| match presets().iter().find(|preset| preset.name == name) {
            Some(preset) => out.write_all(preset.toml.as_bytes()),
            None => writeln!(out, "{}", describe(&scenario)),
        },
    )
}

/// Describes the conditions on one line.
pub(super) fn describe(scenario: &Scenario) -> String {
    let mut text = format!("{}: {} ms round trip", scenario.name, scenario.rtt_ms());
    for (name, path) in [("up", &scenario.up), ("down", &scenario.down)] {
        let _ = write!(text, "; {name} {}", direction(path));
    }
    text
}

fn direction(path: &PathConfig) -> String {
    let mut text = match (path.rate_mbit, path.queue_limit_bytes()) {
        (Some(rate), Some(queue)) => {
            format!(
                "{rate} Mbit/s with a queue of {} bytes",
                output::grouped(queue)
            )
        }
        _ => "without a bottleneck".to_owned(),
    };
    if path.jitter_ms > 0.0 {
        let _ = write!(text, ", {} ms jitter", path.jitter_ms);
    }
    if path.loss > 0.0 {
        let _ = write!(text, ", {} % loss", percent(path.loss));
    }
    if path.burst.is_some() {
        text.push_str(", loss in bursts");
    }
    if path.reorder > 0.0 {
        let _ = write!(text, ", {} % reordered", percent(path.reorder));
    }
    if path.duplicate > 0.0 {
        let _ = write!(text, ", {} % duplicated", percent(path.duplicate));
    }
    if path.udp_blocked {
        text.push_str(", UDP blocked");
    }
    match path.changes.len() {
        0 => {}
        count => {
            let _ = write!(text, ", {count} changes");
        }
    }
    text
}

/// Converts a probability to percent, without the rounding errors of binary fractions.
fn percent(probability: f64) -> f64 {
    (probability * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_described_on_one_line() {
        let text = "rtt_ms = 60\nrate_mbit = 20\nloss = 0.0005\n[down]\njitter_ms = 2\nloss = 0\nudp_blocked = true";
        let scenario = Scenario::parse(text, "mine").unwrap();
        assert_eq!(
            describe(&scenario),
            "mine: 60 ms round trip; up 20 Mbit/s with a queue of 262,144 bytes, 0.05 % loss; \
             down 20 Mbit/s with a queue of 262,144 bytes, 2 ms jitter, UDP blocked"
        );
        let loopback = Scenario::named("loopback").unwrap();
        assert!(describe(&loopback).ends_with("down without a bottleneck"));
    }
}
