//! AES-128: the garbler has a key and the evaluator a block. The evaluator gets the encrypted
//! block.
//!
//! `cargo run --release --example aes128`

use clap::Parser;
use transpute::{Bits, OutputPolicy, Role, circuit::generators};
use transpute_examples::{Place, compute};

/// The defaults are the test vector of FIPS-197, appendix C.1.
#[derive(Parser)]
struct Args {
    /// The garbler's key, 32 hexadecimal digits
    #[arg(long, default_value = "000102030405060708090a0b0c0d0e0f")]
    key: String,
    /// The evaluator's block, 32 hexadecimal digits
    #[arg(long, default_value = "00112233445566778899aabbccddeeff")]
    block: String,
    #[command(flatten)]
    place: Place,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let key = Bits::from_hex(&args.key, 128)?;
    let block = Bits::from_hex(&args.block, 128)?;
    let circuit = generators::aes128();
    let results = compute(
        &circuit,
        &args.place,
        OutputPolicy::Evaluator,
        |role| match role {
            Role::Garbler => key.clone(),
            Role::Evaluator => block.clone(),
        },
    )
    .await?;
    for (role, results) in results {
        let report = &results.report;
        if role == Role::Evaluator {
            println!("ciphertext {}", results.bits().to_hex());
        }
        println!(
            "{role}: {} AND gates, {} bytes sent, {:?} from connected to output, over {}",
            report.and_gates,
            report.session.bytes_sent,
            report.until_output(),
            report.link.transport,
        );
    }
    Ok(())
}
