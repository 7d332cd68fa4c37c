//! Transports in the selector: a name, settings, and a profile.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::LazyLock,
};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use transpute_transport::{
    Profile, Registry, Throughput,
    settings::{name_and_settings, pairs},
};

use crate::SelectError;

/// Maximum length of a transport's name with settings, in characters.
const MAX_LEN: usize = 100;

/// A transport's name with its settings, such as `tcp:cc=bbr`, and its profile. Settings keep their
/// order and are stored as text, so that equal ones compare equal. They are separated by a comma or
/// by `+`.
///
/// A [parsed](str::parse) text gets the profile of the built-in transport with that name. Use
/// [`in_registry`](Self::in_registry) for other transports. Comparisons ignore the profile.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct Spec {
    text: String,
    profile: Option<Profile>,
}

impl Spec {
    /// Parses a name with settings, and finds the profile of the transport in a registry. If the
    /// transport has no profile, its time is predicted like that of one TCP connection, with a wide
    /// uncertainty.
    ///
    /// # Errors
    /// Returns [`SelectError::Transport`] if `text` is not a valid name with settings.
    pub fn in_registry(text: &str, registry: &Registry) -> Result<Self, SelectError> {
        let (name, settings) = name_and_settings(text);
        let is_word = |word: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !word.is_empty() && word.bytes().all(is_plain)
        };
        let pair = |pair: Result<(&str, &str), &str>| {
            let (key, value) = pair.ok()?;
            (is_word(key) && is_word(value)).then(|| format!("{key}={value}"))
        };
        let settings: Option<Vec<_>> = settings.into_iter().flat_map(pairs).map(pair).collect();
        match settings.filter(|_| text.len() <= MAX_LEN && is_word(name)) {
            Some(settings) => Ok(Self {
                text: joined(name, settings),
                profile: registry.profile(text),
            }),
            None => Err(SelectError::Transport {
                text: text.chars().take(MAX_LEN).collect(),
            }),
        }
    }

    /// Returns the profile of the transport with its settings, or `None` if it has no profile.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Returns the name without the settings.
    #[must_use]
    pub fn name(&self) -> &str {
        name_and_settings(&self.text).0
    }

    /// Returns the name with the settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the value of the setting `key`, or `None` if it is not set.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        let (_, settings) = name_and_settings(&self.text);
        let mut pairs = settings.into_iter().flat_map(pairs).flatten();
        pairs.find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Returns the transport with its effective congestion control: cubic is omitted, and any other
    /// is written out. If the kernel's default is bbr, `tcp` becomes `tcp:cc=bbr`. On any kernel,
    /// `tcp:cc=cubic` becomes `tcp`.
    pub(crate) fn in_effect(&self, default_control: Option<&str>) -> Self {
        let Some(Throughput::Kernel(control)) = self.profile.map(|profile| profile.throughput)
        else {
            return self.clone();
        };
        let control = control.or_else(|| default_control?.parse().ok());
        let control = (control.as_ref()).map_or("cubic", |control| control.name());
        let (name, settings) = name_and_settings(&self.text);
        let pairs = settings.into_iter().flat_map(pairs).flatten();
        let others = pairs.filter(|(key, _)| *key != "cc");
        let all = others.map(|(key, value)| format!("{key}={value}"));
        let all = all.chain((control != "cubic").then(|| format!("cc={control}")));
        let profile = self.profile.map(|profile| {
            let mut profile = profile;
            profile.throughput = Throughput::Kernel(control.parse().ok());
            profile
        });
        Self {
            text: joined(name, all.collect()),
            profile,
        }
    }

    /// Returns whether the transport reduces its congestion window at losses. `default_control` is
    /// the kernel's default congestion control of TCP connections.
    #[must_use]
    pub fn slows_at_losses(&self, default_control: Option<&str>) -> bool {
        self.profile_under(default_control).throughput == Throughput::Window
    }

    /// Returns the profile with the effective congestion control. A transport without a profile
    /// gets the profile of an unknown transport. `default_control` is the kernel's default
    /// congestion control of TCP connections.
    pub(crate) fn profile_under(&self, default_control: Option<&str>) -> Profile {
        let mut profile = self.profile.unwrap_or_default();
        profile.throughput = profile.throughput.resolve(default_control);
        profile
    }
}

