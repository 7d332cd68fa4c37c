//! The command line of the program.

use std::path::PathBuf;

use transpute::Role;
use transpute_examples::Place;

use crate::{
    division::{Approach, Division, MAX_BITS, to_u32},
    integer::Integer,
};

/// Collaborative forecasting: averages and quotients of numbers that two parties hold shares of.
#[derive(clap::Parser)]
#[command(
    name = "forecast",
    after_help = "\
The baselines (--approach fast and newton) are for comparison. They are semi-honest protocols under \
Paillier encryption, and fast leaks; see examples/applications/forecast/README.md."
)]
pub(crate) struct Args {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of the program.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print the sizes of the circuits for multiplication and division, compared with the paper's
    Gates {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Divide a split dividend by a split divisor
    Divide(Divide),
    /// Compute the average of the last values of a split time series, weighted or not
    Average(Average),
    /// Split a time series into two files of random shares
    Split(Split),
}

/// Arguments that all computations have.
#[derive(clap::Args)]
pub(crate) struct ComputeArgs {
    /// Method: circuit, fast or newton
    #[arg(long, default_value = "circuit")]
    pub(crate) approach: Approach,
    /// Allow negative numbers
    #[arg(long)]
    pub(crate) signed: bool,
    /// Fraction bits of the result [default: the width for divide, 16 for average]
    #[arg(long, value_name = "BITS", value_parser = fraction)]
    pub(crate) fraction: Option<usize>,
    /// Size of the Paillier modulus in bits, for fast and newton. The paper's is 1024; at least
    /// 2048 is recommended today
    #[arg(long, value_name = "BITS", default_value_t = 1024)]
    pub(crate) key_bits: u32,
    /// Print a line of JSON for each party
    #[arg(long)]
    pub(crate) json: bool,
    /// The role and addresses of the parties.
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Numbers for measurements, which both parties know.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Sample {
    /// Short numbers
    Small,
    /// Numbers of nearly full width
    Large,
}

/// The arguments of `divide`.
#[derive(clap::Args)]
pub(crate) struct Divide {
    /// Width of dividend and divisor, in bits
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// This party's share of the dividend. Without --role, give it twice, the garbler's first
    #[arg(
        long,
        value_name = "NUMBER",
        allow_hyphen_values = true,
        requires = "divisor"
    )]
    pub(crate) dividend: Vec<Integer>,
    /// This party's share of the divisor. Without --role, give it twice, the garbler's first
    #[arg(
        long,
        value_name = "NUMBER",
        allow_hyphen_values = true,
        requires = "dividend"
    )]
    pub(crate) divisor: Vec<Integer>,
    /// Use numbers that both parties know, for measurements
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["dividend", "divisor"], required_unless_present = "dividend")]
    pub(crate) sample: Option<Sample>,
    /// Arguments that all computations have.
    #[command(flatten)]
    pub(crate) how: ComputeArgs,
}

/// The arguments of `average`.
#[derive(clap::Args)]
pub(crate) struct Average {
    /// Width of a value, in bits
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// File of this party's shares of the series, one number per line. Without --role, give it
    /// twice, the garbler's first
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) values: Vec<PathBuf>,
    /// Number of last values to average [default: the number of weights, or all values]
    #[arg(long, value_name = "N")]
    pub(crate) periods: Option<usize>,
    /// The weights, known to both parties, from the oldest value on: 1,2,3 or 0.2,0.3,0.5
    #[arg(long, value_name = "WEIGHTS", value_delimiter = ',', conflicts_with_all = ["weight_shares", "observations"])]
    pub(crate) weights: Vec<String>,
    /// File of this party's shares of weights that neither party knows, one number per line; only
    /// with the approach circuit. Without --role, give it twice
    #[arg(long, value_name = "FILE", conflicts_with = "observations")]
    pub(crate) weight_shares: Vec<PathBuf>,
    /// Width of a split weight, in bits
    #[arg(long, value_name = "BITS", default_value_t = 16, value_parser = width)]
    pub(crate) weight_width: usize,
    /// This party's share of the number of observations, which replaces the number of periods as
    /// the divisor. Without --role, give it twice
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) observations: Vec<Integer>,
    /// Arguments that all computations have.
    #[command(flatten)]
    pub(crate) how: ComputeArgs,
}

/// The arguments of `split`.
#[derive(clap::Args)]
pub(crate) struct Split {
    /// Width of a value, in bits
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = width)]
    pub(crate) width: usize,
    /// Allow negative values
    #[arg(long)]
    pub(crate) signed: bool,
    /// File of the series, one number per line
    #[arg(long, value_name = "FILE")]
    pub(crate) values: PathBuf,
    /// Files for the shares of the two parties
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

/// Returns the argument of a role: the only one with --role, otherwise one of two.
///
/// # Errors
/// Returns a message if the number of arguments does not match the number of parties in this
/// process.
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
        (Some(_), ..) => Err(format!("expected {name} once with --role")),
        (None, ..) => Err(format!(
            "expected {name} twice without --role, the garbler's first"
        )),
    }
}

impl Sample {
    /// Returns a role's shares of dividend and divisor.
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
