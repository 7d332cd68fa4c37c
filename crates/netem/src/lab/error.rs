//! Errors of a lab: an emulated path with the network namespaces of its two ends.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use crate::scenario::ScenarioError;

/// Error that prevents a lab from starting, or that stopped it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Neither network namespaces nor user namespaces can be created.
    #[error(
        "cannot create network namespaces: this takes CAP_SYS_ADMIN (run as root) or user namespaces (see the sysctls \
         user.max_user_namespaces, user.max_net_namespaces, kernel.unprivileged_userns_clone and \
         kernel.apparmor_restrict_unprivileged_userns): {source}"
    )]
    Privileges {
        /// The error of the system call.
        source: io::Error,
    },
    /// TUN devices are missing, or this process may not open them.
    #[error(
        "cannot open /dev/net/tun: the kernel needs the module `tun`, and the user read and write permission: {source}"
    )]
    NoTun {
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel does not have this congestion control.
    #[error("congestion_control: the kernel has no {name:?}, expected one of {available}")]
    CongestionControl {
        /// The congestion control of the scenario.
        name: String,
        /// The congestion controls of the kernel.
        available: String,
    },
    /// The kernel rejected a setting of a namespace.
    #[error("cannot set {path} in a namespace: {source}")]
    Sysctl {
        /// The path of the setting below `/proc/sys`.
        path: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// A step of the setup failed that is expected to work on every machine.
    #[error("cannot {what}: {source}")]
    Setup {
        /// The step, as a verb phrase.
        what: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// The thread that carries the packets has stopped.
    #[error("the emulator has stopped: {problem}")]
    Forwarder {
        /// The error of the system call that stopped the thread.
        problem: String,
    },
}

impl LabError {
    pub(super) fn setup(what: &'static str, errno: Errno) -> Self {
        Self::Setup {
            what,
            source: errno.into(),
        }
    }

    pub(super) fn no_congestion_control(name: &str) -> Self {
        let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        Self::CongestionControl {
            name: name.to_owned(),
            available: std::fs::read_to_string(file)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }
}
