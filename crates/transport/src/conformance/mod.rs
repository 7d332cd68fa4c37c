//! Checks that every transport must pass, for transports of this crate and of others.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use transpute_transport::{Tcp, conformance};
//!
//! let options = conformance::ConformanceOptions::default();
//! let report = conformance::run(&Tcp::default(), &options).await?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! Both ends run in one task on this machine. The checks cover the contract of
//! [`Link`](crate::Link): bytes, order, ends, errors, back-pressure and identities. They do not
//! measure speed.
//!
//! * bytes arrive unchanged and in order, in writes from one byte to megabytes: `duplex-bulk`,
//!   `small-writes`, `cancelled-reads`
//! * memory is bounded, and a stalled peer delays no other: `back-pressure`, `peer-stalled`
//! * each direction ends by itself, and not before everything has arrived: `half-close`,
//!   `dropped-half`, `graceful-close`
//! * an unexpected end of a stream is reported as an error: `peer-drop`, `peer-killed`
//! * many links of one listener do not mix: `many-links`, `cancelled-accepts`, `closed-listener`
//! * only the right peer gets a link: `link-info`, `wrong-pin-seen-by-connector`,
//!   `wrong-pin-seen-by-listener`, `security-mismatch`, `garbage`
//! * the statistics are right, and a handle on them does not keep a link open: `statistics`

mod bench;
mod carriage;
mod ends;
mod pattern;
mod transfer;
mod trust;

use std::{fmt, time::Duration};

use thiserror::Error;
use tokio::time::Instant;

pub use self::{
    pattern::{Mismatch, Pattern},
    transfer::{TransferError, receive_pattern, send_pattern},
};

use self::bench::Bench;
use crate::Transport;

/// The options of the checks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConformanceOptions {
    /// Address to listen on. One listener exists at a time, so a fixed port is possible. Default:
    /// `127.0.0.1:0`.
    pub address: String,
    /// The kinds of link that the transport supports. Default: [`Mode::Tls`] and
    /// [`Mode::Plaintext`].
    pub modes: Vec<Mode>,
    /// The kind of port that the transport listens on. The garbage check sends to it. Default: TCP.
    pub port: Port,
    /// Size of the largest single write in bytes. The bulk checks send about this many bytes in
    /// each direction. Default: 8 MiB.
    pub payload: usize,
    /// Maximum number of bytes that a link may buffer while the peer does not read. Default: 64
    /// MiB, more than the largest socket buffers that Linux chooses by default.
    pub max_buffered: u64,
    /// Number of concurrent links in the check `many-links`. Default: 16.
    pub links: usize,
    /// Time limit of each check. A check that exceeds it fails. Default: 30 s.
    pub check_timeout: Duration,
    /// Seed of the sizes and contents of the data. Default: 1.
    pub seed: u64,
}

impl Default for ConformanceOptions {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:0".into(),
            modes: vec![Mode::Tls, Mode::Plaintext],
            port: Port::Tcp,
            payload: 8 << 20,
            max_buffered: 64 << 20,
            links: 16,
            check_timeout: Duration::from_secs(30),
            seed: 1,
        }
    }
}

/// A kind of link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Mode {
    /// [`Security::Tls`](crate::Security::Tls).
    Tls,
    /// [`Security::Unpinned`](crate::Security::Unpinned).
    Unpinned,
    /// [`Security::Plaintext`](crate::Security::Plaintext).
    Plaintext,
}

impl Mode {
    fn is_encrypted(self) -> bool {
        self != Self::Plaintext
    }
}

/// The kind of port on which the tested listener listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Port {
    /// A TCP port of this machine.
    Tcp,
    /// A UDP port of this machine.
    Udp,
    /// The listener has no TCP or UDP port. The check that sends garbage to it is skipped.
    Other,
}

/// The results of all checks.
#[derive(Clone, Debug)]
pub struct ConformanceReport {
    /// Name of the transport.
    pub transport: &'static str,
    /// One entry per check, in order of execution.
    pub checks: Vec<CheckReport>,
}

/// The result of one check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Kind of link and name of the check, such as `tls/half-close`.
    pub name: String,
    /// Duration of the check.
    pub elapsed: Duration,
    /// Description of the problem. `None` if the check passed.
    pub failure: Option<String>,
}

/// The error of a transport that failed at least one check.
#[derive(Clone, Debug, Error)]
#[error("the transport does not conform\n{report}")]
pub struct ConformanceError {
    /// All checks, passed and failed.
    pub report: ConformanceReport,
}

