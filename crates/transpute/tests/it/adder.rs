//! A small circuit that adds the garbler's number and the evaluator's.

use transpute::{Bits, Builder, Circuit, UInt};

pub(crate) fn adder() -> Circuit {
    Builder::build(|b| {
        let x = b.input::<UInt<16>>();
        let y = b.input::<UInt<16>>();
        b.output(x + y);
    })
    .unwrap()
}

pub(crate) fn number(value: u128) -> Bits {
    Bits::from_u128(value, 16)
}
