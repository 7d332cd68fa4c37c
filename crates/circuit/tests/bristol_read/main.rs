//! Tests of the circuit files that the reader accepts. For the files that it rejects, they compare
//! the error and its line and column.

mod accepted;
mod rejected;

use std::io::{self, Read};

use transpute_circuit::{
    BristolError, Circuit,
    bristol::{self, ParseLimits},
};

const XOR: &str = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 XOR\n";

fn parse(text: &str) -> Result<bristol::Parsed, BristolError> {
    bristol::read(text.as_bytes(), text.len() as u64, &ParseLimits::default())
}

/// A reader that returns one byte at a time. Before each byte, a read fails with `Interrupted`.
struct Trickle<'a> {
    bytes: &'a [u8],
    interrupted: bool,
}

impl<'a> Trickle<'a> {
    fn new(text: &'a str) -> Self {
        let (bytes, interrupted) = (text.as_bytes(), false);
        Self { bytes, interrupted }
    }
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.bytes.take(1).read(buffer)?;
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

#[test]
fn a_failing_source_is_an_io_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    let result = Circuit::read(XOR.as_bytes().chain(Broken), XOR.len() as u64);
    assert!(matches!(result, Err(BristolError::Io(error)) if error.to_string() == "broken"));
}

#[test]
fn files_are_opened_and_missing_ones_reported() {
    let path = std::env::temp_dir().join(format!("transpute-bristol-{}.txt", std::process::id()));
    std::fs::write(&path, XOR).unwrap();
    let opened = Circuit::open(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(opened.unwrap(), Circuit::parse(XOR.as_bytes()).unwrap());
    assert!(matches!(Circuit::open(&path), Err(BristolError::Io(_))));
    assert!(matches!(
        Circuit::open(std::env::temp_dir()),
        Err(BristolError::Io(_))
    ));
}
