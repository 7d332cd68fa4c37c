//! `transpute testbed scenarios`: the network conditions there are.

use std::fmt::Write as _;

use transpute_cli::{Failure, output};
use transpute_netem::scenario::{PathConfig, Scenario, presets};

use super::work::{load, scenario_failure};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A name, to print its file; or a file, to check and describe
    #[arg(value_name = "NAME|FILE")]
    scenario: Option<String>,
    /// Print JSON: a list, or one scenario with all it leaves out
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

/// Returns the conditions in words.
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

/// Returns a probability in percent, without digits that only binary fractions have.
fn percent(probability: f64) -> f64 {
    (probability * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_described() {
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
