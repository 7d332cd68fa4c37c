//! What makes sense in a scenario.

use std::fmt::Display;

use super::{Change, GilbertElliott, PathConfig, Scenario, ScenarioError};
use crate::config_file::ConfigFileError;

/// Longer than to the Moon and back, in milliseconds.
const MAX_DELAY_MS: f64 = 60_000.0;

/// In Mbit/s; far beyond what the emulator sustains.
const MAX_RATE_MBIT: f64 = 400_000.0;

/// In Mbit/s: a packet of 1,500 bytes takes 12 s.
const MIN_RATE_MBIT: f64 = 0.001;

/// In bytes; the queue is held in memory.
const MAX_QUEUE_BYTES: u64 = 1 << 30;

/// In bandwidth-delay products.
const MAX_QUEUE_BDP: f64 = 100.0;

/// What every IPv4 host must accept, in bytes.
const MIN_MTU: u32 = 576;

/// The largest IP packet, in bytes.
const MAX_MTU: u32 = 65_535;

/// In bytes: what the kernel rounds smaller ones up to, and the most that an `int` holds.
const SOCKET_BUFFERS: std::ops::RangeInclusive<u64> = 4096..=i32::MAX as u64;

const MAX_FLOWS: u32 = 64;

/// Seconds of a day: nothing changes later.
const MAX_CHANGE_S: f64 = 86_400.0;

const MAX_CHANGES: usize = 10_000;

/// The longest name of a congestion control, by the kernel's `TCP_CA_NAME_MAX`.
const MAX_CONGESTION_CONTROL: usize = 15;

impl Scenario {
    /// Checks that everything is in range and fits together.
    ///
    /// [`parse`](Self::parse), [`open`](Self::open) and [`load`](Self::load) return checked
    /// scenarios; one that is made by hand or changed is checked with this.
    ///
    /// # Errors
    /// [`ScenarioError::File`] for the first field that is wrong.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.validate_as(&self.name)
    }

    /// Checks a scenario that messages call `origin`.
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
                "1 to 80 letters, digits and any of \"-_.,=+\" are wanted",
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
            let (least, most) = (SOCKET_BUFFERS.start(), SOCKET_BUFFERS.end());
            return outside("socket_buffer", bytes, least, most);
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
                // Without a bottleneck the flows would only fight for the processor.
                return problem("cross_traffic", "only for a path with rate_mbit both ways");
            }
        }
        check_path("up", &self.up, self.mtu)?;
        check_path("down", &self.down, self.mtu)
    }
}

/// A field and what is wrong with it.
type Problem = (String, String);

fn problem<T>(field: impl Into<String>, problem: impl Into<String>) -> Result<T, Problem> {
    Err((field.into(), problem.into()))
}

fn outside<T>(
    field: impl Into<String>,
    value: impl Display,
    least: impl Display,
    most: impl Display,
) -> Result<T, Problem> {
    problem(field, format!("{value} is not between {least} and {most}"))
}

/// Checks a number that may be absent. Not a number is outside of every range.
fn within(field: String, value: Option<f64>, least: f64, most: f64) -> Result<(), Problem> {
    match value {
        Some(value) if !(least..=most).contains(&value) => outside(field, value, least, most),
        _ => Ok(()),
    }
}

fn check_congestion_control(field: &str, name: &str) -> Result<(), Problem> {
    let is_plain = (name.chars()).all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if name.is_empty() || name.len() > MAX_CONGESTION_CONTROL || !is_plain {
        return problem(
            field,
            format!("{name:?} is no name of a congestion control"),
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
        return problem(field("queue_bdp"), "either this or queue_bytes, not both");
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

/// Checks the ranges of what a path starts with or changes to.
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
            "0 would make the first burst the last",
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
