//! Connection migration: a NAT assigns the peer another port, or the peer moves to another network.
//!
//! Only the connector may migrate. Data are sent to the old address until the peer answers a
//! challenge at the new one (RFC 9000, section 9). The old address is challenged as well, because
//! an attacker on the path may have sent a copy of a packet from elsewhere. Then the peer is still
//! at the old address.

use std::net::SocketAddr;
use std::time::Duration;

use super::RudpConnection;
use crate::Time;
use crate::config::RudpConfig;
use crate::frame::{put_challenge, put_response};
use crate::handshake::AMPLIFICATION_FACTOR;
use crate::keys::EndpointSide;
use crate::mtu::Mtu;
use crate::rate::{ControllerSettings, HEADER_BYTES};
use crate::rtt::Rtt;
use crate::seal::PACKET_OVERHEAD;

/// The minimum time between two migrations. It bounds how often an attacker who copies packets can
/// make an end switch.
const MIN_MIGRATION_INTERVAL: Duration = Duration::from_secs(1);

/// The interval between challenges that are not answered.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(200);

/// The maximum number of challenges to one address.
const MAX_CHALLENGES: u8 = 5;

/// The time after which validation of both addresses is given up. An answer to the last challenge
/// takes less time on any path.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(3);

/// The size of a packet with a challenge, in bytes of UDP payload.
const CHALLENGE_BYTES: u64 = PACKET_OVERHEAD as u64 + 9;

/// The maximum number of the peer's challenges that wait for an answer: one for each of two
/// addresses.
const MAX_ANSWERS: usize = 2;

/// An address from which packets of the peer came.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    token: u64,
    left: u8,
    next: Option<Time>,
    /// Bytes that may still be sent to the address.
    allowance: u64,
}

/// The state of address validation.
#[derive(Debug)]
pub(super) struct Migration {
    random: u64,
    /// The address to which the peer may have moved, and its previous address.
    candidates: Vec<Candidate>,
    /// The time at which the candidates were found.
    found_at: Time,
    migrated_at: Option<Time>,
    /// Challenges of the peer, each with the number of answers still to send.
    answers: Vec<(u64, u8)>,
}

impl Migration {
    pub(super) fn new(random: u64) -> Self {
        Self {
            random,
            candidates: Vec::new(),
            found_at: Time::ZERO,
            migrated_at: None,
            answers: Vec::new(),
        }
    }

    /// Returns a pseudorandom number (SplitMix64) for a challenge. It is secret only because
    /// packets are encrypted.
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

    /// Handles a path challenge of the peer.
    pub(super) fn on_challenge(&mut self, token: u64) {
        // The answer may have been lost, so a repeated challenge is answered again.
        self.answers.retain(|(known, _)| *known != token);
        self.answers.truncate(MAX_ANSWERS - 1);
        self.answers.insert(0, (token, 1));
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let until = (!self.candidates.is_empty()).then(|| self.found_at + VALIDATION_TIMEOUT);
        let challenges = self.candidates.iter().map(|candidate| candidate.next);
        challenges.chain([until]).flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if now >= self.found_at + VALIDATION_TIMEOUT {
            self.candidates.clear();
        }
    }

    /// Returns the challenge that is due, and records it as sent.
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

impl RudpConnection {
    /// Checks the source address of an authentic packet.
    pub(super) fn check_address(
        &mut self,
        now: Time,
        (from, size): (SocketAddr, usize),
        is_newest: bool,
    ) {
        let migration = &mut self.migration;
        let allowance = AMPLIFICATION_FACTOR * size as u64;
        if let Some(known) = (migration.candidates.iter_mut()).find(|one| one.address == from) {
            known.allowance = known.allowance.saturating_add(allowance);
        }
        let may_move =
            (migration.migrated_at).is_none_or(|at| now.since(at) >= MIN_MIGRATION_INTERVAL);
        if from != self.remote
            && self.side == EndpointSide::Listener
            && is_newest
            && may_move
            && migration.candidates.is_empty()
            && allowance >= CHALLENGE_BYTES
        {
            migration.found_at = now;
            migration.challenge(now, from, allowance);
            // The peer has shown that it is or was at the old address.
            migration.challenge(now, self.remote, u64::MAX);
        }
    }

    /// Handles the answer of the peer to a challenge, from this address.
    pub(super) fn on_response(&mut self, now: Time, from: SocketAddr, token: u64) {
        let fits = |candidate: &Candidate| candidate.token == token && candidate.address == from;
        if !self.migration.candidates.iter().any(fits) {
            return;
        }
        self.migration.candidates.clear();
        if from != self.remote {
            self.migrate(now, from);
        }
    }

    /// Continues at another address. All estimates are reset, because the new path is not known.
    fn migrate(&mut self, now: Time, address: SocketAddr) {
        self.remote = address;
        self.migration.migrated_at = Some(now);
        self.counters.migrations += 1;
        self.rtt = Rtt::default();
        self.backoff = 0;
        self.controller = self.config.controller.controller(&settings(&self.config));
        self.mtu = Mtu::new(self.mtu.max());
        self.seeded = false;
        self.unproven = false;
        self.data_train = None;
        self.update_pacing(now);
    }

    /// Appends a packet with a challenge or an answer to one. Returns its destination and its
    /// length.
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
pub(super) fn settings(config: &RudpConfig) -> ControllerSettings {
    ControllerSettings {
        packet_bytes: u64::from(config.max_datagram.max(crate::mtu::MIN_DATAGRAM)) + HEADER_BYTES,
        fixed_rate: (config.prior.rate).map_or(ControllerSettings::default().fixed_rate, |rate| {
            rate.bytes_per_second() as u64
        }),
        ..ControllerSettings::default()
    }
}
