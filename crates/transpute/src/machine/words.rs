//! What a party that listens says of its machine, in the message of its offer (docs/protocol.md, "How fast the listener is").
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | version: 1. All others are passed over |
//! | 1 | role of the listener: 0 garbler, 1 evaluator |
//! | 1 | garbling scheme, as in the hello |
//! | 8 | picoseconds for an AND gate in that role |
//! | 8 | for an XOR gate |
//! | 8 | for an extended oblivious transfer |
//! | 8 | for a base oblivious transfer, on both sides together |

use transpute_garble::Scheme;
use transpute_select::Machine;
use transpute_session::Role;

use super::typical;

const VERSION: u8 = 1;

/// Bytes in all.
const LEN: usize = 35;

/// Picoseconds in a second.
const PER_SECOND: f64 = 1e12;

/// Writes what the machine of a party can do in its role.
#[must_use]
pub fn encode(role: Role, scheme: Scheme, machine: &Machine) -> Vec<u8> {
    let and_s = match role {
        Role::Garbler => machine.garble_and_s,
        Role::Evaluator => machine.evaluate_and_s,
    };
    let mut words = vec![VERSION, role_code(role), scheme.code()];
    for seconds in [
        and_s,
        machine.xor_s,
        machine.transfer_s,
        machine.base_transfer_s,
    ] {
        // What is no number becomes 0, which nobody believes.
        words.extend_from_slice(&((seconds * PER_SECOND).round() as u64).to_le_bytes());
    }
    words
}

/// Reads what a peer in this role says of its machine; `None` for what is no such message, is about something else, or has a figure that
/// no machine has. What its role does not need is that of a typical machine.
#[must_use]
pub fn decode(words: &[u8], role: Role, scheme: Scheme) -> Option<Machine> {
    let words: &[u8; LEN] = words.try_into().ok()?;
    let (start, figures) = words.split_at(3);
    if start != [VERSION, role_code(role), scheme.code()] {
        return None;
    }
    let (figures, _) = figures.as_chunks::<8>();
    let seconds = |index: usize| u64::from_le_bytes(figures[index]) as f64 / PER_SECOND;
    let mut machine = Machine {
        xor_s: seconds(1),
        transfer_s: seconds(2),
        base_transfer_s: seconds(3),
        ..typical(scheme)
    };
    match role {
        Role::Garbler => machine.garble_and_s = seconds(0),
        Role::Evaluator => machine.evaluate_and_s = seconds(0),
    }
    machine.checked().ok()
}

fn role_code(role: Role) -> u8 {
    match role {
        Role::Garbler => 0,
        Role::Evaluator => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Machine = Machine {
        garble_and_s: 250e-9,
        evaluate_and_s: 190e-9,
        xor_s: 3e-9,
        transfer_s: 700e-9,
        base_transfer_s: 1.0,
    };

    #[test]
    fn words_are_what_the_document_says() {
        let words = encode(Role::Evaluator, Scheme::ThreeHalves, &SLOW);
        let mut expected = vec![1, 1, 3];
        for picoseconds in [190_000_u64, 3000, 700_000, 1_000_000_000_000] {
            expected.extend_from_slice(&picoseconds.to_le_bytes());
        }
        assert_eq!(words, expected);
        let read = decode(&words, Role::Evaluator, Scheme::ThreeHalves).unwrap();
        // Nothing is said of the role that the listener does not have.
        let expected = Machine {
            garble_and_s: Machine::TYPICAL.garble_and_s,
            ..SLOW
        };
        assert_eq!(read, expected);
        let words = encode(Role::Garbler, Scheme::Prf, &SLOW);
        let read = decode(&words, Role::Garbler, Scheme::Prf).unwrap();
        assert_eq!(read.garble_and_s, SLOW.garble_and_s);
    }

    #[test]
    fn words_about_something_else_are_passed_over() {
        let words = encode(Role::Garbler, Scheme::HalfGates, &SLOW);
        let read = |words: &[u8]| decode(words, Role::Garbler, Scheme::HalfGates);
        assert!(read(&words).is_some());
        assert!(decode(&words, Role::Evaluator, Scheme::HalfGates).is_none());
        assert!(decode(&words, Role::Garbler, Scheme::FixedKey).is_none());
        for length in 0..LEN {
            assert!(read(&words[..length]).is_none(), "{length}");
        }
        assert!(read(&[&words[..], &[0]].concat()).is_none());
        assert!(read(&[b'x'; 1024]).is_none());
        // A later version, and a role and a scheme that there are not.
        for (index, value) in [(0, 2), (0, 0), (1, 2), (2, 200)] {
            let mut other = words.clone();
            other[index] = value;
            assert!(read(&other).is_none(), "{index}");
        }
    }

    #[test]
    fn figures_that_no_machine_has_are_not_believed() {
        let words = encode(Role::Garbler, Scheme::HalfGates, &SLOW);
        for start in [3, 11, 19, 27] {
            for lie in [0, 1_000_000_000_001, u64::MAX] {
                let mut words = words.clone();
                words[start..start + 8].copy_from_slice(&lie.to_le_bytes());
                assert!(
                    decode(&words, Role::Garbler, Scheme::HalfGates).is_none(),
                    "{lie}"
                );
            }
        }
        let nonsense = Machine {
            garble_and_s: f64::NAN,
            ..SLOW
        };
        let words = encode(Role::Garbler, Scheme::HalfGates, &nonsense);
        assert!(decode(&words, Role::Garbler, Scheme::HalfGates).is_none());
    }
}
