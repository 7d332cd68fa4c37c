//! Cycles and instructions of a process, from the kernel's performance counters.
//!
//! Many virtual machines have no counters, and many kernels deny them to users
//! (`perf_event_paranoid`). So a count is always optional, and [`describe`] returns the reason for
//! a missing count.

use std::{hint::black_box, io};

use perf_event::{
    Builder, CountAndTime, Counter,
    events::{Event, Hardware},
};

/// The processor modes in which a hardware counter counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    UserAndKernel,
    UserOnly,
}

/// The threads and processes whose events a counter counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CounterTarget {
    /// The calling thread, from now on.
    ThisThread,
    /// The programs that this thread starts from now on, with all their threads and child
    /// processes. A counter on a running process would miss its existing threads.
    Started,
}

/// Counters of cycles and instructions of the programs that a thread starts.
#[derive(Debug, Default)]
pub(crate) struct ProcessCounters {
    cycles: Option<Counter>,
    instructions: Option<Counter>,
}

impl ProcessCounters {
    /// Creates counters for the programs that the calling thread starts from now on. A counter is
    /// `None` if this machine cannot provide it. Counting begins when a child process executes its
    /// program.
    pub(crate) fn of_started() -> Self {
        let open = |event| Some(open_widest(event, CounterTarget::Started).ok()?.0);
        Self {
            cycles: open(Hardware::CPU_CYCLES),
            instructions: open(Hardware::INSTRUCTIONS),
        }
    }

    /// Returns the numbers of cycles and instructions so far. They are complete after the process
    /// was waited for, because the kernel adds the count of a thread when the thread ends.
    pub(crate) fn read(&mut self) -> [Option<u64>; 2] {
        [&mut self.cycles, &mut self.instructions]
            .map(|counter| total(counter.as_mut()?.read_count_and_time().ok()?))
    }
}

/// Describes the hardware counters: `user and kernel`, `user only`, or `none: ` with the reason.
pub(crate) fn describe() -> String {
    match probe() {
        Ok(Scope::UserAndKernel) => "user and kernel".to_owned(),
        Ok(Scope::UserOnly) => "user only".to_owned(),
        Err(reason) => format!("none: {reason}"),
    }
}

/// Tests the counters: counts cycles and instructions of a short loop in this thread. Returns the
/// reason if they do not work.
fn probe() -> Result<Scope, String> {
    let mut scopes = [Scope::UserAndKernel; 2];
    for (event, scope) in
        ([Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS].into_iter()).zip(&mut scopes)
    {
        let (mut counter, found) =
            open_widest(event, CounterTarget::ThisThread).map_err(|error| reason(&error))?;
        *scope = found;
        // Some hypervisors offer counters that do not advance.
        for number in 0..100_000_u32 {
            black_box(number);
        }
        let count = counter
            .read_count_and_time()
            .map_err(|error| reason(&error))?;
        if total(count).is_none_or(|count| count == 0) {
            return Err("the counters of this machine stand still".to_owned());
        }
    }
    Ok(match scopes {
        [Scope::UserAndKernel, Scope::UserAndKernel] => Scope::UserAndKernel,
        _ => Scope::UserOnly,
    })
}

/// Opens a counter of user and kernel mode. Opens a counter of user mode only if the system denies
/// counting in kernel mode.
fn open_widest(event: impl Event + Clone, whose: CounterTarget) -> io::Result<(Counter, Scope)> {
    match open(event.clone(), whose, Scope::UserAndKernel) {
        Ok(counter) => Ok((counter, Scope::UserAndKernel)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok((open(event, whose, Scope::UserOnly)?, Scope::UserOnly))
        }
        Err(error) => Err(error),
    }
}

fn open(event: impl Event, whose: CounterTarget, scope: Scope) -> io::Result<Counter> {
    let started = whose == CounterTarget::Started;
    let mut builder = Builder::new(event);
    builder
        .inherit(started)
        .enable_on_exec(started)
        .enabled(!started);
    builder.exclude_kernel(scope == Scope::UserOnly);
    builder.build()
}

