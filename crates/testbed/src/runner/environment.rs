//! What runs run on.

use std::{fs, path::Path, process::Command, sync::atomic::AtomicBool, time::Duration};

use super::RunError;
use crate::{
    lab::{Lab, Side},
    measure::{Patience, Process},
    row::Environment,
};

/// How long a program that only prints something may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What emulates the path.
const EMULATOR: &str =
    "transpute-testbed: two network namespaces, TUN devices, user-space forwarder";

/// Describes this machine and this `transpute`.
pub(super) fn describe(binary: &Path, cancel: &AtomicBool) -> Result<Environment, RunError> {
    let mut version = Command::new(binary);
    version.arg("--version");
    Ok(Environment {
        testbed: env!("CARGO_PKG_VERSION").to_owned(),
        transpute: printed(version, cancel)?,
        emulator: EMULATOR.to_owned(),
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
        ..Environment::default()
    })
}

/// Adds what is in force inside the namespaces of a lab.
pub(super) fn describe_inside(
    environment: &mut Environment,
    lab: &Lab,
    cancel: &AtomicBool,
) -> Result<(), RunError> {
    let ask = |setting: &str| {
        // Which namespace such a file tells of depends on who reads it.
        let mut command = lab.command(Side::A, "cat");
        command.arg(format!("/proc/sys/net/ipv4/{setting}"));
        printed(command, cancel).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    environment.congestion_control = ask("tcp_congestion_control")?;
    environment.tcp_rmem = ask("tcp_rmem")?;
    environment.tcp_wmem = ask("tcp_wmem")?;
    Ok(())
}

/// Runs a command and returns what it prints.
fn printed(command: Command, cancel: &AtomicBool) -> Result<String, RunError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let finished = Process::start(command)
        .and_then(|process| process.finish(Patience::new(LIMIT, cancel)))
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

/// Returns what a file of one line holds; nothing where it cannot be read.
fn line(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns what follows a name and a colon in a file.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    (text.lines())
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}
