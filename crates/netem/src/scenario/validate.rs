//! Validation of scenarios.

use std::fmt::Display;

use super::{Change, GilbertElliott, PathConfig, Scenario, ScenarioError};
use crate::config_file::ConfigFileError;

/// Maximum one-way delay, in milliseconds. Chosen: far more than on any real path.
const MAX_DELAY_MS: f64 = 60_000.0;

/// Maximum rate, in Mbit/s. Chosen: far more than the emulator sustains.
const MAX_RATE_MBIT: f64 = 400_000.0;

/// Minimum rate, in Mbit/s. Chosen: at this rate, a packet of 1,500 bytes takes 12 s.
const MIN_RATE_MBIT: f64 = 0.001;

/// Maximum size of a queue, in bytes, because the queue is held in memory.
const MAX_QUEUE_BYTES: u64 = 1 << 30;

/// Maximum size of a queue, in bandwidth-delay products.
const MAX_QUEUE_BDP: f64 = 100.0;

/// Minimum MTU, in bytes: the size that every IPv4 host must accept (RFC 791).
const MIN_MTU: u32 = 576;

/// Maximum MTU, in bytes: the largest IP packet.
const MAX_MTU: u32 = 65_535;

/// Valid sizes of socket buffers, in bytes: the kernel rounds smaller ones up, and holds the size
/// in an `int`.
const SOCKET_BUFFERS: std::ops::RangeInclusive<u64> = 4096..=i32::MAX as u64;

/// Maximum number of flows of cross traffic per direction.
const MAX_FLOWS: u32 = 64;

/// Maximum time of a change, in seconds: one day.
const MAX_CHANGE_S: f64 = 86_400.0;

/// Maximum number of changes per direction.
const MAX_CHANGES: usize = 10_000;

/// Maximum length of the name of a congestion control, in bytes (`TCP_CA_NAME_MAX` of the kernel).
const MAX_CONGESTION_CONTROL: usize = 15;

impl Scenario {
    /// Checks that all values are in range and consistent.
    ///
    /// [`parse`](Self::parse), [`open`](Self::open) and [`load`](Self::load) return validated
    /// scenarios. Use this for scenarios that are created or changed in code.
    ///
    /// # Errors
    /// Returns [`ScenarioError::File`] for the first invalid field.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.validate_as(&self.name)
    }

    /// Validates a scenario. Error messages refer to it as `origin`.
    pub(super) fn validate_as(&self, origin: &str) -> Result<(), ScenarioError> {
        self.check().map_err(|(field, problem)| {
            let origin = origin.to_owned();
            ConfigFileError::Field {
                origin,
                field,
                problem,
            }
            .into()
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let name_is_plain = (self.name.chars())
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ',' | '=' | '+'));
        if self.name.is_empty() || self.name.len() > 80 || !name_is_plain {
            return problem(
                "name",
                "expected 1 to 80 letters, digits and characters of \"-_.,=+\"",
            );
        }
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return outside("mtu", self.mtu, MIN_MTU, MAX_MTU);
        }
        if let Some(name) = &self.congestion_control {
            check_congestion_control("congestion_control", name)?;
        }
        if let Some(bytes) = self.socket_buffer
            && !SOCKET_BUFFERS.contains(&bytes)
        {
            let (min, max) = (SOCKET_BUFFERS.start(), SOCKET_BUFFERS.end());
            return outside("socket_buffer", bytes, min, max);
        }
        if let Some(cross) = &self.cross_traffic {
            if !(1..=MAX_FLOWS).contains(&cross.flows) {
                return outside("cross_traffic.flows", cross.flows, 1, MAX_FLOWS);
            }
            check_congestion_control(
                "cross_traffic.congestion_control",
                &cross.congestion_control,
            )?;
            if self.up.rate_mbit.is_none() || self.down.rate_mbit.is_none() {
                // Without a bottleneck the flows would compete only for the processor.
                return problem("cross_traffic", "only for a path with rate_mbit both ways");
            }
        }
        check_path("up", &self.up, self.mtu)?;
        check_path("down", &self.down, self.mtu)
    }
}

/// A field and the problem with its value.
type Problem = (String, String);

fn problem<T>(field: impl Into<String>, problem: impl Into<String>) -> Result<T, Problem> {
    Err((field.into(), problem.into()))
}

fn outside<T>(
    field: impl Into<String>,
    value: impl Display,
    min: impl Display,
    max: impl Display,
) -> Result<T, Problem> {
    problem(field, format!("{value} is not between {min} and {max}"))
}

/// Checks the range of an optional number. NaN is outside of every range.
fn within(field: String, value: Option<f64>, min: f64, max: f64) -> Result<(), Problem> {
    match value {
        Some(value) if !(min..=max).contains(&value) => outside(field, value, min, max),
        _ => Ok(()),
    }
}

fn check_congestion_control(field: &str, name: &str) -> Result<(), Problem> {
    let is_plain = (name.chars()).all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if name.is_empty() || name.len() > MAX_CONGESTION_CONTROL || !is_plain {
        return problem(
            field,
            format!("{name:?} is not the name of a congestion control"),
        );
    }
    Ok(())
}