/// Runs every applicable check. Continues after a failed check.
///
/// This function needs a Tokio runtime with I/O and time enabled. A transport that buffers too much
/// can use about 100 MB of memory.
///
/// # Errors
/// Returns [`ConformanceError`] with the full report if any check failed.
pub async fn run(
    transport: &dyn Transport,
    options: &ConformanceOptions,
) -> Result<ConformanceReport, Box<ConformanceError>> {
    let mut checks = Vec::new();
    for &mode in &options.modes {
        for &check in Check::ALL {
            if !check.applies(mode, options) {
                continue;
            }
            let started = Instant::now();
            let performed = async {
                let bench = Bench::new(transport, mode, options)?;
                check.perform(&bench).await
            };
            let failure = match tokio::time::timeout(options.check_timeout, performed).await {
                Ok(Ok(())) => None,
                Ok(Err(reason)) => Some(reason),
                Err(_) => Some(format!(
                    "not finished after {:?}: something hangs",
                    options.check_timeout
                )),
            };
            let name = format!("{mode}/{}", check.name());
            tracing::debug!(check = name, ?failure, "conformance check done");
            checks.push(CheckReport {
                name,
                elapsed: started.elapsed(),
                failure,
            });
        }
    }
    let report = ConformanceReport {
        transport: transport.name(),
        checks,
    };
    if report.failures().next().is_none() {
        Ok(report)
    } else {
        Err(Box::new(ConformanceError { report }))
    }
}

impl ConformanceReport {
    /// Iterates over the checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &CheckReport> {
        self.checks.iter().filter(|check| check.failure.is_some())
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures().count();
        writeln!(
            f,
            "transport {}: {} checks passed, {failed} failed",
            self.transport,
            self.checks.len() - failed
        )?;
        for check in &self.checks {
            match &check.failure {
                None => writeln!(f, "  ok      {:36} {:.1?}", check.name, check.elapsed)?,
                Some(reason) => writeln!(f, "  FAILED  {:36} {reason}", check.name)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "tls",
            Self::Unpinned => "unpinned",
            Self::Plaintext => "plaintext",
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Check {
    Info,
    DuplexBulk,
    SmallWrites,
    HalfClose,
    BackPressure,
    CancelledReads,
    CancelledAccepts,
    ManyLinks,
    Statistics,
    GracefulClose,
    DroppedHalf,
    PeerStalled,
    PeerDrop,
    PeerKilled,
    ClosedListener,
    WrongPinByConnector,
    WrongPinByListener,
    SecurityMismatch,
    Garbage,
}

impl Check {
    const ALL: &[Self] = &[
        Self::Info,
        Self::DuplexBulk,
        Self::SmallWrites,
        Self::HalfClose,
        Self::BackPressure,
        Self::CancelledReads,
        Self::CancelledAccepts,
        Self::ManyLinks,
        Self::Statistics,
        Self::GracefulClose,
        Self::DroppedHalf,
        Self::PeerStalled,
        Self::PeerDrop,
        Self::PeerKilled,
        Self::ClosedListener,
        Self::WrongPinByConnector,
        Self::WrongPinByListener,
        Self::SecurityMismatch,
        Self::Garbage,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Info => "link-info",
            Self::DuplexBulk => "duplex-bulk",
            Self::SmallWrites => "small-writes",
            Self::HalfClose => "half-close",
            Self::BackPressure => "back-pressure",
            Self::CancelledReads => "cancelled-reads",
            Self::CancelledAccepts => "cancelled-accepts",
            Self::ManyLinks => "many-links",
            Self::Statistics => "statistics",
            Self::GracefulClose => "graceful-close",
            Self::DroppedHalf => "dropped-half",
            Self::PeerStalled => "peer-stalled",
            Self::PeerDrop => "peer-drop",
            Self::PeerKilled => "peer-killed",
            Self::ClosedListener => "closed-listener",
            Self::WrongPinByConnector => "wrong-pin-seen-by-connector",
            Self::WrongPinByListener => "wrong-pin-seen-by-listener",
            Self::SecurityMismatch => "security-mismatch",
            Self::Garbage => "garbage",
        }
    }

    fn applies(self, mode: Mode, options: &ConformanceOptions) -> bool {
        match self {
            Self::WrongPinByConnector | Self::WrongPinByListener => mode == Mode::Tls,
            Self::SecurityMismatch => options.modes.iter().any(|&other| other != mode),
            Self::Garbage => options.port != Port::Other,
            _ => true,
        }
    }

    async fn perform(self, bench: &Bench<'_>) -> Result<(), String> {
        match self {
            Self::Info => trust::info(bench).await,
            Self::DuplexBulk => carriage::duplex_bulk(bench).await,
            Self::SmallWrites => carriage::small_writes(bench).await,
            Self::HalfClose => carriage::half_close(bench).await,
            Self::BackPressure => carriage::back_pressure(bench).await,
            Self::CancelledReads => carriage::cancelled_reads(bench).await,
            Self::CancelledAccepts => trust::cancelled_accepts(bench).await,
            Self::ManyLinks => carriage::many_links(bench).await,
            Self::Statistics => carriage::statistics(bench).await,
            Self::GracefulClose => ends::graceful_close(bench).await,
            Self::DroppedHalf => ends::dropped_half(bench).await,
            Self::PeerStalled => ends::peer_stalled(bench).await,
            Self::PeerDrop => ends::peer_drop(bench).await,
            Self::PeerKilled => ends::peer_killed(bench).await,
            Self::ClosedListener => trust::closed_listener(bench).await,
            Self::WrongPinByConnector => trust::wrong_pin_by_connector(bench).await,
            Self::WrongPinByListener => trust::wrong_pin_by_listener(bench).await,
            Self::SecurityMismatch => trust::security_mismatch(bench).await,
            Self::Garbage => trust::garbage(bench).await,
        }
    }
}
