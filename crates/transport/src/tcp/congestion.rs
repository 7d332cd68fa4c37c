//! Selects the congestion control of a connection by name (`TCP_CONGESTION`, Linux only).

use std::{fmt, io, net::SocketAddr, str::FromStr};

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use crate::{TransportError, UnsupportedError};

/// The name of a congestion control of the kernel, such as `cubic`, `bbr` or `reno`.
///
/// The kernel and its modules determine which names are valid. Connecting or listening with an
/// invalid name fails with [`UnsupportedError::CongestionControl`].
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct CongestionControl {
    /// The name, padded with zero bytes to the size of the kernel's buffer.
    name: [u8; MAX_NAME + 1],
}

/// Maximum length of a name in bytes: `TCP_CA_NAME_MAX` of linux/tcp.h without the final zero.
const MAX_NAME: usize = 15;

impl CongestionControl {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        let length = self.name.iter().take_while(|&&byte| byte != 0).count();
        // This never fails, because parsing accepts only ASCII.
        str::from_utf8(&self.name[..length]).unwrap_or_default()
    }

    /// Returns the congestion controls that this process may set. A privileged process may set more
    /// congestion controls than other processes. Empty on systems other than Linux.
    #[must_use]
    pub fn usable() -> Vec<Self> {
        let Ok(socket) = new_socket(SocketAddr::from(([0, 0, 0, 0], 0))) else {
            return Vec::new();
        };
        sysctl("tcp_available_congestion_control")
            .split_ascii_whitespace()
            .filter_map(|name| name.parse().ok())
            .filter(|&name| set(SockRef::from(&socket), name).is_ok())
            .collect()
    }
}

impl FromStr for CongestionControl {
    type Err = InvalidCongestionControl;

    fn from_str(text: &str) -> Result<Self, InvalidCongestionControl> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        if text.is_empty() || text.len() > MAX_NAME || !text.as_bytes().iter().all(is_plain) {
            return Err(InvalidCongestionControl);
        }
        let mut name = [0; MAX_NAME + 1];
        name[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self { name })
    }
}

impl fmt::Debug for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CongestionControl({})", self.name())
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error of a text that cannot be the name of a congestion control.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected the name of a congestion control, such as cubic, bbr or reno")]
pub struct InvalidCongestionControl;

fn sysctl(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))
        .map_or_else(|_| "(cannot be read)".into(), |text| text.trim().to_owned())
}

/// Makes a TCP socket of the address's family (IPv4 or IPv6).
pub(super) fn new_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }
}

/// The default congestion control of a connection between loopback addresses, where no congestion
/// occurs. Cubic does not pace. A congestion control that paces, such as bbr, needs a timer and a
/// wake-up every few packets, which reduces the throughput by a third.
const AT_HOME: &str = "cubic";

/// Sets the congestion control `wanted` on a socket before it connects to `address` or listens
/// there. If `wanted` is `None`, sets [`AT_HOME`] for a loopback address, and otherwise keeps the
/// system's default.
pub(super) fn prepare(
    socket: SockRef<'_>,
    wanted: Option<CongestionControl>,
    address: SocketAddr,
) -> Result<(), TransportError> {
    if let Some(wanted) = wanted {
        return set(socket, wanted);
    }
    if address.ip().is_loopback()
        && let Ok(name) = AT_HOME.parse()
        && let Err(error) = set(socket, name)
    {
        tracing::debug!(%error, "keeping the system's congestion control");
    }
    Ok(())
}

/// Sets the congestion control of a socket. A call before the socket connects applies from the
/// first segment on.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn set(socket: SockRef<'_>, wanted: CongestionControl) -> Result<(), TransportError> {
    socket
        .set_tcp_congestion(wanted.name().as_bytes())
        .map_err(|os| {
            TransportError::Unsupported(UnsupportedError::CongestionControl {
                name: wanted.to_string(),
                available: sysctl("tcp_available_congestion_control"),
                allowed: sysctl("tcp_allowed_congestion_control"),
                os,
            })
        })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn set(_: SockRef<'_>, wanted: CongestionControl) -> Result<(), TransportError> {
    Err(TransportError::Unsupported(
        UnsupportedError::CongestionControl {
            name: wanted.to_string(),
            available: "(none: not Linux)".into(),
            allowed: "(none: not Linux)".into(),
            os: io::ErrorKind::Unsupported.into(),
        },
    ))
}

/// Reads the name of a connection's congestion control from the kernel. Returns `None` on systems
/// other than Linux.
pub(super) fn in_force(stream: &TcpStream) -> Option<String> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let name = SockRef::from(stream).tcp_congestion().ok()?;
        let length = name.iter().take_while(|&&byte| byte != 0).count();
        Some(String::from_utf8_lossy(&name[..length]).into_owned())
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = stream;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_usable_can_be_set_and_what_is_unheard_of_is_not_among_it() {
        let usable = CongestionControl::usable();
        let socket = new_socket(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let default = SockRef::from(&socket).tcp_congestion().unwrap();
        assert!(
            (usable.iter()).any(|name| default.starts_with(name.name().as_bytes())),
            "{usable:?}"
        );
        for name in usable {
            set(SockRef::from(&socket), name).unwrap();
        }
        let unheard_of = "unheard-of".parse().unwrap();
        assert!(set(SockRef::from(&socket), unheard_of).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connections_within_one_machine_do_not_pace_themselves_unless_asked_to() {
        let in_force = |wanted: Option<&str>, address: [u8; 4]| {
            let address = SocketAddr::from((address, 1));
            let socket = new_socket(address).unwrap();
            let wanted = wanted.map(|name| name.parse().unwrap());
            prepare(SockRef::from(&socket), wanted, address).unwrap();
            let name = SockRef::from(&socket).tcp_congestion().unwrap();
            String::from_utf8(name)
                .unwrap()
                .trim_end_matches('\0')
                .to_owned()
        };
        let system = sysctl("tcp_congestion_control");
        assert_eq!(in_force(None, [192, 0, 2, 1]), system);
        assert_eq!(in_force(Some("reno"), [127, 0, 0, 1]), "reno");
        if CongestionControl::usable().contains(&AT_HOME.parse().unwrap()) {
            assert_eq!(in_force(None, [127, 0, 0, 1]), AT_HOME);
        }
    }

    #[test]
    fn names_are_checked() {
        for name in ["cubic", "bbr", "dctcp-reno", "a23456789012345"] {
            assert_eq!(name.parse::<CongestionControl>().unwrap().to_string(), name);
        }
        for text in ["", "a234567890123456", "b b r", "bbr\0", "bbr\n", "größe"] {
            assert_eq!(
                text.parse::<CongestionControl>(),
                Err(InvalidCongestionControl),
                "{text:?}"
            );
        }
    }
}
