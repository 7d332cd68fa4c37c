//! Addresses of local sockets and of targets.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use crate::{error::InvalidTunnelAddress, frame::MAX_TEXT};

/// The address of a TCP port or a Unix socket: `HOST:PORT`, `PORT` or `unix:PATH`. A tunnel listens
/// on it for local programs, or connects to it for the peer.
///
/// `PORT` is short for `127.0.0.1:PORT`. Parsing normalises the address: hosts are in lower case,
/// and IPv6 addresses have their canonical form in brackets. Two addresses are equal if their
/// normalised texts are equal. Names of hosts are not resolved for the comparison.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TunnelAddress {
    /// A TCP port.
    Tcp {
        /// Name or IP address of the host, without brackets.
        host: String,
        /// The port. For listening, 0 lets the system choose.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix {
        /// The path.
        path: String,
    },
}

impl FromStr for TunnelAddress {
    type Err = InvalidTunnelAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|reason| InvalidTunnelAddress {
            text: text.into(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<TunnelAddress, &'static str> {
    if text.len() > MAX_TEXT {
        return Err("it is longer than 1024 bytes");
    }
    if text.chars().any(char::is_control) {
        return Err("it contains a control character");
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("expected a path after unix:"),
            path => Ok(TunnelAddress::Unix { path: path.into() }),
        };
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let port = match port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() {
        true => (port.parse()).map_err(|_| "the port must be a number from 0 to 65535")?,
        false => return Err("expected HOST:PORT, PORT or unix:PATH"),
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let inner = rest.strip_suffix(']').ok_or("expected ] after the host")?;
            let address: Ipv6Addr =
                (inner.parse()).map_err(|_| "expected an IPv6 address in the brackets")?;
            address.to_string()
        }
        None if host.is_empty() => return Err("expected a host before the port"),
        None if host.contains([':', '[', ']']) => {
            return Err("an IPv6 address must be in brackets");
        }
        None => host.to_ascii_lowercase(),
    };
    Ok(TunnelAddress::Tcp { host, port })
}

impl fmt::Display for TunnelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "unix:{path}"),
        }
    }
}

/// A forwarding rule: the local address to listen on, and the target that the peer connects to.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ForwardRule {
    /// The address that this side listens on.
    pub local: TunnelAddress,
    /// The address that the peer connects to.
    pub remote: TunnelAddress,
}

impl ForwardRule {
    /// Returns a rule that forwards `local` to `remote`.
    #[must_use]
    pub fn new(local: TunnelAddress, remote: TunnelAddress) -> Self {
        Self { local, remote }
    }
}

impl FromStr for ForwardRule {
    type Err = InvalidTunnelAddress;

    /// Parses `LOCAL=REMOTE`. A path in `LOCAL` cannot contain `=`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidTunnelAddress {
            text: text.into(),
            reason,
        };
        let (local, remote) = text
            .split_once('=')
            .ok_or_else(|| invalid("expected LOCAL=REMOTE"))?;
        let remote: TunnelAddress = remote.parse()?;
        if matches!(remote, TunnelAddress::Tcp { port: 0, .. }) {
            return Err(invalid("the port of the far side must not be 0"));
        }
        Ok(Self::new(local.parse()?, remote))
    }
}

impl fmt::Display for ForwardRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.local, self.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_normalised() {
        for (text, normal) in [
            ("5432", "127.0.0.1:5432"),
            ("Example.ORG:22", "example.org:22"),
            ("localhost:0080", "localhost:80"),
            ("[0:0::1]:80", "[::1]:80"),
            ("unix:/run/A b.sock", "unix:/run/A b.sock"),
        ] {
            let address: TunnelAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), normal);
            assert_eq!(normal.parse(), Ok(address));
        }
    }

    #[test]
    fn wrong_addresses_have_a_reason() {
        for (text, reason) in [
            ("", "expected HOST:PORT"),
            ("host", "expected HOST:PORT"),
            (":80", "expected a host"),
            ("::1:80", "must be in brackets"),
            ("[::1:80", "expected ]"),
            ("[x]:80", "expected an IPv6 address"),
            ("host:65536", "from 0 to 65535"),
            ("host:+1", "expected HOST:PORT"),
            ("unix:", "expected a path"),
            ("unix:/a\nb", "control character"),
            (&"x".repeat(1025), "longer than"),
        ] {
            let error = text.parse::<TunnelAddress>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn rules_have_two_addresses() {
        let rule: ForwardRule = "8080=unix:/run/x=y".parse().unwrap();
        assert_eq!(rule.to_string(), "127.0.0.1:8080=unix:/run/x=y");
        for wrong in ["8080", "=80", "80=", "80=host:0"] {
            assert!(wrong.parse::<ForwardRule>().is_err(), "{wrong}");
        }
    }
}