fn check_path(table: &str, path: &PathConfig, mtu: u32) -> Result<(), Problem> {
    let field = |name: &str| format!("{table}.{name}");
    let numbers = Change {
        at_s: 0.0,
        delay_ms: Some(path.delay_ms),
        jitter_ms: Some(path.jitter_ms),
        loss: Some(path.loss),
        burst: path.burst,
        reorder: Some(path.reorder),
        duplicate: Some(path.duplicate),
        rate_mbit: path.rate_mbit,
        queue_bytes: path.queue_bytes,
        path_mtu: path.path_mtu,
    };
    check_numbers(table, &numbers)?;
    within(field("queue_bdp"), path.queue_bdp, 0.0, MAX_QUEUE_BDP)?;
    let named = if path.queue_bdp.is_some() {
        "queue_bdp"
    } else {
        "queue_bytes"
    };
    if path.queue_bytes.is_some() && path.queue_bdp.is_some() {
        return problem(
            field("queue_bdp"),
            "expected either queue_bdp or queue_bytes, not both",
        );
    }
    let has_queue = path.queue_bytes.is_some() || path.queue_bdp.is_some();
    match path.queue_limit_bytes() {
        None if has_queue => {
            return problem(field(named), "a queue needs a bottleneck: give rate_mbit");
        }
        Some(bytes) => check_queue(field(named), bytes, mtu)?,
        None => {}
    }
    if path.jitter_ms > path.delay_ms {
        return problem(
            field("jitter_ms"),
            format!(
                "{} is more than the one-way delay, which is {}",
                path.jitter_ms, path.delay_ms
            ),
        );
    }
    check_changes(table, path, mtu)
}

fn check_queue(field: String, bytes: u64, mtu: u32) -> Result<(), Problem> {
    if bytes < u64::from(mtu) {
        let text = format!("a queue of {bytes} bytes has no room for a packet of mtu {mtu}");
        return problem(field, text);
    }
    if bytes > MAX_QUEUE_BYTES {
        return outside(field, bytes, mtu, MAX_QUEUE_BYTES);
    }
    Ok(())
}

/// Checks the ranges of the initial values of a path, or those of a change.
fn check_numbers(table: &str, numbers: &Change) -> Result<(), Problem> {
    let field = |name: &str| format!("{table}.{name}");
    within(field("delay_ms"), numbers.delay_ms, 0.0, MAX_DELAY_MS)?;
    within(field("jitter_ms"), numbers.jitter_ms, 0.0, MAX_DELAY_MS)?;
    within(field("loss"), numbers.loss, 0.0, 1.0)?;
    within(field("reorder"), numbers.reorder, 0.0, 1.0)?;
    within(field("duplicate"), numbers.duplicate, 0.0, 1.0)?;
    within(
        field("rate_mbit"),
        numbers.rate_mbit,
        MIN_RATE_MBIT,
        MAX_RATE_MBIT,
    )?;
    if let Some(bytes) = numbers.path_mtu
        && !(MIN_MTU..=MAX_MTU).contains(&bytes)
    {
        return outside(field("path_mtu"), bytes, MIN_MTU, MAX_MTU);
    }
    let Some(GilbertElliott {
        p_enter,
        p_leave,
        loss_good,
        loss_bad,
    }) = numbers.burst
    else {
        return Ok(());
    };
    for (name, value) in [
        ("burst.p_enter", p_enter),
        ("burst.p_leave", p_leave),
        ("burst.loss_good", loss_good),
        ("burst.loss_bad", loss_bad),
    ] {
        within(field(name), Some(value), 0.0, 1.0)?;
    }
    if p_enter > 0.0 && p_leave == 0.0 {
        return problem(
            field("burst.p_leave"),
            "expected more than 0, because the first burst would never end",
        );
    }
    Ok(())
}

fn check_changes(table: &str, path: &PathConfig, mtu: u32) -> Result<(), Problem> {
    if path.changes.len() > MAX_CHANGES {
        let count = path.changes.len();
        return outside(format!("{table}.changes"), count, 0, MAX_CHANGES);
    }
    let mut last = 0.0;
    let (mut delay, mut jitter) = (path.delay_ms, path.jitter_ms);
    for (index, change) in path.changes.iter().enumerate() {
        let table = format!("{table}.changes[{index}]");
        let field = |name: &str| format!("{table}.{name}");
        within(field("at_s"), Some(change.at_s), 0.0, MAX_CHANGE_S)?;
        if change.at_s < last {
            return problem(field("at_s"), "changes must be in order of time");
        }
        last = change.at_s;
        check_numbers(&table, change)?;
        if path.rate_mbit.is_none() {
            let needs = "only for a path that has a rate_mbit from the start";
            if change.rate_mbit.is_some() {
                return problem(field("rate_mbit"), needs);
            }
            if change.queue_bytes.is_some() {
                return problem(field("queue_bytes"), needs);
            }
        }
        if let Some(bytes) = change.queue_bytes {
            check_queue(field("queue_bytes"), bytes, mtu)?;
        }
        delay = change.delay_ms.unwrap_or(delay);
        jitter = change.jitter_ms.unwrap_or(jitter);
        if jitter > delay {
            let text =
                format!("the jitter, {jitter}, is then more than the one-way delay, {delay}");
            let name = if change.jitter_ms.is_some() {
                "jitter_ms"
            } else {
                "delay_ms"
            };
            return problem(field(name), text);
        }
    }
    Ok(())
}
