//! Yao's millionaires' problem: both parties learn whether the garbler is richer than the
//! evaluator, and neither learns the other's wealth.
//!
//! `cargo run --release --example millionaires -- 1000000 999999`
use clap::Parser;
use transpute::{Bits, Builder, OutputPolicy, Role, UInt};
use transpute_examples::{Place, compute};

#[derive(Parser)]
struct Args {
    /// The garbler's wealth
    garbler: u32,
    /// The evaluator's wealth
    evaluator: u32,
    #[command(flatten)]
    place: Place,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let circuit = Builder::build(|b| {
        let garbler = b.input::<UInt<32>>();
        let evaluator = b.input::<UInt<32>>();
        b.output(garbler.gt(&evaluator));
    })?;
    let results = compute(
        &circuit,
        &args.place,
        OutputPolicy::Both,
        |role| match role {
            Role::Garbler => Bits::from_u128(args.garbler.into(), 32),
            Role::Evaluator => Bits::from_u128(args.evaluator.into(), 32),
        },
    )
    .await?;
    for (role, results) in results {
        let richer = results.bits().get(0);
        println!(
            "{role}: the garbler is {}richer",
            if richer { "" } else { "not " }
        );
    }
    Ok(())
}