fn joined(name: &str, mut settings: Vec<String>) -> String {
    settings.sort_unstable();
    let separator = if settings.is_empty() { "" } else { ":" };
    format!("{name}{separator}{}", settings.join(","))
}

impl FromStr for Spec {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        static BUILTINS: LazyLock<Registry> = LazyLock::new(Registry::with_builtins);
        Self::in_registry(text, &BUILTINS)
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Spec {}

impl PartialOrd for Spec {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Spec {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Spec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl TryFrom<String> for Spec {
    type Error = SelectError;

    fn try_from(text: String) -> Result<Self, SelectError> {
        text.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> Self {
        spec.text
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Profile {
        text.parse::<Spec>().unwrap().profile_under(Some("cubic"))
    }

    #[test]
    fn settings_decide_the_law() {
        assert_eq!(profile("tcp").throughput, Throughput::Window);
        assert_eq!(profile("tcp:cc=bbr").throughput, Throughput::Model);
        let with_bbr = "tcp".parse::<Spec>().unwrap().profile_under(Some("bbr"));
        assert_eq!(with_bbr.throughput, Throughput::Model);
        assert_eq!(profile("tcp-striped").connections, 8);
        assert_eq!(profile("tcp-striped:cc=bbr,n=4").connections, 4);
        assert_eq!(profile("quic:cc=cubic").throughput, Throughput::Window);
        assert_eq!(profile("rudp").throughput, Throughput::MeasuredRate);
        assert!(profile("udp").needs_udp);
        assert!("smoke".parse::<Spec>().unwrap().profile().is_none());
    }

    #[test]
    fn set_ups_and_first_flights_are_those_of_the_transports() {
        let round_trips = |text| profile(text).setup_round_trips;
        assert_eq!([round_trips("quic"), round_trips("rudp")], [1, 1]);
        assert_eq!([round_trips("tcp"), round_trips("tcp-striped")], [2, 2]);
        let first = |text, rtt| profile(text).first_flight_bytes(rtt);
        assert_eq!((first("quic", 0.01), first("quic", 0.2)), (25e3, 262_144.0));
        assert_eq!(first("tcp", 0.2), 14_480.0);
        assert_eq!(first("tcp-striped:n=4", 0.2), 57_920.0);
        assert_eq!(
            (profile("rudp").probe_bytes, profile("quic").probe_bytes),
            (38_400, 0)
        );
    }

    #[test]
    fn the_kernels_default_is_written_out() {
        for (text, control, expected) in [
            ("tcp", "cubic", "tcp"),
            ("tcp", "bbr", "tcp:cc=bbr"),
            ("tcp-striped:n=4", "bbr", "tcp-striped:cc=bbr,n=4"),
            ("tcp:cc=reno", "bbr", "tcp:cc=reno"),
            ("tcp:cc=cubic", "bbr", "tcp"),
            ("tcp-striped:cc=cubic+n=4", "cubic", "tcp-striped:n=4"),
            ("quic", "bbr", "quic"),
            ("tcp", "a b", "tcp"),
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(spec.in_effect(Some(control)).as_str(), expected);
        }
    }

    #[test]
    fn the_order_of_settings_does_not_matter() {
        let a: Spec = "tcp-striped:n=4+cc=bbr".parse().unwrap();
        let b: Spec = "tcp-striped:cc=bbr,n=4".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(
            (a.name(), a.setting("n"), a.setting("m")),
            ("tcp-striped", Some("4"), None)
        );
    }

    #[test]
    fn what_is_no_transport_is_refused() {
        let long = "x".repeat(101);
        let none = [
            "",
            ":n=1",
            "tcp:",
            "tcp:n",
            "tcp:=1",
            "tcp:n=1,,",
            "a b",
            "tcp\n",
            "é",
        ];
        for text in none.into_iter().chain([long.as_str()]) {
            assert!(text.parse::<Spec>().is_err(), "{text:?}");
        }
    }
}
