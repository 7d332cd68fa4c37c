//! The flags of `transpute run`, and what of them can be checked before anything is read.

use std::{
    fmt,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use transpute::{
    BaseOt, Choice, Config, OtChoice, OutputPolicy, Role, Scheme, TransportError,
    transport::auto::Offer,
};
use zeroize::Zeroizing;

use crate::{failure::Failure, machine::MachineCache, protection::Protection, selection::By};

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("address").required(true).args(["listen", "connect"]),
    after_help = "\
Values:
  bits:0110...   one character per bit, the first for the first wire of the value
  hex:0f...      most significant digit first; the first wire is the least significant bit
  dec:-5         a decimal number, negative ones in two's complement
  @FILE          a file that holds one of these, or only 0 and 1; blanks do not count
Other users of this machine can see the arguments of a command: keep secrets in files.

Everything but addresses, inputs, keys and threads must be the same on both sides."
)]
pub(crate) struct Args {
    /// This party's role: garbler or evaluator. Either may listen
    #[arg(long)]
    pub(super) role: Role,
    /// The circuit: a file, or the name of a built-in one (see `transpute circuit generate --list`)
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) circuit: String,
    /// Keep compiled circuits in this folder, and use what it has
    #[arg(long, value_name = "DIR")]
    pub(super) program_cache: Option<PathBuf>,
    /// An input value of this party, N being its number in the circuit; may be repeated
    #[arg(short, long = "input", value_name = "N=VALUE")]
    pub(super) inputs: Vec<InputText>,
    /// Wait for the peer at this address (host:port; port 0 lets the system choose)
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,
    /// Connect to the peer at this address (host:port)
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<String>,
    #[command(flatten)]
    pub(super) protection: Protection,
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves
    #[arg(long, default_value_t = Scheme::HalfGates)]
    pub(super) scheme: Scheme,
    /// The transport: auto, or a name with settings if wanted, such as tcp:cc=bbr,
    /// tcp-striped:n=4,cc=bbr or quic:rate=1g,rtt=110 (bits per second, milliseconds)
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value_t = Choice::Auto, value_parser = parse_transport)]
    pub(super) transport: Choice,
    /// Connecting, what chooses the transport, if that is auto [default: model]
    #[arg(long, value_name = "BY")]
    pub(super) chooser: Option<By>,
    /// Connecting, keep what is measured of paths in this file, and use what it has
    #[arg(long, value_name = "FILE")]
    pub(super) path_cache: Option<PathBuf>,
    #[command(flatten)]
    pub(super) machine: MachineCache,
    /// Listening, the transports that the peer may choose from, if that is auto [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = parse_offer)]
    pub(super) offer: Option<Offer>,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value_t = OutputPolicy::Evaluator)]
    pub(super) output_to: OutputPolicy,
    /// Which input values are the garbler's: numbers with commas between, or none. All others are
    /// the evaluator's [default: 0]
    #[arg(long, value_name = "N,...")]
    pub(super) garbler_inputs: Option<ValueNumbers>,
    /// A file with the inputs of many evaluations: a line for each, with N=VALUE for every value
    #[arg(long, value_name = "FILE", conflicts_with_all = ["inputs", "batch"])]
    pub(super) batch_file: Option<PathBuf>,
    /// How many times to evaluate, with the same inputs each time
    #[arg(long, value_name = "K")]
    pub(super) batch: Option<NonZeroU64>,
    /// Run so often, with the same inputs each time, on one standing connection; for peers that do the
    /// same, or `transpute serve`
    #[arg(long, value_name = "N", conflicts_with_all = ["batch_file", "threads"])]
    pub(super) repeat: Option<NonZeroU64>,
    /// How many runs may be under way at the same time, once the first is over
    #[arg(long, value_name = "K", default_value = "1", requires = "repeat")]
    pub(super) pipeline: NonZeroUsize,
    /// Oblivious transfer: auto, direct, iknp, softspoken-2, softspoken-4 or softspoken-8
    #[arg(long, default_value = "auto")]
    pub(super) ot: OtChoice,
    /// What public-key oblivious transfer rests on: ristretto255, or ml-kem-768 against quantum
    /// computers, with about 70 times the bytes
    #[arg(long, value_name = "NAME", default_value_t = BaseOt::Ristretto255)]
    pub(super) base_ot: BaseOt,
    /// How many hash calls share an AES key in half-gates: a power of two up to 1048576
    #[arg(long, value_name = "P", default_value_t = 1)]
    pub(super) rekey_period: u32,
    /// The largest chunk of garbled tables: 64 to 1048576 bytes
    #[arg(
        long, value_name = "BYTES", default_value_t = 64 << 10,
        value_parser = clap::value_parser!(u32).range(64..=1 << 20),
    )]
    pub(super) chunk: u32,
    /// On how many threads to garble or evaluate a batch, besides one for the network
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    pub(super) threads: NonZeroUsize,
    /// Do not check outputs against hashes from the garbler
    #[arg(long)]
    pub(super) no_output_check: bool,
    /// How long to try again while the peer refuses connections, in seconds
    #[arg(long, value_name = "SECS", default_value = "5", value_parser = parse_seconds)]
    pub(super) patience: Duration,
    /// Print one JSON object with the outputs and what happened
    #[arg(long)]
    pub(super) json: bool,
    /// Print outputs and errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    /// Returns what the protocol is told, for one evaluation.
    pub(super) fn config(&self) -> Config {
        Config {
            scheme: self.scheme,
            rekey_period: self.rekey_period,
            ot: self.ot,
            base_ot: self.base_ot,
            output: self.output_to,
            chunk_len: self.chunk,
            output_check: !self.no_output_check,
            threads: self.threads,
            ..Config::default()
        }
    }

    /// Says what is wrong with flags that are of no use together.
    pub(super) fn check_choice(&self) -> Result<(), Failure> {
        let is_auto = self.transport == Choice::Auto;
        let listens = self.listen.is_some();
        for (flag, is_given, belongs, where_to) in [
            ("--offer", self.offer.is_some(), listens, "--listen"),
            ("--machine-cache", self.machine.is_given(), true, "either"),
            ("--chooser", self.chooser.is_some(), !listens, "--connect"),
            (
                "--path-cache",
                self.path_cache.is_some(),
                !listens,
                "--connect",
            ),
        ] {
            if is_given && !is_auto {
                return Err(Failure::usage(format!("{flag} goes with --transport auto")));
            }
            if is_given && !belongs {
                return Err(Failure::usage(format!(
                    "{flag} goes with {where_to}: the party that connects chooses"
                )));
            }
        }
        Ok(())
    }
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
