//! Many computations on one connection, timed: AES-128 alone, many at once, and prepared.
//!
//! ```text
//! cargo run --release --example pipeline
//! ```
//!
//! runs both parties in this program, with throw-away identities. As two programs, with keys made by
//! `transpute id new`, over any transport but `udp`, which repairs nothing:
//!
//! ```text
//! pipeline --listen 127.0.0.1:7000 --identity alice.key --peer sha256:bbbb…
//! pipeline --connect 127.0.0.1:7000 --identity bob.key --peer sha256:aaaa… --runs 1000
//! ```
//!
//! The listening party garbles. `--runs` on one side is enough. `--prepare` and `--transport` must be the same
//! on both sides.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::{
    error::Error,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use transpute::{
    Bits, Builder, Circuit, CircuitError, Config, Connection, InputSplit, OutputPolicy, Party,
    Program, Role, UInt,
    circuit::{catalogue, generators},
    driver::{RunOutcome, Running},
};
use transpute_examples::{Ends, end, neighbours, part};

/// Runs under way at once where neither side gives a number.
const DEFAULT_RUNS: u16 = 100;

/// Computations that are timed one after the other.
const WARM_RUNS: usize = 5;

/// The garbler ends a run up to half a round trip after its peer: both have to be idle before the next is timed.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });

/// Times computations on one connection
#[derive(Debug, Parser)]
#[command(name = "pipeline")]
struct Args {
    /// Computations that are under way at once [default: what the peer gives, or 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// The circuit that is prepared, by its name in the catalogue; the same on both sides
    #[arg(long, value_name = "NAME", default_value = "min-of-candidates:2500x20")]
    prepare: String,
    #[command(flatten)]
    ends: Ends,
}

/// The circuits that a party computes.
struct Work {
    aes: Arc<Program>,
    /// Returns the larger of two numbers of runs.
    larger: Arc<Program>,
    prepared: Arc<Program>,
    /// The number of runs asked for here; 0 leaves it to the peer.
    runs: u16,
}

impl Work {
    fn new(args: &Args) -> Result<Self, Box<dyn Error>> {
        let prepared = catalogue::named(&args.prepare)
            .map_err(|error| format!("--prepare {}: {error}", args.prepare))?;
        Ok(Self {
            aes: Arc::new(Program::compile(&generators::aes128())),
            larger: Arc::new(Program::compile(&larger()?)),
            prepared: Arc::new(Program::compile(&prepared)),
            runs: args.runs.unwrap_or(0),
        })
    }

    fn party(&self, role: Role, args: &Args) -> Party {
        Party::new(role, self.aes.clone()).transport(args.ends.transport.clone())
    }
}

fn larger() -> Result<Circuit, CircuitError> {
    Builder::build(|b| {
        let (one, other) = (b.input::<UInt<16>>(), b.input::<UInt<16>>());
        b.output(one.max(&other));
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(run(Args::parse()).await)
}

async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let work = Work::new(&args)?;
    let started = Instant::now();
    let role = match (&args.ends.listen, &args.ends.connect) {
        (None, None) => {
            let [garbler, evaluator] =
                [Role::Garbler, Role::Evaluator].map(|role| work.party(role, &args));
            let (listening, connecting) = neighbours(garbler, evaluator).await?;
            let (garbler, evaluator) = tokio::join!(listening.open(), connecting.open());
            let (garbler, evaluator) = tokio::join!(
                timed(garbler?, Role::Garbler, &work, started),
                timed(evaluator?, Role::Evaluator, &work, started),
            );
            return garbler.and(evaluator);
        }
        (Some(_), _) => Role::Garbler,
        (None, Some(_)) => Role::Evaluator,
    };
    let connection = args.ends.open(work.party(role, &args)).await?;
    timed(connection, role, &work, started).await
}

/// Times all computations, and closes the connection.
async fn timed(
    connection: Connection,
    role: Role,
    work: &Work,
    started: Instant,
) -> Result<(), Box<dyn Error>> {
    let report = |what: &str, time: Duration| {
        println!("{role}: {what:<24} {:>9.1} ms", time.as_secs_f64() * 1e3);
    };
    report("connected", started.elapsed());
    match compute(&connection, role, work, report).await {
        Ok(()) => Ok(connection.close().await?),
        Err(error) => Err(part(connection, error).await),
    }
}

async fn compute(
    connection: &Connection,
    role: Role,
    work: &Work,
    report: impl Fn(&str, Duration),
) -> Result<(), Box<dyn Error>> {
    let outcome = call(
        connection,
        role,
        &work.aes,
        aes_input(),
        OutputPolicy::Evaluator,
    )
    .await?;
    report("first AES-128", outcome.elapsed);
    for _ in 0..WARM_RUNS {
        tokio::time::sleep(PAUSE).await;
        let outcome = call(
            connection,
            role,
            &work.aes,
            aes_input(),
            OutputPolicy::Evaluator,
        )
        .await?;
        check_aes(role, work, &outcome)?;
        report("warm AES-128", outcome.elapsed);
    }

    // A computation of its own lets both sides know how many runs to call for.
    let own = Bits::from_u128(work.runs.into(), 16);
    let agreed = call(connection, role, &work.larger, own, OutputPolicy::Both).await?;
    let runs = match agreed.outputs[0].to_u128() {
        Some(0) | None => DEFAULT_RUNS.into(),
        Some(runs) => runs,
    };
    tokio::time::sleep(PAUSE).await;
    let running: Vec<Running> = (0..runs)
        .map(|_| {
            call(
                connection,
                role,
                &work.aes,
                aes_input(),
                OutputPolicy::Evaluator,
            )
        })
        .collect();
    let mut last = Duration::ZERO;
    for run in running {
        let outcome = run.await?;
        check_aes(role, work, &outcome)?;
        last = last.max(outcome.elapsed);
    }
    report(&format!("{runs} AES-128 at once"), last);

    let program = &work.prepared;
    let split = InputSplit::first_to_garbler(program.input_widths());
    let bits = match role {
        Role::Garbler => split.garbler_bits(),
        Role::Evaluator => split.evaluator_bits(),
    };
    let handle = connection.handle();
    let started = Instant::now();
    let prepared = handle
        .prepare(role, program.clone(), split, Config::default())
        .await?;
    report(
        &format!("prepared {} AND gates", program.and_count()),
        started.elapsed(),
    );
    tokio::time::sleep(PAUSE).await;
    let outcome = prepared.run(Box::new(vec![Bits::zeros(bits)])).await?;
    report("output, from the inputs", outcome.elapsed);
    Ok(())
}

/// Calls for a run of a circuit whose first input value is the garbler's.
fn call(
    connection: &Connection,
    role: Role,
    program: &Arc<Program>,
    input: Bits,
    output: OutputPolicy,
) -> Running {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let config = Config {
        output,
        ..Config::default()
    };
    let inputs = Box::new(vec![input]);
    (connection.handle()).run(role, program.clone(), split, config, inputs)
}

fn aes_input() -> Bits {
    Bits::zeros(128)
}

/// Compares the output of the evaluator with AES computed in the clear.
fn check_aes(role: Role, work: &Work, outcome: &RunOutcome) -> Result<(), Box<dyn Error>> {
    let expected = work.aes.evaluate(&Bits::zeros(256));
    if role == Role::Evaluator && outcome.outputs[0].to_hex() != expected.to_hex() {
        return Err(format!(
            "expected the ciphertext {expected}, found {}",
            outcome.outputs[0]
        )
        .into());
    }
    Ok(())
}
