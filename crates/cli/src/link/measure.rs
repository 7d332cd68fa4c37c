//! Reads the clock and the processor time of this process.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// The identity of a machine's clock.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Clock {
    /// The boot ID of the kernel, which changes at every boot. Namespaces and containers of one
    /// machine share the boot ID and the clock.
    pub(super) boot_id: Option<String>,
    /// Name of the host.
    pub(super) host: Option<String>,
}

impl Clock {
    pub(super) fn here() -> Self {
        let read = |name| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
            Some(text.trim().chars().take(64).collect())
        };
        Self {
            boot_id: read("random/boot_id"),
            host: read("hostname"),
        }
    }

    /// Returns whether both sides have the same clock, so that their times can be compared.
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }
}

/// Returns the time of the system's clock, in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

/// Counts the processor time of all threads of this process, in user mode and in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuMeter(Option<Duration>);

impl CpuMeter {
    pub(super) fn start() -> Self {
        Self(cpu_time())
    }

    pub(super) fn seconds(&self) -> Option<f64> {
        Some(cpu_time()?.saturating_sub(self.0?).as_secs_f64())
    }
}

/// Returns the processor time of getrusage(2), in nanoseconds.
#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_shared_only_if_both_say_so() {
        let here = Clock {
            boot_id: Some("a".into()),
            host: Some("x".into()),
        };
        let namespace = Clock {
            host: Some("y".into()),
            ..here.clone()
        };
        let elsewhere = Clock {
            boot_id: Some("b".into()),
            ..here.clone()
        };
        assert!(here.is_shared_with(&namespace));
        assert!(!here.is_shared_with(&elsewhere));
        assert!(!Clock::default().is_shared_with(&Clock::default()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_costs_processor_time() {
        let meter = CpuMeter::start();
        let mut sum = 0u64;
        while meter.seconds().unwrap() < 0.01 {
            sum = sum.wrapping_mul(3).wrapping_add(1);
        }
        std::hint::black_box(sum);
        assert!(Clock::here().boot_id.is_some());
    }
}
