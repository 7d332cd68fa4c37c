//! The settings of the transport `quic`: `cc`, `first`, `rate`, `rtt`.

use std::time::Duration;

use transpute_units::Bandwidth;

use super::{QuicOptions, UnknownCongestion};
use crate::{Settings, TransportError, settings};

/// The lowest rate that can be set.
const MIN_RATE: Bandwidth = Bandwidth::from_bits_per_second(1e3);

impl QuicOptions {
    /// Applies the settings. Options without a setting do not change.
    pub(super) fn configured(mut self, settings: &mut Settings) -> Result<Self, TransportError> {
        let congestion = settings.take("cc", |name| {
            name.parse()
                .map_err(|error: UnknownCongestion| error.to_string())
        })?;
        self.congestion = congestion.unwrap_or(self.congestion);
        self.first_flight = (settings.take("first", bytes)?).unwrap_or(self.first_flight);
        self.path.to_peer.rate = (settings.take("rate", rate)?).or(self.path.to_peer.rate);
        self.path.rtt = settings.take("rtt", milliseconds)?.or(self.path.rtt);
        Ok(self)
    }
}

/// Parses a rate in bits per second, such as `1000000`, `2.5m` or `1g`.
fn rate(text: &str) -> Result<Bandwidth, String> {
    settings::rate(text, MIN_RATE).ok_or_else(|| {
        "expected bits per second from 1k to 1000g, such as 1000000, 2.5m or 1g".into()
    })
}

/// Parses the length of the first flight.
fn bytes(text: &str) -> Result<u64, String> {
    (text.parse().ok())
        .filter(|bytes| QuicOptions::FIRST_FLIGHTS.contains(bytes))
        .ok_or_else(|| {
            let (least, most) = QuicOptions::FIRST_FLIGHTS.into_inner();
            format!("expected bytes from {least} to {most}")
        })
}

/// Parses a time in milliseconds.
fn milliseconds(text: &str) -> Result<Duration, String> {
    (text.parse().ok())
        .filter(|milliseconds| (0.001..=10_000.0).contains(milliseconds))
        .map(|milliseconds: f64| Duration::from_secs_f64(milliseconds / 1e3))
        .ok_or_else(|| "expected milliseconds from 0.001 to 10000, such as 110".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::QuicCongestion, *};
    use crate::RegistryError;

    fn configured(text: &str) -> Result<QuicOptions, TransportError> {
        let mut settings = Settings::parse("quic", text)?;
        let options = QuicOptions::default().configured(&mut settings)?;
        settings.finish()?;
        Ok(options)
    }

    #[test]
    fn settings_reach_the_options() {
        let options = configured("cc=cubic,rate=1g,rtt=110").unwrap();
        assert_eq!(options.congestion, QuicCongestion::Cubic);
        assert_eq!(
            options.path.to_peer.rate,
            Some(Bandwidth::from_megabits_per_second(1000.0))
        );
        assert_eq!(options.path.rtt, Some(Duration::from_millis(110)));
        for (text, rate) in [("8000", 8e3), ("2.5m", 2.5e6), ("100M", 1e8), ("16k", 16e3)] {
            let options = configured(&format!("rate={text}")).unwrap();
            let rate = Some(Bandwidth::from_bits_per_second(rate));
            assert_eq!(options.path.to_peer.rate, rate, "{text}");
            assert_eq!(options.congestion, QuicCongestion::Bbr);
            assert_eq!(options.path.rtt, None);
        }
        assert_eq!(configured("first=38400").unwrap().first_flight, 38_400);
        let options = configured("rtt=0.25").unwrap();
        assert_eq!(options.path.rtt, Some(Duration::from_micros(250)));
    }

    #[test]
    fn what_is_not_given_stays_as_it_was() {
        let mut options = QuicOptions::default();
        options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(8.0));
        options.congestion = QuicCongestion::Cubic;
        let mut settings = Settings::parse("quic", "rtt=5").unwrap();
        let configured = options.configured(&mut settings).unwrap();
        options.path.rtt = Some(Duration::from_millis(5));
        assert_eq!(configured, options);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            (
                "cc=vegas",
                "setting \"cc=vegas\" of transport quic: QUIC has no congestion control named \"vegas\"; it has \
                 bbr and cubic",
            ),
            (
                "rate=fast",
                "setting \"rate=fast\" of transport quic: expected bits per second from 1k to 1000g, such as 1000000, \
                 2.5m or 1g",
            ),
            (
                "rtt=110ms",
                "setting \"rtt=110ms\" of transport quic: expected milliseconds from 0.001 to 10000, such as 110",
            ),
            (
                "n=4",
                "transport quic has no setting \"n\"; it has: cc, first, rate, rtt",
            ),
        ] {
            assert_eq!(configured(text).unwrap_err().to_string(), message);
        }
        for text in [
            "first=0",
            "first=8m",
            "rate=0",
            "rate=-1g",
            "rate=g",
            "rate=nan",
            "rate=inf",
            "rate=1e13",
            "rate=1é",
            "rtt=0",
            "rtt=-1",
            "rtt=nan",
            "rtt=inf",
            "rtt=1e9",
        ] {
            let error = configured(text).unwrap_err();
            assert!(
                matches!(
                    error,
                    TransportError::Registry(RegistryError::InvalidSetting { .. })
                ),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_value_panics(text in "\\PC{0,12}") {
            let _ = (rate(&text), milliseconds(&text));
        }
    }
}
