//! A handle for observing a path that another thread uses.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use super::forward::{Published, lock};
use crate::model::PathCounters;

/// Upper bound on the size of the kernel's protocol statistics, in bytes.
const MAX_STATISTICS_BYTES: usize = 64 << 10;

/// An observer of a path. After the path has stopped, the observer returns the last state of the
/// path.
#[derive(Debug)]
pub struct View {
    published: Arc<Mutex<Published>>,
    statistics: [Option<File>; 2],
}

impl View {
    pub(super) fn new(published: Arc<Mutex<Published>>, statistics: [Option<OwnedFd>; 2]) -> Self {
        Self {
            published,
            statistics: statistics.map(|opened| opened.map(File::from)),
        }
    }

    /// Returns the packet counters of the directions up and down, up to now.
    #[must_use]
    pub fn counters(&self) -> [PathCounters; 2] {
        lock(&self.published).counters
    }

    /// Returns the wall-clock time at which the first packet of the parties was sent.
    #[must_use]
    pub fn first_packet(&self) -> Option<SystemTime> {
        lock(&self.published).parties.first_packet
    }

    /// Returns the number of TCP segments that both sides retransmitted, including those of cross
    /// traffic. Returns `None` if the kernel does not report it.
    #[must_use]
    pub fn retransmitted_segments(&self) -> Option<u64> {
        let [a, b] = self.statistics.each_ref().map(|file| {
            let mut text = vec![0; MAX_STATISTICS_BYTES];
            let length = file.as_ref()?.read_at(&mut text, 0).ok()?;
            text.truncate(length);
            tcp_counter(&String::from_utf8_lossy(&text), "RetransSegs")
        });
        Some(a? + b?)
    }
}

/// Returns a counter from two lines of names and values, both of which start with `Tcp:`.
fn tcp_counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names.split_whitespace().position(|known| known == name)?;
    values.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Lab, PARTY_PORT, Side};
    use super::*;
    use crate::{scenario::Scenario, testing::unless_skipped};

    #[test]
    fn counters_are_found_by_name() {
        let text =
            "Ip: a b\nIp: 1 2\nTcp: MaxConn InSegs RetransSegs\nTcp: -1 7 12\nUdp: x\nUdp: 1\n";
        assert_eq!(tcp_counter(text, "RetransSegs"), Some(12));
        assert_eq!(tcp_counter(text, "InSegs"), Some(7));
        assert_eq!(tcp_counter(text, "MaxConn"), None);
        assert_eq!(tcp_counter(text, "OutSegs"), None);
        assert_eq!(tcp_counter("Tcp: RetransSegs", "RetransSegs"), None);
    }

    #[test]
    fn retransmissions_are_counted() {
        // The round-trip time is longer than the initial retransmission timeout, so the SYN is
        // retransmitted while its answer is under way.
        let far = Scenario::parse("rtt_ms = 1300", "far").unwrap();
        let Some(lab) = unless_skipped(Lab::start(&far)) else {
            return;
        };
        let view = lab.view();
        assert_eq!(view.retransmitted_segments(), Some(0));
        assert_eq!(view.first_packet(), None);
        let listener = lab.listen(Side::A, PARTY_PORT).unwrap();
        let _connection = lab
            .connect(Side::B, listener.local_addr().unwrap())
            .unwrap();
        assert!(view.retransmitted_segments() >= Some(1));
        assert!(view.counters()[1].packets_out >= 1);
        assert!(view.first_packet().is_some());
        drop(lab);
        assert!(view.retransmitted_segments() >= Some(1));
    }
}
