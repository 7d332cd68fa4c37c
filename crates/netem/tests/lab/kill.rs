//! A lab leaves no trace behind, whenever and however its process ends.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transpute_netem::lab::{Lab, Side};

use super::{bench, scenario, turn};

/// An argument of `sleep`, in seconds, that identifies the programs of this test.
const MARK: &str = "98764.321";

/// The environment variable that makes [`victim`] run.
const ROLE: &str = "TRANSPUTE_LAB_VICTIM";

/// Starts labs with programs until it is killed. As a test of its own it does nothing.
#[test]
fn victim() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    loop {
        let lab = Lab::start(&scenario("rtt_ms = 1.0")).unwrap();
        let mut programs =
            [Side::A, Side::B].map(|side| lab.command(side, "sleep").arg(MARK).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(20));
        for program in &mut programs {
            program.kill().unwrap();
            program.wait().unwrap();
        }
    }
}

/// Returns everything that a lab could leave behind: programs of this test, descriptors of TUN
/// devices and of other network namespaces, processes in such namespaces, and devices of the host.
fn traces() -> BTreeSet<String> {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let mut traces = BTreeSet::new();
    for entry in std::fs::read_dir("/sys/class/net").unwrap().flatten() {
        traces.insert(format!("device {}", entry.file_name().display()));
    }
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let (path, name) = (process.path(), process.file_name().display().to_string());
        if name.parse::<u32>().is_err() {
            continue;
        }
        let arguments = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        if arguments.contains(MARK) || arguments.contains("kill::victim") {
            traces.insert(format!("process {name} {arguments:?}"));
        }
        let mut look = |link: &Path| {
            let Ok(target) = std::fs::read_link(link) else {
                return;
            };
            let text = target.to_string_lossy();
            if (text.starts_with("net:[") && target != own) || text == "/dev/net/tun" {
                traces.insert(format!("{} is {text}", link.display()));
            }
        };
        look(&path.join("ns/net"));
        for descriptor in std::fs::read_dir(path.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            look(&descriptor.path());
        }
    }
    traces
}

/// Starts and kills victims, at times that differ by microseconds, and looks for traces.
#[test]
fn a_hundred_kills_leave_nothing() {
    let times = 100;
    // `bench` reports that the test is skipped if labs do not work on this machine.
    let Some(first) = bench(&scenario("rtt_ms = 1.0")) else {
        return;
    };
    drop(first);
    let _turn = turn();
    let before = traces();
    let mut seen = 0;
    for round in 0..times {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::victim", "--nocapture"])
            .env(ROLE, "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Multiples of the golden ratio cover the first 60 ms evenly, in any number of rounds.
        let moment = (f64::from(round) * 0.618_033_988_7).fract() * 60.0;
        std::thread::sleep(Duration::from_secs_f64(moment / 1e3));
        seen += usize::from(traces() != before);
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
    assert!(seen > 0, "no victim had started a lab when it was killed");
    let start = Instant::now();
    loop {
        let left: Vec<_> = traces().difference(&before).cloned().collect();
        if left.is_empty() {
            break;
        }
        // The kernel needs a moment to end the processes killed last.
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "left behind: {left:#?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    println!(
        "killed {times} times, {seen} of them with something to leave behind: nothing is left"
    );
}
