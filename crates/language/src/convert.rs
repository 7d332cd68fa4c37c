//! Converts a circuit of the language's compiler to a [`Circuit`].

use garble_lang::{
    TypedFnDef,
    ast::{ParamDef, Type},
    circuit::{Circuit as Source, Gate as SourceGate},
};
use transpute_circuit::{Circuit, Gate, Op, Wire};

use crate::{Compiled, LanguageError, Panics, layout::Layout};

/// Number of output bits before the result in the compiler's circuits. They are a panic flag and
/// five numbers of 32 bits: the reason of the panic, and the lines and columns at which the
/// panicking expression starts and ends in the source.
const PANIC_BITS: usize = 1 + 5 * 32;

/// The entry in [`Conversion::wires`] for a wire that has not been converted yet.
const UNCONVERTED: Wire = Wire::MAX;

/// Converts the circuit `source`, which the compiler made from `function`. Returns an error if its
/// inputs and outputs do not match the types in `function`.
pub(crate) fn convert(
    source: &Source,
    function: &TypedFnDef,
    layout: &mut Layout<'_>,
    panics: Panics,
) -> Result<Compiled, LanguageError> {
    let values = input_values(function, source.input_gates.len());
    let mut orders = Vec::new();
    let mut input_widths = Vec::new();
    for (name, ty) in &values {
        let order = layout.order(ty)?;
        let position = orders.len();
        if source.input_gates.get(position) != Some(&order.len()) {
            return Err(fault(format!(
                "parameter {name} is not {} bits wide",
                order.len()
            )));
        }
        input_widths.push(order.len() as u32);
        orders.push(order);
    }
    if orders.len() != source.input_gates.len() {
        return Err(fault("it has other parameters than the program".to_owned()));
    }
    let result = layout.order(&function.ty)?;
    let Some((panic, bits)) = source.output_gates.split_at_checked(PANIC_BITS) else {
        return Err(fault("it has too few outputs".to_owned()));
    };
    if bits.len() != result.len() {
        return Err(fault(format!(
            "the result is not {} bits wide",
            result.len()
        )));
    }
    let mut wanted: Vec<usize> = result.iter().map(|&bit| bits[bit]).collect();
    let mut output_widths = vec![result.len() as u32];
    let mut outputs = vec![function.ty.to_string()];
    let mut conversion = Conversion::new(source, &orders);
    // The first output is the panic flag. It is the constant 0 if the program cannot panic.
    if panics == Panics::Output && panic[0] != conversion.zero {
        wanted.push(panic[0]);
        output_widths.push(1);
        outputs.push("panic: bool".to_owned());
    }
    let output_wires = (wanted.into_iter())
        .map(|wire| conversion.wire(wire))
        .collect::<Result<_, _>>()?;
    let circuit = Circuit::new(input_widths, output_widths, conversion.gates, output_wires)?;
    let inputs = values.iter().map(|(name, ty)| format!("{name}: {ty}"));
    Ok(Compiled {
        circuit,
        inputs: inputs.collect(),
        outputs,
    })
}

/// Returns the names and types of the input values. If the only parameter is an array, the input
/// values are its `count` elements. Otherwise they are the parameters.
fn input_values(function: &TypedFnDef, count: usize) -> Vec<(String, &Type)> {
    if let [ParamDef { name, ty, .. }] = &function.params[..]
        && let Type::Array(element, _) | Type::ArrayConst(element, _) = ty
    {
        return (0..count)
            .map(|index| (format!("{name}[{index}]"), &**element))
            .collect();
    }
    (function.params.iter())
        .map(|parameter| (parameter.name.clone(), &parameter.ty))
        .collect()
}

fn fault(problem: String) -> LanguageError {
    LanguageError::Fault(problem)
}

/// The state of a conversion. It collects the gates on which outputs depend, in depth-first order
/// from the outputs.
///
/// The order of gates must be deterministic, because the two parties compare digests that depend on
/// it. The compiler's order is not deterministic, because the compiler iterates over hash tables.
struct Conversion<'a> {
    source: &'a Source,
    input_bits: usize,
    /// The number of the wire with the constant 0 in the compiler's circuit. The next wire has the
    /// constant 1.
    zero: usize,
    /// For each wire of the compiler's circuit, the wire of the converted circuit, or
    /// [`UNCONVERTED`].
    wires: Vec<Wire>,
    gates: Vec<Gate>,
}

impl<'a> Conversion<'a> {
    fn new(source: &'a Source, orders: &[Vec<usize>]) -> Self {
        let input_bits = orders.iter().map(Vec::len).sum();
        let mut wires = vec![UNCONVERTED; input_bits + source.gates.len()];
        let mut start = 0;
        for order in orders {
            for (ours, theirs) in order.iter().enumerate() {
                wires[start + theirs] = (start + ours) as Wire;
            }
            start += order.len();
        }
        Self {
            source,
            input_bits,
            zero: input_bits,
            wires,
            gates: Vec::new(),
        }
    }

    /// Returns the wire of the converted circuit for wire `wanted` of the compiler's circuit. If
    /// the wire is not converted yet, adds its gate and all gates on which it depends.
    fn wire(&mut self, wanted: usize) -> Result<Wire, LanguageError> {
        let mut stack = vec![wanted];
        while let Some(&wire) = stack.last() {
            if *(self.wires.get(wire)).ok_or_else(|| fault(format!("there is no wire {wire}")))?
                != UNCONVERTED
            {
                stack.pop();
                continue;
            }
            let (op, operands) = self.gate(wire)?;
            let missing = (operands.into_iter().flatten())
                .find(|&operand| self.wires[operand] == UNCONVERTED);
            if let Some(operand) = missing {
                stack.push(operand);
                continue;
            }
            let [a, b] = operands.map(|operand| operand.map_or(0, |operand| self.wires[operand]));
            self.wires[wire] = (self.input_bits + self.gates.len()) as Wire;
            self.gates.push(Gate { op, a, b });
            stack.pop();
        }
        Ok(self.wires[wanted])
    }

    /// Returns the operation and the operands of the gate whose output is `wire` in the compiler's
    /// circuit. Returns an error unless the operands have smaller numbers than `wire`.
    fn gate(&self, wire: usize) -> Result<(Op, [Option<usize>; 2]), LanguageError> {
        let gate = wire.checked_sub(self.input_bits);
        let gate = gate.and_then(|gate| self.source.gates.get(gate));
        let (op, operands) = match gate {
            // The compiler derives the two constants from an input bit, even if the function has no
            // inputs. They are replaced by constant gates.
            Some(_) if wire == self.zero => (Op::Zero, [None, None]),
            Some(_) if wire == self.zero + 1 => (Op::One, [None, None]),
            Some(&SourceGate::Xor(a, b)) => (Op::Xor, [Some(a), Some(b)]),
            Some(&SourceGate::And(a, b)) => (Op::And, [Some(a), Some(b)]),
            Some(&SourceGate::Not(a)) => (Op::Not, [Some(a), None]),
            None => return Err(fault(format!("there is no wire {wire}"))),
        };
        if operands
            .into_iter()
            .flatten()
            .any(|operand| operand >= wire)
        {
            return Err(fault(format!("wire {wire} depends on a later one")));
        }
        Ok((op, operands))
    }
}
