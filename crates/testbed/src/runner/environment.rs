//! Describes the machine and the settings of runs.

use std::{
    collections::HashMap, fs, io, path::Path, process::Command, sync::atomic::AtomicBool,
    time::Duration,
};

use rustix::net::sockopt::tcp_congestion;
use transpute_netem::{
    lab::{Lab, Side},
    scenario::{PathConfig, Scenario},
};

use super::error::RunError;
use crate::{
    measure::{Deadline, Process},
    perf,
    record::Environment,
};

/// Time limit of a helper program that prints a short text, such as `cat`.
const LIMIT: Duration = Duration::from_secs(20);

/// The name of the path emulator in records.
const EMULATOR: &str =
    "transpute-testbed: two network namespaces, TUN devices, user-space forwarder";

/// A cache of environments, by the scenario's congestion control and socket buffer size. Other
/// settings of a scenario do not affect the environment.
pub(crate) struct Environments {
    /// The environment without the settings that are read inside the network namespaces.
    outside: Environment,
    inside: HashMap<(Option<String>, Option<u64>), Environment>,
}

impl Environments {
    /// Describes this machine and this `transpute`.
    pub(crate) fn new(binary: &Path, cancel: &AtomicBool) -> Result<Self, RunError> {
        Ok(Self {
            outside: Environment {
                emulator: EMULATOR.to_owned(),
                ..describe(binary, cancel)?
            },
            inside: HashMap::new(),
        })
    }

    /// Returns the environment of the parties of a scenario.
    pub(crate) fn of(
        &mut self,
        scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Environment, RunError> {
        let key = (scenario.congestion_control.clone(), scenario.socket_buffer);
        if let Some(known) = self.inside.get(&key) {
            return Ok(known.clone());
        }
        let mut environment = self.outside.clone();
        describe_inside(&mut environment, scenario, cancel)?;
        self.inside.insert(key, environment.clone());
        Ok(environment)
    }
}

/// Describes this machine and this `transpute`, without the TCP settings.
pub(super) fn describe(binary: &Path, cancel: &AtomicBool) -> Result<Environment, RunError> {
    let mut version = Command::new(binary);
    version.arg("--version");
    Ok(Environment {
        testbed: env!("CARGO_PKG_VERSION").to_owned(),
        transpute: printed(version, cancel)?,
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        cpu: field("/proc/cpuinfo", "model name"),
        cpus: (std::thread::available_parallelism())
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_bytes: (field("/proc/meminfo", "MemTotal").trim_end_matches(" kB"))
            .parse::<u64>()
            .map_or(0, |kib| kib * 1024),
        hardware_counters: perf::describe(),
        ..Environment::default()
    })
}

/// Adds the TCP settings inside the network namespaces of a scenario.
pub(super) fn describe_inside(
    environment: &mut Environment,
    scenario: &Scenario,
    cancel: &AtomicBool,
) -> Result<(), RunError> {
    // This path has the TCP settings of the scenario but neither loss nor delay. A connection over
    // it always succeeds, and consumes no random numbers of a run's path.
    let lab = Lab::start(&Scenario {
        up: PathConfig::default(),
        down: PathConfig::default(),
        cross_traffic: None,
        ..scenario.clone()
    })?;
    let ask = |setting: &str| {
        // The content of a sysctl file depends on the network namespace of the reader.
        let mut command = lab.command(Side::A, "cat");
        command.arg(format!("/proc/sys/net/ipv4/{setting}"));
        printed(command, cancel).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    environment.congestion_control = congestion_control(&lab).map_err(RunError::Flow)?;
    environment.tcp_rmem = ask("tcp_rmem")?;
    environment.tcp_wmem = ask("tcp_wmem")?;
    Ok(())
}

/// Returns the congestion control of a connection over the path. The sysctl would be wrong if the
/// scenario sets the congestion control for the route only.
fn congestion_control(lab: &Lab) -> io::Result<String> {
    let listener = lab.listen(Side::B, 0)?;
    let connection = lab.connect(Side::A, listener.local_addr()?)?;
    Ok(tcp_congestion(&connection)?)
}

/// Runs a command and returns its standard output.
pub(super) fn printed(command: Command, cancel: &AtomicBool) -> Result<String, RunError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let finished = Process::start(command)
        .and_then(|process| process.finish(Deadline::new(LIMIT, cancel)))
        .map_err(|error| {
            RunError::from_measure(error, |error| RunError::Tool {
                program: program.clone(),
                reason: error.to_string(),
            })
        })?;
    if !finished.status.success() {
        return Err(RunError::Tool {
            program,
            reason: finished.complaint().to_owned(),
        });
    }
    Ok(finished.stdout.trim().to_owned())
}

/// Returns the content of a file of one line, or an empty text if it cannot be read.
pub(super) fn line(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the text after `name` and a colon in a file.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    (text.lines())
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use transpute_netem::testing::unless_skipped;

    use super::*;

    #[test]
    fn the_congestion_control_in_force_is_told() {
        let sysctl = "/proc/sys/net/ipv4";
        let default = line(&format!("{sysctl}/tcp_congestion_control"));
        let available = line(&format!("{sysctl}/tcp_available_congestion_control"));
        let never = AtomicBool::new(false);
        let mut asked = vec![None];
        // These are congestion controls other than the default: one that all users may set, and one
        // that only a route may set.
        asked.extend(
            available
                .split(' ')
                .filter(|name| *name != default)
                .map(Some),
        );
        for name in asked {
            // With this loss, no connection over the run's own path would succeed.
            let mut scenario = Scenario::named("eu-aus").unwrap().with_loss(1.0);
            scenario.congestion_control = name.map(str::to_owned);
            let mut environment = Environment::default();
            match describe_inside(&mut environment, &scenario, &never) {
                Err(RunError::Lab(error)) => {
                    if unless_skipped(Err::<(), _>(error)).is_none() {
                        return;
                    }
                }
                other => other.unwrap(),
            }
            assert_eq!(environment.congestion_control, name.unwrap_or(&default));
            assert_eq!(environment.tcp_rmem.split(' ').count(), 3);
        }
    }
}
