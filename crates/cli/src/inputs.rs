//! The input values of a party.

use std::fmt;

use thiserror::Error;
use transpute::{Bits, InputSplit, Role};

use crate::value::{self, ValueError};

/// The error of a party's input values.
#[derive(Debug, Error)]
pub(crate) enum InputProblem {
    #[error("N=VALUE is wanted, N being the number of an input value, here one of {values}")]
    NoNumber { values: String },
    #[error("input value {index} does not exist: there are {count}, counted from 0")]
    Unknown { index: usize, count: usize },
    #[error("input value {index} is the {owner}'s and not this party's")]
    Foreign { index: usize, owner: Role },
    #[error("input value {index} is given twice")]
    Twice { index: usize },
    #[error("input value {index} ({width} bits{}) is missing", Owned(*owner))]
    Missing {
        index: usize,
        width: u32,
        owner: Option<Role>,
    },
    #[error("input value {index}")]
    Value { index: usize, source: ValueError },
}

/// Formats the owner of an input value.
struct Owned(Option<Role>);

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(role) => write!(f, ", the {role}'s"),
            None => Ok(()),
        }
    }
}

/// The input values that the user must provide.
#[derive(Clone)]
pub(crate) struct Wanted {
    split: InputSplit,
    /// The party whose values are wanted. `None` if the values of both parties are wanted.
    role: Option<Role>,
}

impl Wanted {
    /// Requires the input values of the party with this role.
    pub(crate) fn of(role: Role, split: InputSplit) -> Self {
        Self {
            split,
            role: Some(role),
        }
    }

    /// Requires all input values of a circuit, whose values have these widths in bits.
    pub(crate) fn all(widths: &[u32]) -> Self {
        Self {
            split: InputSplit::first_to_garbler(widths),
            role: None,
        }
    }

    /// Iterates over the wanted values: the number in the circuit and the width in bits of each.
    pub(crate) fn values(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (self.split.widths().iter().copied().enumerate())
            .filter(|&(index, _)| self.role.is_none_or(|role| self.owner(index) == role))
    }

    /// Parses one `N=VALUE` for each wanted value, in any order. `VALUE` alone is enough if only
    /// one value is wanted. Returns the bits of all values, in the order of the circuit.
    pub(crate) fn read<'a>(
        &self,
        given: impl IntoIterator<Item = &'a str>,
    ) -> Result<Bits, InputProblem> {
        let mut values: Vec<Option<Bits>> = vec![None; self.split.widths().len()];
        for text in given {
            let (index, value) = self.number(text)?;
            let width = *(self.split.widths().get(index)).ok_or(InputProblem::Unknown {
                index,
                count: values.len(),
            })?;
            if let Some(role) = self.role
                && self.owner(index) != role
            {
                let owner = self.owner(index);
                return Err(InputProblem::Foreign { index, owner });
            }
            if values[index].is_some() {
                return Err(InputProblem::Twice { index });
            }
            let bits = value::parse(value, width as usize)
                .map_err(|source| InputProblem::Value { index, source })?;
            values[index] = Some(bits);
        }
        // `bits` gets its full capacity here. If it had to grow, it would leave copies of the
        // secret bits in freed memory.
        let total = self.values().map(|(_, width)| width as usize).sum();
        let mut bits = Bits::with_capacity(total);
        for (index, width) in self.values() {
            let value = values[index].take().ok_or(InputProblem::Missing {
                index,
                width,
                owner: self.role,
            })?;
            bits.extend([value]);
        }
        Ok(bits)
    }

    fn owner(&self, index: usize) -> Role {
        if self.split.is_garbler(index) {
            Role::Garbler
        } else {
            Role::Evaluator
        }
    }

    /// Splits `N=VALUE` into the number N of the input value and `VALUE`. `N=` may be missing if
    /// only one value is wanted.
    fn number<'a>(&self, text: &'a str) -> Result<(usize, &'a str), InputProblem> {
        let is_number = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
        if let Some((number, value)) = text.split_once('=')
            && is_number(number)
            && let Ok(index) = number.parse()
        {
            return Ok((index, value));
        }
        let mut values = self.values();
        match (values.next(), values.next()) {
            (Some((index, _)), None) => Ok((index, text)),
            _ => Err(InputProblem::NoNumber {
                values: self.numbers(),
            }),
        }
    }

    /// Formats the numbers of the wanted values for error messages: at most `SHOWN` of them.
    fn numbers(&self) -> String {
        const SHOWN: usize = 8;
        let mut list: Vec<_> = (self.values().take(SHOWN))
            .map(|(index, _)| index.to_string())
            .collect();
        if self.values().nth(SHOWN).is_some() {
            list.push("...".to_owned());
        }
        if list.is_empty() {
            return "none".to_owned();
        }
        list.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn garbler() -> Wanted {
        Wanted::of(Role::Garbler, InputSplit::new(&[4, 8, 4], &[2, 0]).unwrap())
    }

    #[test]
    fn values_are_put_in_the_order_of_the_circuit() {
        let bits = garbler().read(["2=hex:f", "0=hex:1"]).unwrap();
        assert_eq!(bits.to_string(), "10001111");
        let all = Wanted::all(&[4, 4]);
        assert_eq!(all.read(["1=dec:1", "0=dec:2"]).unwrap().to_hex(), "12");
    }

    #[test]
    fn a_single_value_needs_no_number() {
        let split = InputSplit::first_to_garbler(&[4, 8]);
        let wanted = Wanted::of(Role::Evaluator, split);
        assert_eq!(wanted.read(["hex:a5"]).unwrap().to_hex(), "a5");
        assert_eq!(wanted.read(["1=hex:a5"]).unwrap().to_hex(), "a5");
    }

    #[test]
    fn errors_name_the_value_and_its_owner() {
        let message = |given: &[&str]| {
            let error = garbler().read(given.iter().copied()).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message(&["0=hex:1"]),
            "input value 2 (4 bits, the garbler's) is missing"
        );
        assert_eq!(
            message(&["1=hex:11"]),
            "input value 1 is the evaluator's and not this party's"
        );
        assert_eq!(
            message(&["3=hex:1"]),
            "input value 3 does not exist: there are 3, counted from 0"
        );
        assert_eq!(
            message(&["0=hex:1", "0=hex:1"]),
            "input value 0 is given twice"
        );
        assert_eq!(
            message(&["hex:1"]),
            "N=VALUE is wanted, N being the number of an input value, here one of 0, 2"
        );
    }

    #[test]
    fn a_number_too_large_to_count_is_no_number() {
        let error = garbler()
            .read(["99999999999999999999999=hex:1"])
            .unwrap_err();
        assert!(matches!(error, InputProblem::NoNumber { .. }));
    }
}
