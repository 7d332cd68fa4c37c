//! The minimum cut of a network that two operators share. Each knows the capacities of its own
//! links. Both learn the minimum cut of the whole network, and neither learns the other's links.
//!
//! `cargo run --release --example mincut -- examples/graphs/north.txt examples/graphs/south.txt`
//!
//! With `--role`, only that party runs in this process, and it reads only its own file.

use std::path::PathBuf;

use clap::Parser;
use transpute::{
    Bits, OutputPolicy, Role,
    circuit::generators::{ExactMinCutOptions, exact_min_cut},
};
use transpute_examples::{Graph, Place, compute};

#[derive(Parser)]
struct Args {
    /// The garbler's edges
    garbler: PathBuf,
    /// The evaluator's edges
    evaluator: PathBuf,
    /// Vertices of the graph, the same on both sides
    #[arg(long, default_value_t = 8)]
    vertices: usize,
    /// Bits of a weight, the same on both sides
    #[arg(long, default_value_t = 8)]
    width: usize,
    #[command(flatten)]
    place: Place,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut options = ExactMinCutOptions::default();
    options.shared = true;
    options.argmin = true;
    options.folded = true;
    let circuit = exact_min_cut(args.vertices, args.width, options)?;
    let read = |role, path| match args.place.role {
        Some(here) if here != role => Ok(Bits::new()),
        _ => Graph::open(path, args.vertices, args.width)
            .map(|graph| graph.to_bits(args.width))
            .map_err(|error| format!("{}: {error}", path.display())),
    };
    let garbler = read(Role::Garbler, &args.garbler)?;
    let evaluator = read(Role::Evaluator, &args.evaluator)?;
    let results = compute(
        &circuit,
        &args.place,
        OutputPolicy::Both,
        |role| match role {
            Role::Garbler => garbler.clone(),
            Role::Evaluator => evaluator.clone(),
        },
    )
    .await?;
    for (role, results) in results {
        let outputs = &results.evaluations[0].outputs;
        let side: Vec<usize> = (outputs[1].iter().enumerate())
            .filter_map(|(vertex, inside)| inside.then_some(vertex))
            .collect();
        println!(
            "{role}: the minimum cut has weight {} and separates vertices {side:?} from the rest",
            outputs[0].to_u128().unwrap_or_default(),
        );
    }
    Ok(())
}
