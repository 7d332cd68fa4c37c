//! What one party of a computation is told, whether it runs with one peer or serves many.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use transpute::{
    BaseOt, Bits, Choice, Config, OutputPolicy, Party, Role, Scheme, TransportError,
    garble::Params, transport::auto::Offer,
};
use zeroize::Zeroizing;

use crate::{
    failure::{Failure, Kind},
    inputs::{InputProblem, Wanted},
    machine::MachineCache,
    protection::Protection,
    source,
};

#[derive(clap::Args)]
pub(crate) struct Terms {
    /// This party's role: garbler or evaluator. Either may listen
    #[arg(long)]
    pub(crate) role: Role,
    /// The circuit: a file, or the name of a built-in one (see `transpute circuit generate --list`)
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) circuit: String,
    /// Keep compiled circuits in this folder, and use what it has
    #[arg(long, value_name = "DIR")]
    program_cache: Option<PathBuf>,
    /// An input value of this party, N being its number in the circuit; may be repeated
    #[arg(short, long = "input", value_name = "N=VALUE")]
    inputs: Vec<InputText>,
    #[command(flatten)]
    protection: Protection,
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves
    #[arg(long, default_value_t = Scheme::HalfGates)]
    pub(crate) scheme: Scheme,
    /// The transport: auto, or a name with settings if wanted, such as tcp:cc=bbr,
    /// tcp-striped:n=4,cc=bbr or quic:rate=1g,rtt=110 (bits per second, milliseconds)
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value_t = Choice::Auto, value_parser = parse_transport)]
    pub(crate) transport: Choice,
    #[command(flatten)]
    machine: MachineCache,
    /// Listening, the transports that a peer may choose from, if that is auto [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = parse_offer)]
    pub(crate) offer: Option<Offer>,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value_t = OutputPolicy::Evaluator)]
    output_to: OutputPolicy,
    /// Which input values are the garbler's: numbers with commas between, or none. All others are
    /// the evaluator's [default: 0]
    #[arg(long, value_name = "N,...")]
    garbler_inputs: Option<ValueNumbers>,
    /// What public-key oblivious transfer rests on: ristretto255, or ml-kem-768 against quantum
    /// computers, with about 70 times the bytes
    #[arg(long, value_name = "NAME", default_value_t = BaseOt::Ristretto255)]
    pub(crate) base_ot: BaseOt,
    /// How many hash calls share an AES key in half-gates: a power of two up to 1048576
    #[arg(long, value_name = "P", default_value_t = 1)]
    rekey_period: u32,
    /// The largest chunk of garbled tables: 64 to 1048576 bytes
    #[arg(
        long, value_name = "BYTES", default_value_t = 64 << 10,
        value_parser = clap::value_parser!(u32).range(64..=1 << 20),
    )]
    chunk: u32,
    /// Do not check outputs against hashes from the garbler
    #[arg(long)]
    no_output_check: bool,
}

impl Terms {
    /// Says what is wrong with flags that can be checked before anything is read. `others` are further ones that are of use with
    /// `--transport auto` only, and whether they are given.
    pub(crate) fn check(&self, others: &[(&str, bool)]) -> Result<(), Failure> {
        self.protection.check()?;
        let own = [
            ("--offer", self.offer.is_some()),
            ("--machine-cache", self.machine.is_given()),
        ];
        for (flag, is_given) in own.iter().chain(others) {
            if *is_given && self.transport != Choice::Auto {
                return Err(Failure::usage(format!("{flag} goes with --transport auto")));
            }
        }
        let params = Params {
            scheme: self.scheme,
            rekey_period: self.rekey_period,
            start: [0; 16],
            nonce: 0,
            input_seed: [0; 16],
        };
        (params.validate()).map_err(|error| Failure::usage("--rekey-period").because(error))
    }

    /// Makes the party, for one evaluation.
    pub(crate) fn party(&self) -> Result<Party, Failure> {
        let cache = self.program_cache.as_deref();
        let program = Arc::new(source::program("--circuit", &self.circuit, cache)?);
        let mut party = (self.protection)
            .protect(Party::new(self.role, program))?
            .transport(self.transport.clone())
            .machine(self.machine.speed())
            .config(self.config())
            .base_ot(self.base_ot);
        if let Some(offer) = &self.offer {
            party = party.offer(offer.clone());
        }
        if let Some(numbers) = &self.garbler_inputs {
            party = party.garbler_inputs(numbers.0.clone());
        }
        Ok(party)
    }

    /// Returns what the protocol is told, for one evaluation.
    pub(crate) fn config(&self) -> Config {
        Config {
            scheme: self.scheme,
            rekey_period: self.rekey_period,
            base_ot: self.base_ot,
            output: self.output_to,
            chunk_len: self.chunk,
            output_check: !self.no_output_check,
            ..Config::default()
        }
    }

    /// Reads the input values.
    pub(crate) fn bits(&self, wanted: &Wanted) -> Result<Bits, Failure> {
        wanted
            .read(self.inputs.iter().map(InputText::as_str))
            .map_err(input_failure)
    }
}

/// Says what is wrong with input values on the command line.
pub(crate) fn input_failure(problem: InputProblem) -> Failure {
    let kind = match &problem {
        InputProblem::Value { source, .. } if source.is_in_file() => Kind::File,
        _ => Kind::Usage,
    };
    Failure::new(kind, "--input").because(problem)
}

/// An input value as given, which is a secret: wiped on drop and never shown.
#[derive(Clone)]
pub(crate) struct InputText(Zeroizing<String>);

impl InputText {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for InputText {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for InputText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InputText(..)")
    }
}

/// Numbers of input values.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ValueNumbers(pub(crate) Vec<usize>);

impl FromStr for ValueNumbers {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        text.split(',')
            .map(|number| number.trim().parse())
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|_| "expected numbers with commas between, such as 0,2, or none")
    }
}

/// Reads a wish for a transport.
pub(crate) fn parse_transport(text: &str) -> Result<Choice, std::convert::Infallible> {
    text.parse()
}

/// Reads names of transports with commas between.
pub(crate) fn parse_offer(text: &str) -> Result<Offer, TransportError> {
    Offer::of(text.split(','))
}

/// Reads a time in seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, &'static str> {
    const MOST: f64 = 86_400.0;
    (text.parse().ok())
        .filter(|seconds| (0.0..=MOST).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or("expected seconds, at most 86400")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_values_are_read() {
        assert_eq!("0,2".parse(), Ok(ValueNumbers(vec![0, 2])));
        assert_eq!("none".parse(), Ok(ValueNumbers(vec![])));
        for wrong in ["", "0,", "a", "-1", "0 2"] {
            assert!(wrong.parse::<ValueNumbers>().is_err(), "{wrong:?}");
        }
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

    #[test]
    fn inputs_are_not_shown() {
        let input = InputText::from("0=hex:c0ffee".to_owned());
        assert_eq!(format!("{input:?}"), "InputText(..)");
        assert_eq!(input.as_str(), "0=hex:c0ffee");
    }
}
