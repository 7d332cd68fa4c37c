//! Collaborative forecasting. Two parties average a time series and divide numbers, given additive
//! shares that reveal nothing to either of them.
//!
//! Implements what Blanton's *Empirical Evaluation of Secure Two-Party Computation Models* (CERIAS
//! TR 2005-58) measures, in all three ways: a garbled circuit, and the two special-purpose
//! protocols that the paper compares with. See README.md.
//!
//! ```text
//! cargo run --release --bin forecast -- gates
//! cargo run --release --bin forecast -- divide --width 32 --sample large
//! ```
#![forbid(unsafe_code)]

mod args;
mod baseline;
mod circuit;
mod division;
mod fast;
mod garbled;
mod gates;
mod handshake;
mod integer;
mod newton;
mod paillier;
mod report;
mod series;
#[cfg(test)]
mod tests;
mod wire;

use std::{error::Error, process::ExitCode};

use clap::Parser;
use rand::rngs::StdRng;
use transpute::{Bits, Role};
use transpute_applications::causes;
use transpute_examples::Place;

use args::{Args, Command, ComputeArgs, of_role};
use division::{Approach, Division, Shares};
use integer::Integer;
use report::Report;

/// Width of the number of observations that `average` uses as a divisor, in bits.
const OBSERVATION_BITS: usize = 32;

