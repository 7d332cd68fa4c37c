//! The source of a party's private inputs.

use std::error::Error;

use transpute_circuit::Bits;

use crate::SessionError;

/// The error of an input that cannot be provided.
pub type InputError = Box<dyn Error + Send + Sync>;

/// One party's input for each evaluation of a batch.
///
/// The session requests the inputs of one evaluation at a time, in order, and once each. So the
/// inputs of a long batch need not all be in memory.
pub trait Inputs: Send {
    /// Returns this party's bits for evaluation `instance`: its input values concatenated in the
    /// order of the circuit.
    ///
    /// # Errors
    /// Any error. It ends the run.
    fn bits(&mut self, instance: u64) -> Result<Bits, InputError>;
}

/// Entry `i` is the input of evaluation `i`.
impl Inputs for Vec<Bits> {
    fn bits(&mut self, instance: u64) -> Result<Bits, InputError> {
        usize::try_from(instance)
            .ok()
            .and_then(|index| self.get_mut(index))
            .map(std::mem::take)
            .ok_or_else(|| format!("there is no input for evaluation {instance}").into())
    }
}

/// Inputs that are the same bits for every evaluation.
pub struct Repeat(
    /// This party's input values of one evaluation, concatenated in the order of the circuit.
    pub Bits,
);

impl Inputs for Repeat {
    fn bits(&mut self, _instance: u64) -> Result<Bits, InputError> {
        Ok(self.0.clone())
    }
}

/// Fetches the input of one evaluation, and checks that it has `width` bits.
pub(crate) fn fetch(
    inputs: &mut dyn Inputs,
    instance: u64,
    width: usize,
) -> Result<Bits, SessionError> {
    let bits = inputs
        .bits(instance)
        .map_err(|source| SessionError::Input { instance, source })?;
    check_input(&bits, instance, width)?;
    Ok(bits)
}

/// Checks that the input of evaluation `instance` has `width` bits.
///
/// # Errors
/// Returns [`SessionError::Input`] with both lengths.
pub fn check_input(bits: &Bits, instance: u64, width: usize) -> Result<(), SessionError> {
    if bits.len() == width {
        return Ok(());
    }
    Err(SessionError::Input {
        instance,
        source: format!("{} bits given where {width} are due", bits.len()).into(),
    })
}
