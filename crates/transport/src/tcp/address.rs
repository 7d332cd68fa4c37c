//! Checks, resolves and binds addresses of the form `host:port`.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use crate::{AddressError, BindError, ConnectError, TransportError};

/// Resolves `host:port` to at least one address, in the resolver's order of preference.
pub(crate) async fn resolve(address: &str) -> Result<Vec<SocketAddr>, TransportError> {
    check_address(address)?;
    let resolve_error = |source| {
        TransportError::Address(AddressError::Resolve {
            address: address.into(),
            source,
        })
    };
    let found: Vec<_> = tokio::net::lookup_host(address)
        .await
        .map_err(resolve_error)?
        .collect();
    if found.is_empty() {
        return Err(resolve_error(io::Error::new(
            io::ErrorKind::NotFound,
            "the host has no address",
        )));
    }
    Ok(found)
}

/// Resolves `host:port` like [`resolve`]. Returns [`ConnectError::Timeout`] if this takes longer
/// than `limit`.
pub(crate) async fn resolve_within(
    limit: Duration,
    address: &str,
) -> Result<Vec<SocketAddr>, TransportError> {
    tokio::time::timeout(limit, resolve(address))
        .await
        .map_err(|_| ConnectError::Timeout {
            waiting_for: "the name to be resolved",
            address: address.into(),
            after: limit,
        })?
}

/// Binds a listener to the first address of `host:port` on which `bind` succeeds. Stops at an error
/// other than [`BindError::Listen`], because it would occur for every address.
pub(crate) async fn bind_first<T, B>(
    address: &str,
    bind: impl Fn(SocketAddr) -> B,
) -> Result<T, TransportError>
where
    B: Future<Output = Result<T, TransportError>>,
{
    let mut bound = Err(listen_error(address)(
        io::ErrorKind::AddrNotAvailable.into(),
    ));
    for candidate in resolve(address).await? {
        bound = bind(candidate).await;
        if !matches!(bound, Err(TransportError::Bind(BindError::Listen { .. }))) {
            break;
        }
    }
    bound
}

/// Returns a function that converts an I/O error to [`BindError::Listen`] with this address.
pub(crate) fn listen_error(address: impl fmt::Display) -> impl Fn(io::Error) -> TransportError {
    move |source| {
        TransportError::Bind(BindError::Listen {
            address: address.to_string(),
            source,
        })
    }
}

/// Checks that `address` has the form `host:port`. Does not resolve the host.
///
/// # Errors
/// Returns [`AddressError::InvalidAddress`] if the text has another form.
pub fn check_address(address: &str) -> Result<(), TransportError> {
    check(address).map_err(|reason| {
        TransportError::Address(AddressError::InvalidAddress {
            address: address.into(),
            reason,
        })
    })
}

/// Checks that `address` has the form `host:port`. If not, returns the reason for the error
/// message. Without this check, the resolver would report some mistakes as an unknown host.
fn check(address: &str) -> Result<(), &'static str> {
    let (host, port) = address
        .rsplit_once(':')
        .ok_or("expected host:port, for example 203.0.113.7:7700")?;
    if host.is_empty() {
        return Err("the host is missing before the colon");
    }
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) || port.parse::<u16>().is_err()
    {
        return Err("the port must be a number from 0 to 65535");
    }
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !bracketed {
        return Err("an IPv6 address needs brackets, for example [::1]:7700");
    }
    if bracketed && address.parse::<SocketAddr>().is_err() {
        return Err("there is no IPv6 address between the brackets");
    }
    Ok(())
}

/// Returns the address at which a listener can be reached from this machine. Replaces the wildcard
/// address by the loopback address.
pub(crate) fn reachable(mut listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() {
        listening.set_ip(match listening.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listening
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn resolves_addresses() {
        for text in ["127.0.0.1:7700", "[::1]:7700"] {
            assert_eq!(resolve(text).await.unwrap(), [text.parse().unwrap()]);
        }
        assert!(!resolve("localhost:0").await.unwrap().is_empty());
    }

    #[test]
    fn names_the_mistake() {
        for (text, reason) in [
            ("", "host:port"),
            ("localhost", "host:port"),
            (":7700", "host is missing"),
            ("localhost:", "port must be"),
            ("localhost:http", "port must be"),
            ("localhost:+80", "port must be"),
            ("localhost:70000", "port must be"),
            ("::1:7700", "brackets"),
            ("[::1]", "port must be"),
            ("[:::1]:7700", "no IPv6"),
            ("[localhost]:7700", "no IPv6"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = check(&text);
        }
    }
}