/// Number of fraction bits of an average if `--fraction` is not given.
const AVERAGE_FRACTION: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(lines) => {
            for line in lines {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the command and returns the lines to print.
///
/// # Errors
/// Returns errors of arguments, files, the connection and the protocol.
async fn run(args: Args) -> Result<Vec<String>, Box<dyn Error>> {
    match args.command {
        Command::Gates { json } => Ok(gates::tables(json)?),
        Command::Divide(args) => divide(args).await,
        Command::Average(args) => average(args).await,
        Command::Split(args) => split(&args).map(|()| Vec::new()),
    }
}

async fn divide(args: args::Divide) -> Result<Vec<String>, Box<dyn Error>> {
    let how = args.how;
    let division = Division {
        fraction: how.fraction.unwrap_or(args.width),
        ..Division::of_width(args.width, how.signed)
    };
    let shares = for_parties(&how.place, |role| {
        let [dividend, divisor] = match args.sample {
            Some(sample) => sample.shares(&division, role),
            None => [
                of_role(&how.place, "--dividend", &args.dividend, role)?.clone(),
                of_role(&how.place, "--divisor", &args.divisor, role)?.clone(),
            ],
        };
        for share in [&dividend, &divisor] {
            series::check_share(share, args.width)?;
        }
        Ok(Shares { dividend, divisor })
    })?;
    quotient("quotient", &how, division, &shares).await
}

async fn average(args: args::Average) -> Result<Vec<String>, Box<dyn Error>> {
    let how = args.how;
    let place = &how.place;
    let weights = series::weights(&args.weights)?;
    let periods = |values: usize| match (args.periods, weights.len()) {
        (Some(periods), 0) => Ok(periods),
        (Some(periods), weights) if periods != weights => {
            Err(format!("expected {periods} weights, found {weights}"))
        }
        (_, 0) => Ok(values),
        (_, weights) => Ok(weights),
    };
    let values = for_parties(place, |role| {
        let values = series::read(of_role(place, "--values", &args.values, role)?)?;
        let periods = periods(values.len())?;
        let values = series::last(values, periods)?;
        for value in &values {
            series::check_share(value, args.width)?;
        }
        Ok(values)
    })?;
    let periods = values.iter().flatten().map(Vec::len).next().unwrap_or(0);
    let fraction = how.fraction.unwrap_or(AVERAGE_FRACTION);
    if !args.weight_shares.is_empty() {
        let weights = for_parties(place, |role| {
            let file = of_role(place, "--weight-shares", &args.weight_shares, role)?;
            let weights = series::last(series::read(file)?, periods)?;
            for weight in &weights {
                series::check_share(weight, args.weight_width)?;
            }
            Ok(weights)
        })?;
        let average = circuit::Average {
            periods,
            value: args.width,
            weight: args.weight_width,
            fraction,
            signed: how.signed,
        };
        return weighted(&how, average, &values, &weights).await;
    }

    // The weights are known to both parties. So each party multiplies its shares by them and adds
    // the products without the other party.
    let weights = match weights.is_empty() {
        true => vec![Integer::from(1); periods],
        false => weights,
    };
    let total = (weights.iter()).fold(Integer::zero(), |total, weight| total.plus(weight));
    if total.is_zero() {
        return Err("the weights are all 0".into());
    }
    let carries = total.bits() as usize;
    let divisor = match args.observations.is_empty() {
        true => carries,
        false => OBSERVATION_BITS,
    };
    let division = Division {
        dividend: args.width + carries,
        divisor: divisor + usize::from(how.signed),
        fraction,
        signed: how.signed,
    };
    let shares = for_parties(place, |role| {
        let own = values[index(role)].iter().flatten();
        let products = own.zip(&weights).map(|(value, weight)| value.times(weight));
        let dividend = products.fold(Integer::zero(), |sum, product| sum.plus(&product));
        let divisor = match (args.observations.is_empty(), role) {
            (false, _) => of_role(place, "--observations", &args.observations, role)?.clone(),
            (true, Role::Garbler) => total.clone(),
            (true, Role::Evaluator) => Integer::zero(),
        };
        series::check_share(&divisor, division.divisor)?;
        Ok(Shares { dividend, divisor })
    })?;
    quotient("average", &how, division, &shares).await
}

/// Computes an average with split weights, which neither party knows.
async fn weighted(
    how: &ComputeArgs,
    average: circuit::Average,
    values: &[Option<Vec<Integer>>; 2],
    weights: &[Option<Vec<Integer>>; 2],
) -> Result<Vec<String>, Box<dyn Error>> {
    if how.approach != Approach::Circuit {
        return Err("split weights are for the approach circuit only".into());
    }
    let circuit = circuit::weighted_average(average)?;
    let division = average.division();
    let input = |role| {
        let bits = |numbers: &[Option<Vec<Integer>>; 2], width| -> Bits {
            let own = numbers[index(role)].iter().flatten();
            own.flat_map(|number| number.to_bits(width).iter().collect::<Vec<_>>())
                .collect()
        };
        let mut input = bits(values, average.value);
        input.extend([bits(weights, average.weight)]);
        input
    };
    let finished = garbled::divide(&how.place, &circuit, division, input).await?;
    let reports = finished.into_iter();
    let reports = reports.map(|(role, finished)| Report::of_circuit(role, division, finished));
    Ok(lines(how, "average", reports))
}

/// Divides with the chosen approach.
async fn quotient(
    what: &str,
    how: &ComputeArgs,
    division: Division,
    shares: &[Option<Shares>; 2],
) -> Result<Vec<String>, Box<dyn Error>> {
    // If the party runs in another process, its shares are not known here. The zeros in their place
    // are not used.
    let of = |role| {
        shares[index(role)].clone().unwrap_or(Shares {
            dividend: Integer::zero(),
            divisor: Integer::zero(),
        })
    };
    if how.approach == Approach::Circuit {
        let circuit = circuit::division(division)?;
        let finished = garbled::divide(&how.place, &circuit, division, |role| {
            of(role).bits(&division)
        })
        .await?;
        let reports = finished.into_iter();
        let reports = reports.map(|(role, finished)| Report::of_circuit(role, division, finished));
        return Ok(lines(how, what, reports));
    }
    let task = baseline::Task {
        approach: how.approach,
        division,
        key_bits: how.key_bits,
    };
    let finished = baseline::divide(&how.place, task, of).await?;
    let reports = finished.into_iter();
    let reports = reports.map(|(role, finished)| Report::of_baseline(role, task, finished));
    Ok(lines(how, what, reports))
}

fn lines(how: &ComputeArgs, what: &str, reports: impl Iterator<Item = Report>) -> Vec<String> {
    reports
        .map(|report| match how.json {
            true => report.json(),
            false => report.text(what),
        })
        .collect()
}

fn split(args: &args::Split) -> Result<(), Box<dyn Error>> {
    let mut rng: StdRng = rand::make_rng();
    let mut parts = [const { Vec::new() }; 2];
    for value in series::read(&args.values)? {
        series::check_width("a value", &value, args.width, args.signed)?;
        let shares = series::split(&value, args.width, &mut rng);
        for (part, share) in parts.iter_mut().zip(shares) {
            part.push(share);
        }
    }
    for (path, part) in args.out.iter().zip(&parts) {
        series::write(path, part)?;
    }
    Ok(())
}

fn index(role: Role) -> usize {
    match role {
        Role::Garbler => 0,
        Role::Evaluator => 1,
    }
}

/// Calls a function for each party that runs in this process. Returns the results by role, and
/// `None` for a party in another process.
fn for_parties<T>(
    place: &Place,
    mut make: impl FnMut(Role) -> Result<T, Box<dyn Error>>,
) -> Result<[Option<T>; 2], Box<dyn Error>> {
    let mut of = |role| match place.role {
        Some(here) if here != role => Ok(None),
        _ => make(role).map(Some),
    };
    Ok([of(Role::Garbler)?, of(Role::Evaluator)?])
}

impl Shares {
    /// Returns these shares as the input bits of the division circuit.
    fn bits(&self, division: &Division) -> Bits {
        let mut bits = self.dividend.to_bits(division.dividend);
        bits.extend([self.divisor.to_bits(division.divisor)]);
        bits
    }
}
