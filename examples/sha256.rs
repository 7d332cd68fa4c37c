//! Both parties learn the SHA-256 hash of a message. The garbler has the first part of the message,
//! the evaluator the second.
//!
//! `cargo run --release --example sha256 -- "a secret of one party, " "and one of the other"`

use clap::Parser;
use transpute::{Bits, OutputPolicy, Role, circuit::generators};
use transpute_examples::{Place, compute};

#[derive(Parser)]
struct Args {
    /// The garbler's part; at the evaluator, any text of the same length
    front: String,
    /// The evaluator's part; at the garbler, any text of the same length
    back: String,
    #[command(flatten)]
    place: Place,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let circuit = generators::sha256_of_parts(&[args.front.len(), args.back.len()])?;
    let results = compute(&circuit, &args.place, OutputPolicy::Both, |role| {
        bytes(match role {
            Role::Garbler => &args.front,
            Role::Evaluator => &args.back,
        })
    })
    .await?;
    for (role, results) in results {
        println!("{role}: {}", results.bits().to_hex());
    }
    Ok(())
}

/// Converts a text to input bits of the circuit. Bit 0 is the least significant bit of the last
/// byte.
fn bytes(text: &str) -> Bits {
    text.bytes()
        .rev()
        .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
        .collect()
}
