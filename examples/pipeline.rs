//! Many computations on one connection, timed: AES-128 alone, many at once, and prepared.
//!
//! ```text
//! cargo run --release --example pipeline -- --listen 127.0.0.1:7000
//! cargo run --release --example pipeline -- --connect 127.0.0.1:7000 --runs 1000
//! ```
//!
//! The listening party garbles. Without encryption, for benchmarks: see `Party::identity` and
//! `Party::peer` for how it is done otherwise.

use std::{error::Error, sync::Arc, time::Instant};

use clap::Parser;
use transpute::{
    Bits, Config, Connection, InputSplit, Party, Program,
    circuit::{catalogue, generators},
};

#[derive(Parser)]
struct Args {
    /// Garbles, and listens at this address.
    #[arg(long, conflicts_with = "connect")]
    listen: Option<String>,
    /// Evaluates, and connects to this address.
    #[arg(long, required_unless_present = "listen")]
    connect: Option<String>,
    /// Computations that are under way at once.
    #[arg(long, default_value_t = 100)]
    runs: usize,
    /// The circuit that is prepared: any that the catalogue knows.
    #[arg(long, value_name = "NAME", default_value = "min-of-candidates:2500x20")]
    prepare: String,
    /// Transport.
    #[arg(long, default_value = "tcp")]
    transport: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let aes = Arc::new(Program::compile(&generators::aes128()));
    let wide = Arc::new(Program::compile(&catalogue::named(&args.prepare)?));
    let started = Instant::now();
    let is_garbler = args.listen.is_some();
    let connection = match (&args.listen, &args.connect) {
        (Some(address), _) => {
            let party = Party::new(transpute::Role::Garbler, aes.clone()).plaintext();
            let listening = party.transport(&*args.transport).listen(address).await?;
            println!("listening at {}", listening.local_address());
            listening.open().await?
        }
        (None, Some(address)) => {
            let party = Party::new(transpute::Role::Evaluator, aes.clone())
                .plaintext()
                .patience(std::time::Duration::from_secs(10));
            party
                .transport(&*args.transport)
                .connect(address)
                .open()
                .await?
        }
        (None, None) => return Err("--listen or --connect".into()),
    };
    report("connected", started);

    let started = Instant::now();
    connection.run(Bits::zeros(128)).await?;
    report("first AES-128", started);
    // Whoever garbles is done later than its peer: the pause lets both begin at the same time.
    for _ in 0..5 {
        tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
        let started = Instant::now();
        let outcome = connection.run(Bits::zeros(128)).await?;
        report("warm AES-128", started);
        println!(
            "  until its output {:>9.1} ms",
            outcome.elapsed.as_secs_f64() * 1e3
        );
    }

    tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
    let started = Instant::now();
    let runs: Vec<_> = (0..args.runs)
        .map(|_| call(&connection, is_garbler, &aes))
        .collect();
    let mut last = started.elapsed();
    for run in runs {
        last = started.elapsed().max(run.await?.elapsed);
    }
    println!(
        "{} AES-128 at once {:>11.1} ms",
        args.runs,
        last.as_secs_f64() * 1e3
    );

    let split = InputSplit::first_to_garbler(wide.input_widths());
    let bits = if is_garbler {
        split.garbler_bits()
    } else {
        split.evaluator_bits()
    };
    let role = if is_garbler {
        transpute::Role::Garbler
    } else {
        transpute::Role::Evaluator
    };
    let started = Instant::now();
    let handle = connection.handle();
    let prepared = handle
        .prepare(role, wide.clone(), split, Config::default())
        .await?;
    report(&format!("prepared {}", args.prepare), started);
    tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
    let outcome = prepared.run(Box::new(vec![Bits::zeros(bits)])).await?;
    println!(
        "its output, from the inputs {:>6.1} ms ({} AND gates)",
        outcome.elapsed.as_secs_f64() * 1e3,
        wide.and_count()
    );
    drop(handle);
    connection.close().await?;
    Ok(())
}

fn call(connection: &Connection, is_garbler: bool, program: &Arc<Program>) -> transpute::Running {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let inputs = Box::new(vec![Bits::zeros(128)]);
    let handle = connection.handle();
    if is_garbler {
        handle.garble(program.clone(), split, Config::default(), inputs)
    } else {
        handle.evaluate(program.clone(), split, Config::default(), inputs)
    }
}

fn report(what: &str, started: Instant) {
    println!("{what} {:>9.1} ms", started.elapsed().as_secs_f64() * 1e3);
}
