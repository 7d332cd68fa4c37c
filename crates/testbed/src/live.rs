//! Lets other threads observe the state of a run in progress.

use std::{
    fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use transpute_netem::{
    lab::{Lab, Side, View},
    model::PathCounters,
};

use crate::measure::StderrCallback;

/// Prefix of a line in which a party reports a phase. The name of the phase follows, and its time
/// in nanoseconds since 1970.
const PHASE: &str = "phase ";

/// Maximum number of reported phases that are stored for one run.
const MAX_PHASES: usize = 64;

/// Maximum length of a phase line, in bytes. The rest of a longer line is ignored.
const MAX_LINE_BYTES: usize = 200;

/// A handle through which any thread observes the run in progress. Clones share the run.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    last: Option<LiveState>,
}

#[derive(Debug)]
struct Current {
    view: View,
    /// The process IDs of the leaders of the parties' process groups.
    leaders: [Option<u32>; 2],
    whole_groups: bool,
    phases: Phases,
}

type Phases = Arc<Mutex<Vec<Heard>>>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Heard {
    side: Side,
    name: PhaseName,
    when: SystemTime,
}

/// A point in a run. Each party reports the time at which it reaches this point.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PhaseName {
    /// The party's process has started.
    Started,
    /// Both parties are connected.
    Connected,
    /// The parties have agreed on the computation.
    Agreed,
    /// The labels of the evaluator's inputs of the first evaluation were sent or received.
    FirstLabels,
    /// The first chunk of tables was sent or received.
    FirstTable,
    /// The last table was sent or received.
    LastTable,
    /// The last output is known.
    Output,
    /// The session has ended.
    End,
}

/// A party of a run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartyName {
    /// Party A.
    Garbler,
    /// Party B.
    Evaluator,
}

/// The time at which a party reached a phase.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Phase {
    /// The party.
    pub party: PartyName,
    /// The phase.
    pub phase: PhaseName,
    /// Time since the parties' first packet, in milliseconds. None before that packet.
    pub at_ms: Option<f64>,
}

/// Resources that the processes of a party have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// The state of a run at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveState {
    /// Time since the parties' first packet. None before that packet.
    pub elapsed: Option<Duration>,
    /// Counters of packets, from garbler to evaluator and back.
    pub counters: [PathCounters; 2],
    /// Number of segments that TCP has retransmitted on both sides. None if the kernel does not
    /// report it.
    pub retransmitted_segments: Option<u64>,
    /// Resources of the parties. None for a party that is not running.
    pub parties: [Option<Use>; 2],
    /// Phases that the parties have reported.
    pub phases: Vec<Phase>,
}

impl Live {
    /// Returns the state of the run in progress, if there is one.
    #[must_use]
    pub fn look(&self) -> Option<LiveState> {
        self.lock().current.as_ref().map(Current::look)
    }

    /// Returns the state of the last run immediately before its path was removed. A second call
    /// returns `None`.
    #[must_use]
    pub fn take_last(&self) -> Option<LiveState> {
        self.lock().last.take()
    }

    /// Makes a run visible through this handle until the returned value is dropped.
    pub(crate) fn begin(&self, lab: &Lab, whole_groups: bool) -> Shown<'_> {
        let mut state = self.lock();
        state.last = None;
        state.current = Some(Current {
            view: lab.view(),
            leaders: [None; 2],
            whole_groups,
            phases: Phases::default(),
        });
        Shown(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each write is complete, so a panic of another thread leaves valid values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a run visible through a [`Live`] handle until dropped.
#[derive(Debug)]
pub(crate) struct Shown<'a>(&'a Live);

impl Shown<'_> {
    /// Makes the resources of a party visible. `leader` is the ID of its process, or of the leader
    /// of its process group.
    pub(crate) fn party(&self, side: Side, leader: u32) {
        if let Some(current) = &mut self.0.lock().current {
            current.leaders[side.index()] = Some(leader);
            note(&current.phases, side, PhaseName::Started, SystemTime::now());
        }
    }

    /// Returns a callback that parses the phases in the standard error of a party.
    pub(crate) fn on_stderr(&self, side: Side) -> Option<StderrCallback> {
        let phases = Arc::clone(&self.0.lock().current.as_ref()?.phases);
        let mut lines = Lines::default();
        Some(Box::new(move |bytes| {
            lines.take(bytes, |line| {
                if let Some((name, when)) = read_phase(line) {
                    note(&phases, side, name, when);
                }
            });
        }))
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.last = state.current.take().map(|current| current.look());
    }
}

fn note(phases: &Phases, side: Side, name: PhaseName, when: SystemTime) {
    let mut phases = lock(phases);
    if phases.len() < MAX_PHASES {
        phases.push(Heard { side, name, when });
    }
}