/// Returns the count. If other users shared the hardware counter, the kernel counted only for a
/// part of the time, and the count is scaled up. None if the kernel never counted.
fn total(count: CountAndTime) -> Option<u64> {
    if count.time_running == 0 {
        return None;
    }
    let scaled = u128::from(count.count) * u128::from(count.time_enabled.max(count.time_running))
        / u128::from(count.time_running);
    u64::try_from(scaled).ok()
}

/// Describes in one line why a counter cannot be opened.
fn reason(error: &io::Error) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            format!("this machine does not have them ({error})")
        }
        io::ErrorKind::PermissionDenied => format!(
            "forbidden ({error}); kernel.perf_event_paranoid is {}",
            paranoid.as_deref().map_or("unknown", str::trim)
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, sync::atomic::AtomicBool, thread, time::Duration};

    use perf_event::events::Software;

    use super::*;
    use crate::measure::{Deadline, Process, Usage};

    const ROLE: &str = "TRANSPUTE_PERF_BURNER";

    /// Keeps the processor busy in two threads. Another test starts this test as a child process
    /// and sets the environment variable `ROLE`. Without this variable, the test does nothing.
    #[test]
    fn burner() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let burn = || {
            for number in 0..200_000_000_u64 {
                black_box(number);
            }
        };
        thread::scope(|scope| {
            scope.spawn(burn);
            scope.spawn(burn);
        });
    }

    fn burning() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "perf::tests::burner", "--nocapture"])
            .env(ROLE, "1");
        command
    }

    fn used(process: Process) -> Usage {
        let never = AtomicBool::new(false);
        let patience = Deadline::new(Duration::from_secs(300), &never);
        process.finish(patience).unwrap().usage
    }

    /// Compares a counter that all machines have, processor time, with the kernel's accounts:
    /// threads are counted, other processes are not, and the count outlives the process.
    #[test]
    fn threads_of_the_process_count_after_its_end() {
        let open = || open_widest(Software::TASK_CLOCK, CounterTarget::Started);
        let (process, opened) = Process::start_from_thread(burning(), None, open).unwrap();
        let mut counter = match opened {
            Ok((counter, _)) => counter,
            Err(error) => {
                transpute_netem::testing::skip(error);
                return;
            }
        };
        let other = Process::start(burning()).unwrap();
        let usage = used(process);
        used(other);
        let count = total(counter.read_count_and_time().unwrap()).unwrap();
        let (counted, used) = (
            Duration::from_nanos(count).as_secs_f64(),
            (usage.user + usage.system).as_secs_f64(),
        );
        println!("task clock {counted:.3} s, accounts {used:.3} s");
        assert!(
            (0.8 * used..1.2 * used + 0.02).contains(&counted),
            "{counted} s of {used} s"
        );
    }

    #[test]
    fn there_are_hardware_counts_or_a_reason() {
        let scope = describe();
        println!("hardware counters: {scope}");
        let usage = used(Process::start_counted(burning()).unwrap());
        if let Some(reason) = scope.strip_prefix("none: ") {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            assert_eq!((usage.cycles, usage.instructions), (None, None));
        } else {
            assert!(
                ["user and kernel", "user only"].contains(&&*scope),
                "{scope}"
            );
            // Two loops of 2 * 10^8 iterations with at least one instruction each.
            assert!(usage.instructions.unwrap() > 400_000_000, "{usage:?}");
            assert!(usage.cycles.unwrap() > 10_000_000, "{usage:?}");
        }
    }

    #[test]
    fn shared_counters_are_scaled() {
        let count = |count, time_enabled, time_running| CountAndTime {
            count,
            time_enabled,
            time_running,
        };
        assert_eq!(total(count(70, 10, 10)), Some(70));
        assert_eq!(total(count(70, 20, 10)), Some(140));
        assert_eq!(total(count(0, 20, 0)), None);
        assert_eq!(total(count(u64::MAX, 20, 10)), None);
    }

    #[test]
    fn reasons_are_a_line() {
        for kind in [
            io::ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::Other,
        ] {
            let text = reason(&kind.into());
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
        }
    }
}
