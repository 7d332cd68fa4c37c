//! Formats and prints the output of commands: values, JSON and quantities.

use std::{
    io::{self, BufWriter, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use transpute::Bits;

use crate::failure::{Failure, FailureKind};

/// An output value in JSON.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct OutputValue {
    /// The value as one character per bit in wire order, like an input that starts with `bits:`.
    pub(crate) bits: String,
    /// The value in hexadecimal, most significant digit first, like an input that starts with
    /// `hex:`.
    pub(crate) hex: String,
}

impl OutputValue {
    pub(crate) fn list(values: &[Bits]) -> Vec<Self> {
        let value = |bits: &Bits| Self {
            bits: bits.to_string(),
            hex: bits.to_hex(),
        };
        values.iter().map(value).collect()
    }
}

/// Writes to standard output. If the reader has closed it, the failure has no message.
///
/// # Errors
/// Returns an error if standard output cannot be written to.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(stdout_failure)
}

fn stdout_failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // The reader, for example `head`, has closed the pipe.
        return Failure::Silent(FailureKind::Other as u8);
    }
    Failure::other("cannot write to standard output").because(error)
}

/// True after a JSON object was printed. A later error is then not printed as a second object.
static HAS_JSON: AtomicBool = AtomicBool::new(false);

/// Returns whether a JSON object was written.
pub(crate) fn has_json() -> bool {
    HAS_JSON.load(Relaxed)
}

/// Writes one JSON object on a line of its own.
///
/// # Errors
/// Returns an error if standard output cannot be written to.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    HAS_JSON.store(true, Relaxed);
    print(|out| {
        serde_json::to_writer(&mut *out, value)?;
        writeln!(out)
    })
}

/// The JSON object of an error, which replaces the result.
#[derive(Serialize)]
struct ErrorObject {
    error: ErrorFields,
}

#[derive(Serialize)]
struct ErrorFields {
    /// The exit code.
    code: u8,
    kind: &'static str,
    message: String,
}

/// Prints a failure with a message as a JSON object on standard output.
pub(crate) fn print_failure(failure: &Failure) {
    if let Some((code, kind, message)) = failure.parts() {
        let error = ErrorFields {
            code,
            kind,
            message,
        };
        // If printing fails, the exit code still reports the failure.
        let _ = print_json(&ErrorObject { error });
    }
}

/// Writes a line to standard error. Errors are ignored.
pub fn note(text: impl AsRef<str>) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{}", text.as_ref()).and_then(|()| err.flush());
}

/// Maximum width in bits of an output value that is printed in decimal and binary notation too.
const MAX_SHORT_WIDTH: usize = 64;

/// Writes one line per output value. A value of at most [`MAX_SHORT_WIDTH`] bits has several
/// notations.
pub(crate) fn write_values(out: &mut dyn Write, prefix: &str, values: &[Bits]) -> io::Result<()> {
    for (index, bits) in values.iter().enumerate() {
        write!(out, "{prefix}output {index}: hex:{}", bits.to_hex())?;
        if let Some(number) = bits.to_u128().filter(|_| bits.len() <= MAX_SHORT_WIDTH) {
            write!(out, " dec:{number} bits:{bits}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns a time in milliseconds, rounded to microseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    // The clocks are not more precise than a microsecond.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Formats a count with its noun. `one` is the singular of the noun.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(count))
}

/// Formats a count with commas between groups of three digits.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_silent() {
        let failure = stdout_failure(io::ErrorKind::BrokenPipe.into());
        assert!(failure.parts().is_none());
        assert_eq!(failure.code(), 1);
    }

    #[test]
    fn thousands_are_grouped() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (28_176, "28,176"),
            (1_999_920, "1,999,920"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn short_values_print_in_every_notation() {
        let values = [(6, 4), (1, 1), (u128::from(u64::MAX), 64), (1, 65)]
            .map(|(value, width)| Bits::from_u128(value, width));
        let mut out = Vec::new();
        write_values(&mut out, "evaluation 2 ", &values).unwrap();
        let ones = "1".repeat(64);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "evaluation 2 output 0: hex:6 dec:6 bits:0110\n\
                 evaluation 2 output 1: hex:1 dec:1 bits:1\n\
                 evaluation 2 output 2: hex:ffffffffffffffff dec:18446744073709551615 bits:{ones}\n\
                 evaluation 2 output 3: hex:00000000000000001\n"
            )
        );
    }
}
