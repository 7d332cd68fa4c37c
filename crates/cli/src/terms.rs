//! The options of a party that `transpute run` and `transpute serve` share.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use transpute::{
    Bits, Config, OutputPolicy, Party, Role, TransportChoice, garble::Params, ot::BaseOt,
    transport::auto::Offer,
};
use zeroize::Zeroizing;

use crate::{
    failure::{Failure, FailureKind},
    flags::{PROTOCOL, TRANSPORT, parse_offer, parse_transport},
    inputs::{InputProblem, Wanted},
    protection::Protection,
    scheme::SchemeWish,
    source,
};

#[derive(clap::Args)]
pub(crate) struct PartyOptions {
    /// This party's role: garbler or evaluator. Either may listen
    #[arg(long)]
    pub(crate) role: Role,
    /// The circuit: a file, or the name of a built-in one (see `transpute circuit generate --list`)
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) circuit: String,
    /// Keep compiled circuits in this folder and reuse them
    #[arg(long, value_name = "DIR")]
    program_cache: Option<PathBuf>,
    /// An input value of this party, where N is its number in the circuit; may be repeated. A party
    /// with a single input value may leave out `N=`
    #[arg(short, long = "input", value_name = "[N=]VALUE")]
    inputs: Vec<InputText>,
    #[command(flatten)]
    protection: Protection,
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves; or auto: the fastest on the
    /// path among those that both sides allow. auto allows half-gates and three-halves,
    /// auto:NAME,... allows those named
    #[arg(
        long, value_name = "NAME|auto[:NAME,...]", default_value = "half-gates", help_heading = PROTOCOL,
    )]
    pub(crate) scheme: SchemeWish,
    /// The transport: auto, or a name with optional settings, such as tcp:cc=bbr,
    /// tcp-striped:n=4,cc=bbr or quic:rate=1g,rtt=110 (bits per second, milliseconds)
    #[arg(
        long, value_name = "NAME[:KEY=VALUE,...]", default_value_t = TransportChoice::Auto,
        value_parser = parse_transport, help_heading = TRANSPORT,
    )]
    pub(crate) transport: TransportChoice,
    /// The transports that a listener with --transport auto allows its peer to choose [default:
    /// all]
    #[arg(long, value_name = "NAME,...", value_parser = parse_offer, help_heading = TRANSPORT)]
    pub(crate) offer: Option<Offer>,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value_t = OutputPolicy::Evaluator, help_heading = PROTOCOL)]
    output_to: OutputPolicy,
    /// The input values of the garbler: numbers separated by commas, or none. All others belong to
    /// the evaluator [default: 0]
    #[arg(long, value_name = "N,...", help_heading = PROTOCOL)]
    garbler_inputs: Option<ValueNumbers>,
    /// The public-key scheme of base oblivious transfer: ristretto255, or ml-kem-768, which resists
    /// quantum computers and sends about 70 times as many bytes
    #[arg(long, value_name = "NAME", default_value_t = BaseOt::Ristretto255, help_heading = PROTOCOL)]
    pub(crate) base_ot: BaseOt,
    /// Number of hash calls that share an AES key in half-gates: a power of two up to 1048576
    #[arg(long, value_name = "P", default_value_t = 1, help_heading = PROTOCOL)]
    rekey_period: u32,
    /// Maximum size of a chunk of garbled tables: 64 to 1048576 bytes
    #[arg(
        long, value_name = "BYTES", default_value_t = 64 << 10,
        value_parser = clap::value_parser!(u32).range(64..=1 << 20), help_heading = PROTOCOL,
    )]
    chunk: u32,
    /// Do not check outputs against hashes from the garbler
    #[arg(long, help_heading = PROTOCOL)]
    no_output_check: bool,
}

impl PartyOptions {
    /// Rejects options that contradict each other. Reads no files.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.protection.check()?;
        let is_named = self.transport != TransportChoice::Auto;
        if is_named && self.offer.is_some() {
            // A warning is not enough: the peer could choose what --offer excludes.
            return Err(Failure::usage(format!(
                "--offer contradicts --transport {}: give --offer with --transport auto only",
                self.transport
            )));
        }
        let scheme = match self.scheme {
            SchemeWish::Only(scheme) => scheme,
            SchemeWish::Among(_) if self.rekey_period == 1 => return Ok(()),
            SchemeWish::Among(_) => {
                return Err(Failure::usage(format!(
                    "--rekey-period contradicts --scheme {}: name one scheme",
                    self.scheme
                )));
            }
        };
        let params = Params {
            scheme,
            rekey_period: self.rekey_period,
            start: [0; 16],
            nonce: 0,
            input_seed: [0; 16],
        };
        (params.validate()).map_err(|error| Failure::usage("--rekey-period").because(error))
    }

    /// Returns the party for a run with one evaluation.
    pub(crate) fn party(&self) -> Result<Party, Failure> {
        let cache = self.program_cache.as_deref();
        let program = Arc::new(source::program("--circuit", &self.circuit, cache)?);
        let mut party = (self.protection)
            .protect(Party::new(self.role, program))?
            .transport(self.transport.clone())
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

    /// Returns the settings of the protocol for a run with one evaluation.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.rekey_period = self.rekey_period;
        config.base_ot = self.base_ot;
        config.output = self.output_to;
        config.chunk_len = self.chunk;
        config.output_check = !self.no_output_check;
        self.scheme.apply(&mut config);
        config
    }

    /// Reads the input values of this party.
    pub(crate) fn bits(&self, wanted: &Wanted) -> Result<Bits, Failure> {
        wanted
            .read(self.inputs.iter().map(InputText::as_str))
            .map_err(input_failure)
    }
}

/// Returns the failure of an input value in the command line.
pub(crate) fn input_failure(problem: InputProblem) -> Failure {
    let kind = match &problem {
        InputProblem::Value { source, .. } if source.is_in_file() => FailureKind::File,
        _ => FailureKind::Usage,
    };
    Failure::new(kind, "--input").because(problem)
}

/// An input value in the command line. It is secret, so it is wiped on drop and never printed.
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

/// The numbers of input values, from 0.
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
    fn inputs_are_not_shown() {
        let input = InputText::from("0=hex:c0ffee".to_owned());
        assert_eq!(format!("{input:?}"), "InputText(..)");
        assert_eq!(input.as_str(), "0=hex:c0ffee");
    }
}
