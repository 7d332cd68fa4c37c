//! `transpute circuit info`.

use std::io::{self, Write};

use serde::Serialize;
use transpute::{
    Circuit, Program, Scheme,
    circuit::{Op, bristol::Format},
};

use crate::{
    failure::Failure,
    output::{self, counted, grouped},
    source::{self, Loaded, Origin},
};

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute circuit info aes128")]
pub(crate) struct Args {
    /// The circuit: a file, or the name of a built-in one
    circuit: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    name: String,
    /// The format of the circuit file, `built-in` for a built-in circuit, or `Garble` for a source
    /// file in the language Garble.
    format: &'static str,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    wires: u32,
    gates: Gates,
    /// The largest number of AND gates on a path from an input to an output.
    and_depth: u32,
    program: Compiled,
    /// Size of the garbled tables of one evaluation with each scheme, in bytes.
    table_bytes: Vec<Tables>,
}

/// Number of gates of each kind in the circuit, before it is compiled.
#[derive(Serialize)]
struct Gates {
    total: usize,
    and: usize,
    xor: usize,
    not: usize,
    copy: usize,
    constant: usize,
}

/// Figures of the compiled circuit: its gates, label slots, batches of gates, and digest.
#[derive(Serialize)]
struct Compiled {
    and: u64,
    xor: u64,
    slots: usize,
    batches: usize,
    digest: String,
}

#[derive(Serialize)]
struct Tables {
    scheme: String,
    bytes: u64,
}

pub(crate) fn info(args: &Args) -> Result<(), Failure> {
    let info = Info::new(source::load("CIRCUIT", &args.circuit)?);
    if args.json {
        return output::print_json(&info);
    }
    output::print(|out| info.write(out))
}

impl Info {
    fn new(loaded: Loaded) -> Self {
        let circuit = &loaded.circuit;
        let program = Program::compile(circuit);
        Self {
            format: match loaded.format {
                Origin::BuiltIn => "built-in",
                Origin::File(Format::Fashion) => "Bristol Fashion",
                Origin::File(Format::Old) => "Bristol (old)",
                Origin::Source => "Garble",
            },
            inputs: circuit.input_widths().to_vec(),
            outputs: circuit.output_widths().to_vec(),
            wires: circuit.wire_count(),
            gates: Gates::count(circuit),
            and_depth: and_depth(circuit),
            table_bytes: (Scheme::ALL.iter())
                .map(|&scheme| Tables {
                    scheme: scheme.to_string(),
                    bytes: scheme.table_bytes(program.and_count(), program.xor_count()),
                })
                .collect(),
            program: Compiled {
                and: program.and_count(),
                xor: program.xor_count(),
                slots: program.slot_count(),
                batches: program.batches().len(),
                digest: transpute::circuit::hex(program.digest()),
            },
            name: loaded.name,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { gates, program, .. } = self;
        let count = |count: usize| grouped(count as u64);
        writeln!(out, "{} ({})", self.name, self.format)?;
        writeln!(out, "inputs:    {}", widths(&self.inputs))?;
        writeln!(out, "outputs:   {}", widths(&self.outputs))?;
        writeln!(
            out,
            "gates:     {}: {} AND, {} XOR, {} NOT, {} copies, {} constants",
            count(gates.total),
            count(gates.and),
            count(gates.xor),
            count(gates.not),
            count(gates.copy),
            count(gates.constant),
        )?;
        writeln!(out, "wires:     {}", grouped(self.wires.into()))?;
        writeln!(out, "AND depth: {}", grouped(self.and_depth.into()))?;
        writeln!(
            out,
            "compiled:  {} AND, {} XOR, {} slots, {} batches",
            grouped(program.and),
            grouped(program.xor),
            count(program.slots),
            count(program.batches),
        )?;
        writeln!(out, "digest:    {}", program.digest)?;
        for Tables { scheme, bytes } in &self.table_bytes {
            writeln!(
                out,
                "tables:    {:>13} bytes with {scheme}",
                grouped(*bytes)
            )?;
        }
        Ok(())
    }
}

impl Gates {
    fn count(circuit: &Circuit) -> Self {
        let mut gates = Self {
            total: circuit.gate_count(),
            and: 0,
            xor: 0,
            not: 0,
            copy: 0,
            constant: 0,
        };
        for gate in circuit.gates() {
            *match gate.op {
                Op::And => &mut gates.and,
                Op::Xor => &mut gates.xor,
                Op::Not => &mut gates.not,
                Op::Copy => &mut gates.copy,
                Op::Zero | Op::One => &mut gates.constant,
            } += 1;
        }
        gates
    }
}

/// Returns the largest number of AND gates on a path from an input to an output.
fn and_depth(circuit: &Circuit) -> u32 {
    let mut depth = vec![0_u32; circuit.input_bits() as usize];
    depth.reserve_exact(circuit.gate_count());
    for gate in circuit.gates() {
        let (a, b) = (gate.a as usize, gate.b as usize);
        depth.push(match gate.op {
            Op::And => depth[a].max(depth[b]) + 1,
            Op::Xor => depth[a].max(depth[b]),
            Op::Not | Op::Copy => depth[a],
            Op::Zero | Op::One => 0,
        });
    }
    let outputs = circuit.outputs().iter();
    outputs.map(|&wire| depth[wire as usize]).max().unwrap_or(0)
}

fn widths(widths: &[u32]) -> String {
    const SHOWN: usize = 16;
    let bits: u64 = widths.iter().map(|&width| u64::from(width)).sum();
    let mut list: Vec<_> = (widths.iter().take(SHOWN)).map(u32::to_string).collect();
    if widths.len() > SHOWN {
        list.push("...".to_owned());
    }
    format!(
        "{}, {}: {}",
        counted(widths.len() as u64, "value"),
        counted(bits, "bit"),
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_and_gates_towards_outputs() {
        // The path to wire 4 has 2 AND gates, but no path leads from wire 4 to an output.
        let circuit = Circuit::parse(
            b"4 6\n2 1 1\n1 1\n2 1 0 1 2 AND\n2 1 2 1 3 AND\n1 1 2 4 INV\n2 1 2 4 5 XOR\n",
        )
        .unwrap();
        assert_eq!(and_depth(&circuit), 1);
        let gates = Gates::count(&circuit);
        assert_eq!((gates.total, gates.and, gates.xor, gates.not), (4, 2, 1, 1));
    }
}
