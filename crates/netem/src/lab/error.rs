//! Why a lab does not start, or no longer works.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use crate::scenario::ScenarioError;

/// Why a lab does not start, or no longer works.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The scenario makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Neither network namespaces nor user namespaces can be created.
    #[error(
        "cannot create network namespaces: this takes CAP_SYS_ADMIN (run as root) or user namespaces (see the sysctls \
         user.max_user_namespaces, user.max_net_namespaces, kernel.unprivileged_userns_clone and \
         kernel.apparmor_restrict_unprivileged_userns): {source}"
    )]
    Privileges {
        /// What the system says.
        source: io::Error,
    },
    /// TUN devices are missing or forbidden.
    #[error(
        "cannot open /dev/net/tun: the kernel needs the module `tun`, and the user read and write permission: {source}"
    )]
    NoTun {
        /// What the system says.
        source: io::Error,
    },
    /// The kernel does not have that congestion control.
    #[error("congestion_control: the kernel has no {name:?}, expected one of {available}")]
    CongestionControl {
        /// What the scenario asks for.
        name: String,
        /// What there is.
        available: String,
    },
    /// A setting of a namespace was refused.
    #[error("cannot set {path} in a namespace: {source}")]
    Sysctl {
        /// The setting.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Something else did not work that is expected to.
    #[error("cannot {what}: {source}")]
    Setup {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The thread that carries the packets has stopped.
    #[error("the emulator has stopped: {problem}")]
    Forwarder {
        /// What the system said to it.
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
