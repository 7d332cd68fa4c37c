//! What a connector may pick.

use std::{fmt, str::FromStr};

use crate::{
    CongestionControl, Quic, RegistryError, Rudp, Settings, StripedOptions, Tcp, TcpOptions,
    TcpStriped, TransportError,
};

/// A transport that becomes the link, with what is set for it at that moment.
///
/// Written as after `--transport`: `tcp`, `tcp:cc=bbr`, `tcp-striped:n=4,cc=bbr`, `quic`, `rudp`. The others have settings
/// too, but their connections are under way before one of them is picked: those of this side are in
/// [`AutoOptions`](super::AutoOptions).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Pick {
    /// The TCP connection.
    Tcp {
        /// The congestion control of both sides; the listener goes without if it does not have it.
        congestion_control: Option<CongestionControl>,
    },
    /// The TCP connection, and others that join it when they are open, two round trips after the pick.
    TcpStriped {
        /// How many connections, 1 to 32.
        connections: u8,
        /// The congestion control of both sides; the listener goes without if it does not have it.
        congestion_control: Option<CongestionControl>,
    },
    /// The QUIC connection.
    Quic,
    /// Reliable UDP.
    Rudp,
    /// A transport of another crate, by its name. It listens on a port of its own.
    Other(&'static str),
}

impl Pick {
    /// Returns whether a name is that of a transport of another crate.
    pub(super) fn is_other(name: &str) -> bool {
        ![Tcp::NAME, TcpStriped::NAME, Quic::NAME, Rudp::NAME].contains(&name)
    }

    /// Returns the name of the transport.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => Tcp::NAME,
            Self::TcpStriped { .. } => TcpStriped::NAME,
            Self::Quic => Quic::NAME,
            Self::Rudp => Rudp::NAME,
            Self::Other(name) => name,
        }
    }

    /// Returns the congestion control that is asked for.
    #[must_use]
    pub fn congestion_control(&self) -> Option<CongestionControl> {
        match *self {
            Self::Tcp { congestion_control }
            | Self::TcpStriped {
                congestion_control, ..
            } => congestion_control,
            Self::Quic | Self::Rudp | Self::Other(_) => None,
        }
    }
}

impl FromStr for Pick {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        let (name, settings) =
            (text.split_once(':')).map_or((text, None), |(name, settings)| (name, Some(settings)));
        let known = [Tcp::NAME, TcpStriped::NAME, Quic::NAME, Rudp::NAME];
        let name = (known.into_iter().find(|known| *known == name)).ok_or_else(|| {
            RegistryError::UnknownTransport {
                name: name.into(),
                known: known.map(String::from).to_vec(),
            }
        })?;
        let mut settings = match settings {
            Some(text) => Settings::parse(name, text)?,
            None => Settings::none(name),
        };
        let pick = match name {
            Quic::NAME => Self::Quic,
            Rudp::NAME => Self::Rudp,
            Tcp::NAME => Self::Tcp {
                congestion_control: (TcpOptions::default().configured(&mut settings)?)
                    .congestion_control,
            },
            _ => {
                let options = StripedOptions::default().configured(&mut settings)?;
                Self::TcpStriped {
                    connections: (options.connections).unwrap_or(StripedOptions::CONNECTIONS),
                    congestion_control: options.tcp.congestion_control,
                }
            }
        };
        settings.finish()?;
        Ok(pick)
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp {
                congestion_control: Some(name),
            } => write!(f, "tcp:cc={name}"),
            Self::TcpStriped {
                connections,
                congestion_control,
            } => {
                write!(f, "tcp-striped:n={connections}")?;
                match congestion_control {
                    Some(name) => write!(f, ",cc={name}"),
                    None => Ok(()),
                }
            }
            other => f.write_str(other.transport()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_written_as_transports_are() {
        for text in [
            "tcp",
            "tcp:cc=bbr",
            "tcp-striped:n=8",
            "tcp-striped:n=32,cc=reno",
            "quic",
            "rudp",
        ] {
            assert_eq!(text.parse::<Pick>().unwrap().to_string(), text);
        }
        let pick: Pick = "tcp-striped".parse().unwrap();
        assert_eq!(pick.to_string(), "tcp-striped:n=8");
        for text in [
            "",
            "udp",
            "tcp:",
            "tcp:n=4",
            "tcp:cc=b b",
            "tcp-striped:n=0",
            "tcp-striped:n=33",
            "quic:cc=cubic",
            "rudp:rate=1g",
        ] {
            assert!(text.parse::<Pick>().is_err(), "{text}");
        }
    }
}
