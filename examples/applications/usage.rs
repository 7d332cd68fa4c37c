//! The processor time and memory that this process has used.

use serde::Serialize;

/// The resources that this process has used so far, as counted by the operating system.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    /// Processor time of all threads, user and kernel, in seconds; `None` if the system does not
    /// report it.
    pub cpu_s: Option<f64>,
    /// Peak of resident memory in bytes; `None` if the system does not report it.
    pub peak_resident_bytes: Option<u64>,
}

impl Usage {
    /// Reads the counters of the operating system.
    #[must_use]
    pub fn now() -> Self {
        Self {
            cpu_s: cpu_time(),
            peak_resident_bytes: peak_resident(),
        }
    }
}

#[cfg(unix)]
fn cpu_time() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

#[cfg(not(unix))]
fn cpu_time() -> Option<f64> {
    None
}

/// Returns the peak of resident memory in bytes. `None` on systems other than Linux.
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = (status.lines()).find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