impl Current {
    fn look(&self) -> LiveState {
        let first = self.view.first_packet();
        let since = |when: SystemTime| when.duration_since(first?).ok();
        let phases = lock(&self.phases);
        let phases = phases.iter().map(|heard| Phase {
            party: match heard.side {
                Side::A => PartyName::Garbler,
                Side::B => PartyName::Evaluator,
            },
            phase: heard.name,
            at_ms: since(heard.when).map(|after| after.as_secs_f64() * 1e3),
        });
        LiveState {
            elapsed: since(SystemTime::now()),
            counters: self.view.counters(),
            retransmitted_segments: self.view.retransmitted_segments(),
            parties: (self.leaders).map(|leader| match self.whole_groups {
                false => Use::of_process(leader?),
                true => Use::of_group(leader?),
            }),
            phases: phases.collect(),
        }
    }
}

/// Splits a stream of bytes into lines. It stores the bytes of the incomplete line.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' {
                each(&String::from_utf8_lossy(&self.0));
                self.0.clear();
            } else if self.0.len() < MAX_LINE_BYTES {
                self.0.push(byte);
            }
        }
    }
}

fn read_phase(line: &str) -> Option<(PhaseName, SystemTime)> {
    let (name, nanoseconds) = line.strip_prefix(PHASE)?.split_once(' ')?;
    let name = match name {
        "connected" => PhaseName::Connected,
        "agreed" => PhaseName::Agreed,
        "first-labels" => PhaseName::FirstLabels,
        "first-table" => PhaseName::FirstTable,
        "last-table" => PhaseName::LastTable,
        "output" => PhaseName::Output,
        _ => return None,
    };
    let after = Duration::from_nanos(nanoseconds.parse().ok()?);
    Some((name, SystemTime::UNIX_EPOCH.checked_add(after)?))
}

impl Use {
    fn of_process(id: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Stat::read(&text).map(|stat| stat.uses)
    }

    /// Adds up the resources of all processes of a group, including child processes that have ended
    /// and were waited for.
    fn of_group(leader: u32) -> Option<Self> {
        let mut sum = None;
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let name = entry.file_name();
            let is_process = (name.to_str()).is_some_and(|name| name.parse::<u32>().is_ok());
            if !is_process {
                continue;
            }
            let stat = fs::read_to_string(entry.path().join("stat")).ok();
            let Some(stat) = stat.as_deref().and_then(Stat::read) else {
                continue;
            };
            if stat.group == leader {
                let sum = sum.get_or_insert(Self::default());
                sum.user += stat.uses.user + stat.children.0;
                sum.system += stat.uses.system + stat.children.1;
                sum.rss_bytes = sum.rss_bytes.saturating_add(stat.uses.rss_bytes);
            }
        }
        sum
    }
}

/// The fields of `/proc/ID/stat` that this module uses.
struct Stat {
    group: u32,
    uses: Use,
    /// User time and system time of child processes that have ended and were waited for.
    children: (Duration, Duration),
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may contain any character.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // proc(5) numbers the fields from 1. The state, the first field here, is number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let time = |number| {
            let ticks = field(number)?;
            Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
        };
        let page = rustix::param::page_size() as u64;
        Some(Self {
            group: u32::try_from(field(5)?).ok()?,
            uses: Use {
                user: time(14)?,
                system: time(15)?,
                rss_bytes: field(24)?.saturating_mul(page),
            },
            children: (time(16)?, time(17)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_heard_in_pieces_and_noise_is_not() {
        let mut lines = Lines::default();
        let mut heard = Vec::new();
        let text = b"listening on 1.2.3.4:5\nphase connected 1500000000\nphase lunch 1\nphase agreed x\nphase output 2000000000\n";
        for piece in text.chunks(7) {
            lines.take(piece, |line| heard.extend(read_phase(line)));
        }
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        assert_eq!(
            heard,
            [
                (PhaseName::Connected, at(1.5)),
                (PhaseName::Output, at(2.0))
            ]
        );
        // Only the first `MAX_LINE_BYTES` of a long line are stored.
        lines.take(&vec![b'x'; 1 << 20], |_| panic!("no line"));
        assert_eq!(lines.0.len(), MAX_LINE_BYTES);
    }

    #[test]
    fn what_a_process_uses_is_read_whatever_its_name() {
        let text = "12 (a) b (c) R 1 34 12 0 -1 4194560 100 0 0 0 150 50 7 3 20 0 4 0 100 1000000 25 99 1 1";
        let stat = Stat::read(text).unwrap();
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(stat.group, 34);
        assert_eq!(stat.uses.user, Duration::from_secs_f64(150.0 / second));
        assert_eq!(stat.uses.system, Duration::from_secs_f64(50.0 / second));
        assert_eq!(stat.children.0, Duration::from_secs_f64(7.0 / second));
        assert_eq!(stat.uses.rss_bytes, 25 * rustix::param::page_size() as u64);
        assert!(Stat::read("12 (a) R 1").is_none());
        let own = Use::of_process(std::process::id()).unwrap();
        assert!(own.rss_bytes > 100_000);
    }
}
