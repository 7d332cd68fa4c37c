//! How fast a machine computes.

use serde::{Deserialize, Serialize};

use crate::{SelectError, error::checked};

/// How fast a machine computes, in seconds; measured once for each machine and scheme.
///
/// The fields are public, and what a figure may be is checked where one comes from outside: by [`checked`](Self::checked), and when
/// it is deserialized.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Figures")]
pub struct Machine {
    /// To garble an AND gate.
    pub garble_and_s: f64,
    /// To evaluate an AND gate.
    pub evaluate_and_s: f64,
    /// To garble or evaluate an XOR gate.
    pub xor_s: f64,
    /// For an extended oblivious transfer, on either side.
    pub transfer_s: f64,
    /// For a base oblivious transfer, on both sides together: they wait for each other.
    pub base_transfer_s: f64,
}

impl Machine {
    /// A processor of 2023 with AES instructions, over half-gates: what is reckoned with until something was measured.
    pub const TYPICAL: Self = Self {
        garble_and_s: 13e-9,
        evaluate_and_s: 11e-9,
        xor_s: 1.4e-9,
        transfer_s: 20e-9,
        base_transfer_s: 220e-6,
    };

    /// The same for schemes that have tables for XOR gates.
    pub const TYPICAL_WITHOUT_FREE_XOR: Self = Self {
        garble_and_s: 36e-9,
        evaluate_and_s: 17e-9,
        xor_s: 18e-9,
        transfer_s: 90e-9,
        ..Self::TYPICAL
    };

    /// Processor time that a byte takes on either side beside gates, in seconds: it is framed, encrypted, copied, sent and received. On
    /// a typical machine; no measurement of a machine alone has it.
    pub const BYTE_S: f64 = 2.3e-9;

    /// The shortest time that any of the figures may be, in seconds.
    pub const MIN_S: f64 = 1e-12;

    /// The longest, in seconds.
    pub const MAX_S: f64 = 1.0;

    /// Returns the same figures if all of them are from [`MIN_S`](Self::MIN_S) to [`MAX_S`](Self::MAX_S).
    ///
    /// # Errors
    /// [`SelectError::Number`], which names the first that is not.
    pub fn checked(self) -> Result<Self, SelectError> {
        for (field, value) in [
            ("garble_and_s", self.garble_and_s),
            ("evaluate_and_s", self.evaluate_and_s),
            ("xor_s", self.xor_s),
            ("transfer_s", self.transfer_s),
            ("base_transfer_s", self.base_transfer_s),
        ] {
            checked(
                field,
                value,
                (Self::MIN_S, Self::MAX_S),
                "1e-12 to 1 seconds",
            )?;
        }
        Ok(self)
    }
}

/// [`Machine`] as it is written, before it is checked.
#[derive(Deserialize)]
struct Figures {
    garble_and_s: f64,
    evaluate_and_s: f64,
    xor_s: f64,
    transfer_s: f64,
    base_transfer_s: f64,
}

impl TryFrom<Figures> for Machine {
    type Error = SelectError;

    fn try_from(figures: Figures) -> Result<Self, SelectError> {
        let Figures {
            garble_and_s,
            evaluate_and_s,
            xor_s,
            transfer_s,
            base_transfer_s,
        } = figures;
        let machine = Self {
            garble_and_s,
            evaluate_and_s,
            xor_s,
            transfer_s,
            base_transfer_s,
        };
        machine.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_no_machine_has_are_refused() {
        for good in [Machine::TYPICAL, Machine::TYPICAL_WITHOUT_FREE_XOR] {
            let text = serde_json::to_string(&good).unwrap();
            assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), good);
        }
        let set: [fn(&mut Machine, f64); 5] = [
            |machine, value| machine.garble_and_s = value,
            |machine, value| machine.evaluate_and_s = value,
            |machine, value| machine.xor_s = value,
            |machine, value| machine.transfer_s = value,
            |machine, value| machine.base_transfer_s = value,
        ];
        for set in set {
            for wrong in [0.0, -1e-9, 9e-13, 1.1, f64::NAN, f64::INFINITY] {
                let mut machine = Machine::TYPICAL;
                set(&mut machine, wrong);
                assert!(
                    matches!(machine.checked(), Err(SelectError::Number { .. })),
                    "{machine:?}"
                );
                // What is not finite is `null` in JSON.
                let text = serde_json::to_string(&machine).unwrap();
                assert!(serde_json::from_str::<Machine>(&text).is_err(), "{text}");
            }
        }
    }
}
