//! Two parties on one machine run a computation over a transport of this example, in `unix.rs`.
//! docs/bring-your-own-transport.md explains it.
//!
//! `cargo run --release --example own_transport`
#[cfg(all(test, unix))]
mod tests;
#[cfg(unix)]
mod tuning;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::Arc;
    use transpute::{Bits, Builder, Identity, OutputPolicy, Party, Registry, UInt};

    let circuit = Builder::build(|b| {
        let garbler = b.input::<UInt<32>>();
        let evaluator = b.input::<UInt<32>>();
        b.output(garbler.gt(&evaluator));
    })?;

    // In addition to the built-in transports. Both parties find it by name, with optional settings.
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(unix::Unix::default()))?;
    let [a, b] = [Identity::generate()?, Identity::generate()?].map(Arc::new);
    let party = |party: Party, ours: &Arc<Identity>, theirs: &Identity| {
        party
            .registry(registry.clone())
            .transport("unix:buffer=262144")
            .identity(Arc::clone(ours))
            .peer(theirs.fingerprint())
            .output_to(OutputPolicy::Both)
    };

    let path = std::env::temp_dir().join(format!("transpute-{}.socket", std::process::id()));
    let garbler = party(Party::garbler(&circuit), &a, &b)
        .listen(&path.to_string_lossy())
        .await?;
    let evaluator = party(Party::evaluator(&circuit), &b, &a).connect(garbler.local_address());
    let (garbler, evaluator) = tokio::join!(
        garbler.run(Bits::from_u128(1_000_000, 32)),
        evaluator.run(Bits::from_u128(999_999, 32)),
    );
    for results in [garbler?, evaluator?] {
        println!(
            "over {}: the garbler is {}richer",
            results.report.link.transport,
            if results.bits().get(0) { "" } else { "not " }
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    eprintln!("this system has no Unix domain sockets");
}
