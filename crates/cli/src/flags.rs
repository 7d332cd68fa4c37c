//! Parsers of option values, and a warning about options without effect.

use std::{
    num::{IntErrorKind, ParseIntError},
    str::FromStr,
    time::Duration,
};

use transpute::{
    Scheme, TransportChoice, TransportError,
    auto::{Auto, registry},
    transport::{RegistryError, auto::Offer, check_address},
};

use crate::{output, suggest};

/// Heading of the identity options in help texts. The next three constants are the headings of
/// other groups of options.
pub(crate) const IDENTITY: &str = "Identity";
pub(crate) const TRANSPORT: &str = "Transport";
pub(crate) const PROTOCOL: &str = "Protocol (the same on both sides)";
pub(crate) const MANY_RUNS: &str = "Many runs";

/// Parses an integer that is at least 1.
pub(crate) fn at_least_one<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error: ParseIntError| {
        match error.kind() {
            IntErrorKind::Zero | IntErrorKind::NegOverflow => "must be at least 1",
            IntErrorKind::PosOverflow => "the number is too large",
            _ if text.starts_with('-') => "must be at least 1",
            _ => "expected a whole number",
        }
        .to_owned()
    })
}

/// Checks that an address has the form `host:port`, and returns it unchanged.
pub(crate) fn parse_address(text: &str) -> Result<String, TransportError> {
    check_address(text).map(|()| text.to_owned())
}

/// Parses the name of a garbling scheme.
pub(crate) fn parse_scheme(text: &str) -> Result<Scheme, String> {
    text.parse().map_err(|error| {
        let names = Scheme::ALL.map(|scheme| scheme.to_string());
        let close = suggest::did_you_mean(text, names.iter().map(String::as_str));
        format!("{error}{close}")
    })
}

/// Parses the name of a transport with optional settings.
pub(crate) fn parse_transport(text: &str) -> Result<TransportChoice, String> {
    let choice = TransportChoice::from(text);
    if choice == TransportChoice::Auto {
        return Ok(choice);
    }
    if text
        .split_once(':')
        .is_some_and(|(name, _)| name == Auto::NAME)
    {
        return Err(format!("{} has no settings", Auto::NAME));
    }
    match registry().get(text) {
        Ok(_) => Ok(choice),
        Err(TransportError::Registry(RegistryError::UnknownTransport { name, mut known })) => {
            known.insert(0, Auto::NAME.to_owned());
            Err(unknown_transport(&name, &known))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the transports that this party offers: names without settings, separated by commas.
pub(crate) fn parse_offer(text: &str) -> Result<Offer, String> {
    Offer::among(&registry(), text.split(',')).map_err(|error| match error {
        TransportError::Registry(RegistryError::UnknownTransport { name, known }) => {
            unknown_transport(&name, &known)
        }
        error => error.to_string(),
    })
}

fn unknown_transport(name: &str, known: &[String]) -> String {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let close = suggest::did_you_mean(name, known.iter().copied());
    format!(
        "there is no transport named {name:?} among {}{close}",
        known.join(", ")
    )
}

/// Parses a time in seconds, from 0 to `MAX_SECONDS`. Fractions are allowed.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, &'static str> {
    const MAX_SECONDS: f64 = 86_400.0;
    (text.parse().ok())
        .filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or("expected seconds, at most 86400")
}

/// Prints a warning that `flag` has no effect, if it was given. `used_by` names what would use it.
pub(crate) fn warn_unused(flag: &str, is_given: bool, used_by: &str) {
    if is_given {
        output::note(format!(
            "warning: {flag} has no effect: only {used_by} uses it"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn numbers_are_at_least_one() {
        assert_eq!(at_least_one::<NonZeroU64>("7").map(u64::from), Ok(7));
        for (text, complaint) in [
            ("0", "must be at least 1"),
            ("-3", "must be at least 1"),
            ("99999999999999999999", "the number is too large"),
            ("x", "expected a whole number"),
            ("", "expected a whole number"),
        ] {
            let error = at_least_one::<NonZeroU64>(text).unwrap_err();
            assert_eq!(error, complaint, "{text:?}");
        }
    }

    #[test]
    fn unknown_transports_come_with_a_list_and_a_suggestion() {
        assert_eq!(
            parse_transport("htcp").unwrap_err(),
            "there is no transport named \"htcp\" among auto, quic, rudp, tcp, tcp-striped, udp; did you mean tcp?"
        );
        assert!(
            parse_transport("auot")
                .unwrap_err()
                .ends_with("did you mean auto?")
        );
        assert_eq!(
            parse_transport("auto:n=1").unwrap_err(),
            "auto has no settings"
        );
        assert_eq!(parse_transport("auto"), Ok(TransportChoice::Auto));
        assert_eq!(
            parse_transport("tcp-striped:n=4"),
            Ok(TransportChoice::Named("tcp-striped:n=4".to_owned()))
        );
        assert!(
            parse_offer("qiuc")
                .unwrap_err()
                .ends_with("did you mean quic?")
        );
    }

    #[test]
    fn unknown_schemes_come_with_a_list_and_a_suggestion() {
        assert_eq!(parse_scheme("prf"), Ok(Scheme::Prf));
        assert_eq!(
            parse_scheme("halfgates").unwrap_err(),
            "unknown garbling scheme \"halfgates\", expected one of half-gates, fixed-key, prf, three-halves; \
             did you mean half-gates?"
        );
    }

    #[test]
    fn offers_are_names_of_what_can_be_chosen() {
        let offer = parse_offer("tcp,rudp").unwrap();
        assert_eq!(offer.names().collect::<Vec<_>>(), ["tcp", "rudp"]);
        for wrong in ["", "tcp,", "udp", "auto", "tcp:cc=bbr"] {
            assert!(parse_offer(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "NaN", "inf", "1e9", "x"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong:?}");
        }
    }
}
