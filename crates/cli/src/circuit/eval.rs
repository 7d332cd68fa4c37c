//! `transpute circuit eval`.

use serde::Serialize;
use transpute::Bits;

use crate::{
    failure::Failure,
    inputs::Wanted,
    output::{self, OutputValue},
    source,
    terms::{InputText, input_failure},
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute circuit eval add:32 --input 0=dec:5 --input 1=dec:4")]
pub(crate) struct Args {
    /// The circuit: a file, or the name of a built-in one
    circuit: String,
    /// An input value, as in `transpute run`; all are needed
    #[arg(short, long = "input", value_name = "[N=]VALUE")]
    inputs: Vec<InputText>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    outputs: Vec<OutputValue>,
}

pub(crate) fn eval(args: &Args) -> Result<(), Failure> {
    let circuit = source::load("CIRCUIT", &args.circuit)?.circuit;
    let inputs = Wanted::all(circuit.input_widths())
        .read(args.inputs.iter().map(InputText::as_str))
        .map_err(input_failure)?;
    let outputs = evaluate(&circuit, &inputs)?;
    if args.json {
        let outputs = OutputValue::list(&outputs);
        return output::print_json(&Answer { outputs });
    }
    output::print(|out| output::write_values(out, "", &outputs))
}

fn evaluate(circuit: &transpute::Circuit, inputs: &Bits) -> Result<Vec<Bits>, Failure> {
    let bits = (circuit.evaluate(inputs))
        .map_err(|error| Failure::other("cannot evaluate").because(error))?;
    Ok(circuit.split_outputs(&bits))
}
