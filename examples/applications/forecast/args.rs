//! What can be asked for on the command line.

use std::path::PathBuf;

use transpute::Role;
use transpute_examples::Place;

use crate::{
    division::{Approach, Division, MAX_BITS, to_u32},
    integer::Integer,
};

/// Collaborative forecasting: averages of, and divisions between, numbers that two parties hold shares of.
#[derive(clap::Parser)]
#[command(
    name = "forecast",
    after_help = "\
The baselines (--approach fast and newton) are there for comparison: they are semi-honest protocols under \
Paillier encryption, and fast leaks; examples/applications/forecast/README.md says what."
)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What there is to do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print the sizes of the circuits for multiplication and division beside the paper's
    Gates {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Divide a split dividend by a split divisor
    Divide(Divide),
    /// Average the last values of a split time series, weighted or not
    Average(Average),
    /// Split a time series in two files of random shares
    Split(Split),
}

/// How to compute.
#[derive(clap::Args)]
pub(crate) struct How {
    /// How: circuit, fast or newton
    #[arg(long, default_value = "circuit")]
    pub(crate) approach: Approach,
    /// Numbers may be below zero
    #[arg(long)]
    pub(crate) signed: bool,
    /// Bits after the point [default: of divide the width, of average 16]
    #[arg(long, value_name = "BITS", value_parser = fraction)]
    pub(crate) fraction: Option<usize>,
    /// Size of the modulus of the encryption in bits, for fast and newton; the paper's is 1024, and 2048 or
    /// 3072 is what is recommended today
    #[arg(long, value_name = "BITS", default_value_t = 1024)]
    pub(crate) key_bits: u32,
    /// Print one line of JSON for each party
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the parties are.
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Numbers for measurements, known to both parties.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Sample {
    /// Numbers of a few bits
    Small,
    /// Numbers of nearly all the bits there are
    Large,
}

/// Arguments of `divide`.
#[derive(clap::Args)]
pub(crate) struct Divide {
    /// Bits of dividend and divisor
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// This party's share of the dividend; without --role, given twice, the garbler's first
    #[arg(
        long,
        value_name = "NUMBER",
        allow_hyphen_values = true,
        requires = "divisor"
    )]
    pub(crate) dividend: Vec<Integer>,
    /// This party's share of the divisor, likewise
    #[arg(
        long,
        value_name = "NUMBER",
        allow_hyphen_values = true,
        requires = "dividend"
    )]
    pub(crate) divisor: Vec<Integer>,
    /// Take numbers that both parties know, for measurements
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["dividend", "divisor"], required_unless_present = "dividend")]
    pub(crate) sample: Option<Sample>,
    /// How to compute.
    #[command(flatten)]
    pub(crate) how: How,
}

/// Arguments of `average`.
#[derive(clap::Args)]
pub(crate) struct Average {
    /// Bits of a value
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// This party's shares of the series, one number in each line; without --role, given twice, the
    /// garbler's first
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) values: Vec<PathBuf>,
    /// How many of the last values count [default: as many as there are weights, or values]
    #[arg(long, value_name = "N")]
    pub(crate) periods: Option<usize>,
    /// The weights, known to both parties, the oldest value's first: 1,2,3 or 0.2,0.3,0.5
    #[arg(long, value_name = "WEIGHTS", value_delimiter = ',', conflicts_with_all = ["weight_shares", "observations"])]
    pub(crate) weights: Vec<String>,
    /// This party's shares of weights that neither knows, one number in each line; only with the approach
    /// circuit. Without --role, given twice
    #[arg(long, value_name = "FILE", conflicts_with = "observations")]
    pub(crate) weight_shares: Vec<PathBuf>,
    /// Bits of a split weight
    #[arg(long, value_name = "BITS", default_value_t = 16, value_parser = width)]
    pub(crate) weight_width: usize,
    /// This party's share of the number to divide the sum by, instead of the number of periods: how many
    /// observations its values are sums of. Without --role, given twice
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) observations: Vec<Integer>,
    /// How to compute.
    #[command(flatten)]
    pub(crate) how: How,
}

/// Arguments of `split`.
#[derive(clap::Args)]
pub(crate) struct Split {
    /// Bits of a value
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// Values may be below zero
    #[arg(long)]
    pub(crate) signed: bool,
    /// The series, one number in each line
    #[arg(long, value_name = "FILE")]
    pub(crate) values: PathBuf,
    /// Where to write the shares of the one party and of the other
    #[arg(long, value_name = "FILE", num_args = 2, required = true)]
    pub(crate) out: Vec<PathBuf>,
}

fn width(text: &str) -> Result<usize, String> {
    within(text, 2)
}

fn fraction(text: &str) -> Result<usize, String> {
    within(text, 0)
}

fn within(text: &str, least: usize) -> Result<usize, String> {
    let bits = text.parse().ok();
    bits.filter(|bits| (least..=MAX_BITS).contains(bits))
        .ok_or_else(|| format!("{text:?} is not between {least} and {MAX_BITS}"))
}

/// Returns what a role was given: of one list for each party, or of the only one.
///
/// # Errors
/// Unless there are as many as there are parties here.
pub(crate) fn of_role<'a, T>(
    place: &Place,
    name: &str,
    given: &'a [T],
    role: Role,
) -> Result<&'a T, String> {
    match (place.role, given, role) {
        (Some(_), [own], _)
        | (None, [own, _], Role::Garbler)
        | (None, [_, own], Role::Evaluator) => Ok(own),
        (Some(_), ..) => Err(format!("{name} is wanted once with --role")),
        (None, ..) => Err(format!(
            "{name} is wanted twice without --role, the garbler's first"
        )),
    }
}

impl Sample {
    /// Returns dividend and divisor of a role, which add up to the numbers.
    pub(crate) fn shares(self, division: &Division, role: Role) -> [Integer; 2] {
        let [x, y] = self.numbers(division);
        [x, y].map(|number| {
            let half = number.shifted_right(1);
            match role {
                Role::Garbler => half,
                Role::Evaluator => number.minus(&half),
            }
        })
    }

    /// Returns dividend and divisor.
    pub(crate) fn numbers(self, division: &Division) -> [Integer; 2] {
        let bits = division.width() - usize::from(division.signed);
        let power = |exponent: usize| Integer::power_of_two(to_u32(exponent));
        let one = Integer::from(1);
        match self {
            Self::Small if bits < 4 => [one.clone(), one],
            Self::Small => [Integer::from(11), Integer::from(3)],
            Self::Large if bits < 2 => [one.clone(), one],
            Self::Large => [
                power(bits).minus(&one).negated_if(division.signed),
                power(bits - 1).plus(&one),
            ],
        }
    }
}
