//! Many runs on one connection: in sequence, concurrently, and prepared before the inputs are
//! known. Each run encrypts a block of the evaluator under an AES-128 key of the garbler.
//!
//! `cargo run --release --example pipeline`

use std::{
    error::Error,
    time::{Duration, Instant},
};

use clap::Parser;
use transpute::{Bits, Connection, Party, Role, circuit::generators};
use transpute_examples::{Place, neighbours};

#[derive(Parser)]
struct Args {
    /// Number of concurrent runs, the same on both sides
    #[arg(long, default_value_t = 100)]
    runs: u16,
    #[command(flatten)]
    place: Place,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for (role, output) in run(&Args::parse()).await? {
        if role == Role::Evaluator {
            println!("ciphertext {}", output.to_hex());
        }
    }
    Ok(())
}

/// Runs both parties, or only the one that `--role` names. Returns the role of each party that ran
/// here, and the output of its last run.
async fn run(args: &Args) -> Result<Vec<(Role, Bits)>, Box<dyn Error>> {
    let aes = generators::aes128();
    let (garbler, evaluator) = (Party::garbler(&aes), Party::evaluator(&aes));
    if let Some(role) = args.place.role {
        let party = match role {
            Role::Garbler => garbler,
            Role::Evaluator => evaluator,
        };
        let connection = args.place.ends.open(party).await?;
        return Ok(vec![(role, compute(connection, role, args.runs).await?)]);
    }
    let (listening, connecting) = neighbours(garbler, evaluator).await?;
    let (garbler, evaluator) = tokio::join!(listening.open(), connecting.open());
    let (garbler, evaluator) = tokio::join!(
        compute(garbler?, Role::Garbler, args.runs),
        compute(evaluator?, Role::Evaluator, args.runs),
    );
    Ok(vec![
        (Role::Garbler, garbler?),
        (Role::Evaluator, evaluator?),
    ])
}

/// Runs one party: runs in sequence, concurrent runs and a prepared run. Closes the connection.
/// Returns the output of the last run, which is empty for the garbler.
async fn compute(connection: Connection, role: Role, runs: u16) -> Result<Bits, Box<dyn Error>> {
    // The input of this party: the key of the garbler or the block of the evaluator, all zeros.
    let input = || Bits::zeros(128);
    let report = |what: &str, time: Duration| {
        println!("{role}: {what:<20} {:>8.1} ms", time.as_secs_f64() * 1e3);
    };

    // The time of the first run includes the set-up of oblivious transfer.
    for what in ["first", "second", "third"] {
        let outcome = connection.run(input()).await?;
        report(what, outcome.elapsed);
    }

    // All runs are started before the first result is awaited.
    let started = Instant::now();
    let running: Vec<_> = (0..runs)
        .map(|_| connection.start(Box::new(vec![input()])))
        .collect();
    for run in running {
        connection.wait(run).await?;
    }
    report(&format!("{runs} at the same time"), started.elapsed());

    let prepared = connection.prepare().await?;
    let outcome = prepared.run(input()).await?;
    report("prepared", outcome.elapsed);
    connection.close().await?;
    Ok(outcome.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_evaluator_learns_the_ciphertext() {
        let args = Args::parse_from(["pipeline", "--runs", "7"]);
        let outputs = run(&args).await.unwrap();
        assert_eq!(outputs[0], (Role::Garbler, Bits::new()));
        assert_eq!(outputs[1].0, Role::Evaluator);
        // AES-128 of a block of zeros under a key of zeros.
        let expected = "66e94bd4ef8a2c3b884cfa59ca342b2e";
        assert_eq!(outputs[1].1.to_hex(), expected);
    }
}
