//! The two hosts of a matrix, and the address at which one reaches the other.

use std::net::Ipv6Addr;

use transpute_netem::lab::PARTY_PORT;

use super::error::HostError;

/// Two ssh destinations, and optionally the address at which the second reaches the first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostPair {
    /// The host of the garbler, which listens.
    pub(super) garbler: String,
    /// The host of the evaluator, which connects.
    pub(super) evaluator: String,
    /// The address of the garbler's host, in brackets if it is an IPv6 address. None for its host
    /// name in the configuration of ssh.
    pub(super) address: Option<String>,
    /// The port at which the garbler listens.
    pub(super) port: u16,
}

impl HostPair {
    /// Checks two ssh destinations, and an address of the form `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// Returns [`HostError::Invalid`] unless there are exactly two valid ssh destinations and the
    /// address is valid.
    pub fn new(destinations: &[String], address: Option<&str>) -> Result<Self, HostError> {
        let [garbler, evaluator] = destinations else {
            return Err(HostError::Invalid {
                flag: "--hosts",
                expected: "two ssh destinations, separated by a comma",
                got: destinations.join(","),
            });
        };
        for destination in [garbler, evaluator] {
            // ssh would take a text with a leading hyphen for an option.
            let is_text = |c: char| !c.is_whitespace() && !c.is_control();
            if destination.is_empty()
                || destination.starts_with('-')
                || !destination.chars().all(is_text)
            {
                return Err(HostError::Invalid {
                    flag: "--hosts",
                    expected: "an ssh destination, as in alice@a.example",
                    got: destination.clone(),
                });
            }
        }
        let (address, port) = match address {
            None => (None, PARTY_PORT),
            Some(text) => {
                let (host, port) = parse_address(text).ok_or_else(|| HostError::Invalid {
                    flag: "--address",
                    expected: "an address, as in a.example, 192.0.2.1:7700 or [2001:db8::1]:7700",
                    got: text.to_owned(),
                })?;
                (Some(host), port)
            }
        };
        Ok(Self {
            garbler: garbler.clone(),
            evaluator: evaluator.clone(),
            address,
            port,
        })
    }

    /// Returns the address to which the evaluator connects. `name` is the garbler's host name in
    /// the configuration of ssh.
    pub(super) fn connect_address(&self, name: &str) -> String {
        match &self.address {
            Some(host) => format!("{host}:{}", self.port),
            None => format!("{}:{}", bracketed(name), self.port),
        }
    }

    /// Returns the address at which the garbler listens: all addresses of its host, because the one
    /// at which it is reached can belong to a router.
    pub(super) fn listen_address(&self, connect_address: &str) -> String {
        let all = if connect_address.starts_with('[') {
            "[::]"
        } else {
            "0.0.0.0"
        };
        format!("{all}:{}", self.port)
    }
}

fn parse_address(text: &str) -> Option<(String, u16)> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Some((bracketed(text), PARTY_PORT));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, PARTY_PORT),
    };
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_valid = match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !host.is_empty() && !host.starts_with('-') && host.chars().all(is_name)
        }
    };
    (is_valid && port != 0).then(|| (host.to_owned(), port))
}

fn bracketed(host: &str) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]"),
        Err(_) => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(hosts: &[&str], address: Option<&str>) -> Result<HostPair, String> {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        HostPair::new(&hosts, address).map_err(|error| error.to_string())
    }

    #[test]
    fn destinations_are_two_and_no_options() {
        let two = pair(&["alice@a.example", "b"], None).unwrap();
        assert_eq!((&*two.garbler, &*two.evaluator), ("alice@a.example", "b"));
        assert_eq!(two.connect_address("10.0.0.1"), "10.0.0.1:7700");
        assert_eq!(two.connect_address("fe80::1"), "[fe80::1]:7700");
        for hosts in [&["a"][..], &["a", "b", "c"]] {
            let error = pair(hosts, None).unwrap_err();
            assert!(
                error.starts_with("--hosts: expected two ssh destinations"),
                "{error}"
            );
        }
        for host in ["", "-oProxyCommand=id", "a b", "a\nb"] {
            let error = pair(&["a", host], None).unwrap_err();
            assert_eq!(
                error,
                format!(
                    "--hosts: expected an ssh destination, as in alice@a.example, got {host:?}"
                )
            );
        }
    }

    #[test]
    fn addresses_have_an_optional_port() {
        let of = |address| pair(&["a", "b"], Some(address)).map(|pair| pair.connect_address("x"));
        for (given, expected) in [
            ("a.example", "a.example:7700"),
            ("192.0.2.1:9000", "192.0.2.1:9000"),
            ("2001:db8::1", "[2001:db8::1]:7700"),
            ("[2001:db8::1]", "[2001:db8::1]:7700"),
            ("[2001:db8::1]:9000", "[2001:db8::1]:9000"),
        ] {
            assert_eq!(of(given).unwrap(), expected);
        }
        for given in [
            "", ":7700", "a:0", "a:x", "a:70000", "a b", "[a]:1", "-a", "a:1:2",
        ] {
            assert!(of(given).is_err(), "{given}");
        }
        let pair = pair(&["a", "b"], Some("[2001:db8::1]:9000")).unwrap();
        assert_eq!(pair.listen_address(&pair.connect_address("x")), "[::]:9000");
    }
}
