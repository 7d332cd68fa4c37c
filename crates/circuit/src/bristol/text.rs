//! Writes lines of decimal numbers through a buffer.

use std::io::{self, Write};

/// Number of buffered bytes from which on the buffer is written to the output.
const FLUSH_BYTES: usize = 1 << 16;

pub(super) struct Text<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> Text<W> {
    pub(super) fn new(out: W) -> Self {
        let buffer = Vec::with_capacity(FLUSH_BYTES + 64);
        Self { out, buffer }
    }

    /// Writes a line of numbers and a final word, separated by blanks. An empty word is omitted.
    pub(super) fn line(
        &mut self,
        numbers: impl IntoIterator<Item = u32>,
        word: &str,
    ) -> io::Result<()> {
        let mut separator: &[u8] = b"";
        for number in numbers {
            self.buffer.extend_from_slice(separator);
            self.number(number);
            separator = b" ";
            self.write_if_full()?;
        }
        if !word.is_empty() {
            self.buffer.push(b' ');
            self.buffer.extend_from_slice(word.as_bytes());
        }
        self.buffer.push(b'\n');
        self.write_if_full()
    }

    /// Writes the rest of the buffer and flushes the output.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }

    fn number(&mut self, mut number: u32) {
        let mut digits = [0; 10];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&digits[first..]);
    }

    fn write_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
