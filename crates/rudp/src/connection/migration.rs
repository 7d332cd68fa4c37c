//! A peer whose address changes: a NAT gives its connection another port, or it moves to another network.
//!
//! Only the connector moves. Data go to the old address until the peer answers a challenge at the new one, as in RFC 9000,
//! section 9. The old address is challenged too: somebody on the path may have sent a copy of a packet from elsewhere, and
//! then the peer is still where it was.

use std::net::SocketAddr;
use std::time::Duration;

use super::Connection;
use crate::Time;
use crate::config::Config;
use crate::frame::{put_challenge, put_response};
use crate::keys::Side;
use crate::mtu::Mtu;
use crate::rate::{HEADER_BYTES, Settings};
use crate::rtt::Rtt;
use crate::seal::PACKET_OVERHEAD;

/// Least time between two moves. An attacker who copies packets cannot make an end switch more often.
const MOVE_INTERVAL: Duration = Duration::from_secs(1);

/// Time between challenges that are not answered.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(200);

/// Challenges to one address.
const MAX_CHALLENGES: u8 = 5;

/// Time after which both addresses are given up: an answer to the last challenge takes a round trip of any path.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Bytes that may be sent to an address before it answers, per byte received from it (RFC 9000, section 8.1).
const AMPLIFICATION: u64 = 3;

/// Bytes of a packet with a challenge.
const CHALLENGE_BYTES: u64 = PACKET_OVERHEAD as u64 + 9;

/// Challenges of the peer that wait for an answer: one for each of two addresses.
const MAX_ANSWERS: usize = 2;

/// An address that packets of the peer came from.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    token: u64,
    left: u8,
    next: Option<Time>,
    /// Bytes that may still be sent there.
    allowance: u64,
}

/// What is known of the peer's addresses.
#[derive(Debug)]
pub(super) struct Migration {
    random: u64,
    /// The address to which the peer may have moved, and the one where it was.
    candidates: Vec<Candidate>,
    /// When the candidates were found.
    found_at: Time,
    moved_at: Option<Time>,
    /// Challenges of the peer to answer, each so many times more.
    answers: Vec<(u64, u8)>,
}

impl Migration {
    pub(super) fn new(random: u64) -> Self {
        Self {
            random,
            candidates: Vec::new(),
            found_at: Time::ZERO,
            moved_at: None,
            answers: Vec::new(),
        }
    }

    /// Returns a number that only the encryption of packets keeps from others (SplitMix64).
    fn token(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let token = self.random;
        let token = (token ^ (token >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let token = (token ^ (token >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        token ^ (token >> 31)
    }

    fn challenge(&mut self, now: Time, address: SocketAddr, allowance: u64) {
        let token = self.token();
        self.candidates.push(Candidate {
            address,
            token,
            left: MAX_CHALLENGES,
            next: Some(now),
            allowance,
        });
    }

    /// Handles a path challenge from the peer.
    pub(super) fn on_challenge(&mut self, token: u64) {
        // An answer may be lost: the peer asks again.
        self.answers.retain(|(known, _)| *known != token);
        self.answers.truncate(MAX_ANSWERS - 1);
        self.answers.insert(0, (token, 1));
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let until = (!self.candidates.is_empty()).then(|| self.found_at + MAX_WAIT);
        let challenges = self.candidates.iter().map(|candidate| candidate.next);
        challenges.chain([until]).flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if now >= self.found_at + MAX_WAIT {
            self.candidates.clear();
        }
    }

    /// Returns the challenge that is due, and counts it.
    fn take_challenge(&mut self, now: Time) -> Option<(SocketAddr, u64)> {
        let due = |candidate: &&mut Candidate| candidate.next.is_some_and(|at| at <= now);
        let candidate = self.candidates.iter_mut().find(due)?;
        candidate.left = candidate.left.saturating_sub(1);
        candidate.allowance = candidate.allowance.saturating_sub(CHALLENGE_BYTES);
        let may_repeat = candidate.left > 0 && candidate.allowance >= CHALLENGE_BYTES;
        candidate.next = may_repeat.then_some(now + CHALLENGE_INTERVAL);
        Some((candidate.address, candidate.token))
    }

    fn take_answer(&mut self) -> Option<u64> {
        let (token, left) = self.answers.iter_mut().find(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(*token)
    }
}

impl Connection {
    /// Looks at the address of an authentic packet.
    pub(super) fn check_address(
        &mut self,
        now: Time,
        (from, size): (SocketAddr, usize),
        is_newest: bool,
    ) {
        let migration = &mut self.migration;
        let allowance = AMPLIFICATION * size as u64;
        if let Some(known) = (migration.candidates.iter_mut()).find(|one| one.address == from) {
            known.allowance = known.allowance.saturating_add(allowance);
        }
        let may_move = (migration.moved_at).is_none_or(|at| now.since(at) >= MOVE_INTERVAL);
        if from != self.remote
            && self.side == Side::Listener
            && is_newest
            && may_move
            && migration.candidates.is_empty()
            && allowance >= CHALLENGE_BYTES
        {
            migration.found_at = now;
            migration.challenge(now, from, allowance);
            // The peer has shown that it is, or was, at the old address.
            migration.challenge(now, self.remote, u64::MAX);
        }
    }

    /// The peer answers a challenge from this address.
    pub(super) fn on_response(&mut self, now: Time, from: SocketAddr, token: u64) {
        let fits = |candidate: &Candidate| candidate.token == token && candidate.address == from;
        if !self.migration.candidates.iter().any(fits) {
            return;
        }
        self.migration.candidates.clear();
        if from != self.remote {
            self.move_to(now, from);
        }
    }

    /// Goes on at another address, of whose path nothing is known.
    fn move_to(&mut self, now: Time, address: SocketAddr) {
        self.remote = address;
        self.migration.moved_at = Some(now);
        self.counters.moves += 1;
        self.rtt = Rtt::default();
        self.backoff = 0;
        self.controller = self.config.controller.controller(&settings(&self.config));
        self.mtu = Mtu::new(self.mtu.most());
        self.seeded = false;
        self.unproven = false;
        self.data_train = None;
        self.now_pacing(now);
    }

    /// Appends a challenge or an answer to one. Returns where to, and its length.
    pub(super) fn path_packet(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<(SocketAddr, usize)> {
        let start = out.len();
        let challenge = self.migration.take_challenge(now);
        let answer = match challenge {
            Some(_) => None,
            None => Some(self.migration.take_answer()?),
        };
        self.begin(out);
        if let Some((_, token)) = challenge {
            put_challenge(out, token);
        }
        if let Some(token) = answer {
            put_response(out, token);
        }
        self.seal(now, out, start)?;
        let to = challenge.map_or(self.remote, |(address, _)| address);
        Some((to, out.len() - start))
    }
}

/// Returns the settings of the rate controller.
pub(super) fn settings(config: &Config) -> Settings {
    Settings {
        packet_bytes: u64::from(config.max_datagram.max(crate::mtu::MIN_DATAGRAM)) + HEADER_BYTES,
        fixed_rate: (config.prior.rate).map_or(Settings::default().fixed_rate, |rate| {
            rate.bytes_per_second() as u64
        }),
        ..Settings::default()
    }
}
