//! The settings of the transport `quic`: `cc`, `first`, `rate`, `rtt`.

use std::time::Duration;

use super::{QuicOptions, UnknownCongestion};
use crate::{Settings, TransportError};

impl QuicOptions {
    /// Applies the settings. Options without a setting do not change.
    pub(super) fn configured(mut self, settings: &mut Settings) -> Result<Self, TransportError> {
        let congestion = settings.take("cc", |name| {
            name.parse()
                .map_err(|error: UnknownCongestion| error.to_string())
        })?;
        self.congestion = congestion.unwrap_or(self.congestion);
        self.first_flight = (settings.take("first", bytes)?).unwrap_or(self.first_flight);
        self.path.rate = settings.take("rate", bytes_per_second)?.or(self.path.rate);
        self.path.rtt = settings.take("rtt", milliseconds)?.or(self.path.rtt);
        Ok(self)
    }
}

/// Parses a rate in bits per second, such as `1000000`, `2.5m` or `1g`. Returns bytes per second.
fn bytes_per_second(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((end, 'k' | 'K')) => (&text[..end], 1e3),
        Some((end, 'm' | 'M')) => (&text[..end], 1e6),
        Some((end, 'g' | 'G')) => (&text[..end], 1e9),
        _ => (text, 1.0),
    };
    (number.parse().ok())
        .map(|number: f64| number * unit)
        .filter(|bits| (1e3..=1e12).contains(bits))
        .map(|bits| (bits / 8.0) as u64)
        .ok_or_else(|| {
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
        assert_eq!(options.path.rate, Some(125_000_000));
        assert_eq!(options.path.rtt, Some(Duration::from_millis(110)));
        for (text, rate) in [
            ("8000", 1000),
            ("2.5m", 312_500),
            ("100M", 12_500_000),
            ("16k", 2000),
        ] {
            let options = configured(&format!("rate={text}")).unwrap();
            assert_eq!(options.path.rate, Some(rate), "{text}");
            assert_eq!(options.congestion, QuicCongestion::Bbr3);
            assert_eq!(options.path.rtt, None);
        }
        assert_eq!(configured("first=38400").unwrap().first_flight, 38_400);
        let options = configured("rtt=0.25").unwrap();
        assert_eq!(options.path.rtt, Some(Duration::from_micros(250)));
    }

    #[test]
    fn what_is_not_given_stays_as_it_was() {
        let mut options = QuicOptions::default();
        options.path.rate = Some(1_000_000);
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
                 bbr3 and cubic",
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
                matches!(error, TransportError::InvalidSetting { .. }),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_value_panics(text in "\\PC{0,12}") {
            let _ = (bytes_per_second(&text), milliseconds(&text));
        }
    }
}
