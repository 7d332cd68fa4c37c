//! A circuit of any depth. The tests of the driver use this file too.

use transpute_circuit::{Circuit, Gate, Op};

/// A circuit with `ands` gates that depend on both parties: a chain of ANDs and XORs.
pub(crate) fn chain(ands: u32) -> Circuit {
    let inputs = 16;
    let mut gates = Vec::new();
    for step in 0..ands {
        let last = inputs + 2 * step - u32::from(step > 0);
        let previous = if step == 0 { 3 } else { last };
        gates.push(Gate {
            op: Op::And,
            a: previous,
            b: step * 7 % inputs,
        });
        gates.push(Gate {
            op: Op::Xor,
            a: inputs + 2 * step,
            b: step * 5 % inputs,
        });
    }
    let wires = inputs + gates.len() as u32;
    Circuit::new(vec![8, 8], vec![2, 1], gates, vec![wires - 1, wires - 2, 0]).unwrap()
}
