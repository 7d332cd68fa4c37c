//! Splits the bytes of a circuit file into lines of numbers, through one buffer.

use std::io::{self, Read};

use super::{BristolError, Found, MAX_NUMBERS_PER_LINE, Position, Problem};
use crate::Op;

/// Size of the read buffer, in bytes. It is large enough that system calls take little time, and
/// small enough for the L2 cache.
const BUFFER_BYTES: u64 = 1 << 18;

/// The largest number in a file; see [`Problem::NumberTooLarge`].
const MAX_NUMBER: u32 = 1 << 31;

/// A number and the column where it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) value: u32,
    /// Column, counted from 1.
    pub(super) column: u32,
}

/// A line that is not blank: numbers, then at most one word.
#[derive(Default)]
pub(super) struct Line {
    /// The line number, counted from 1.
    pub(super) line: u64,
    pub(super) numbers: Vec<Number>,
    word: [u8; 16],
    word_len: usize,
    /// Column of the word, or of the end of the line if there is no word.
    tail_column: u32,
}

impl Line {
    /// Returns the word, cut after 16 bytes; all operations are shorter.
    pub(super) fn word(&self) -> Option<&[u8]> {
        (self.word_len > 0).then(|| &self.word[..self.word_len])
    }

    /// Returns an error at a column of this line.
    pub(super) fn error(&self, column: u32, problem: Problem) -> BristolError {
        BristolError::Invalid {
            position: Position {
                line: self.line,
                column: column.into(),
            },
            problem,
        }
    }

    /// Returns an error at number `index`, or at the word or the end of the line if there are fewer
    /// numbers.
    pub(super) fn error_at_number(&self, index: usize, problem: Problem) -> BristolError {
        let number = self.numbers.get(index);
        self.error(number.map_or(self.tail_column, |n| n.column), problem)
    }

    /// Returns the error that `expected` is missing at the position of number `index`.
    pub(super) fn unexpected(&self, index: usize, expected: &'static str) -> BristolError {
        let found = match (self.numbers.get(index), self.word()) {
            (Some(number), _) => Found::Number(number.value),
            (None, Some(word)) => Found::Word(String::from_utf8_lossy(word).into_owned()),
            (None, None) => Found::EndOfLine,
        };
        self.error_at_number(index, Problem::Unexpected { expected, found })
    }
}

/// A gate in the usual spelling: one blank between words, and a line feed after the operation.
pub(super) struct PlainGate {
    pub(super) op: Op,
    pub(super) operands: [u32; 2],
    pub(super) out: u32,
    /// Bytes from the end of the previous line to the end of this line.
    length: usize,
}

impl PlainGate {
    /// Parses a gate whose text starts with the end of the previous line. Returns `None` for any
    /// other spelling.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (inputs, rest) = match bytes {
            [b'\n', inputs @ (b'1' | b'2'), b' ', b'1', b' ', rest @ ..] => (inputs - b'0', rest),
            _ => return None,
        };
        let (a, rest) = Self::number(rest)?;
        let (b, rest) = match inputs {
            1 => (0, rest),
            _ => Self::number(rest)?,
        };
        let (out, rest) = Self::number(rest)?;
        let op = match (inputs, rest) {
            (2, [b'X', b'O', b'R', b'\n', ..]) => Op::Xor,
            (2, [b'A', b'N', b'D', b'\n', ..]) => Op::And,
            (1, [b'I', b'N', b'V', b'\n', ..]) => Op::Not,
            _ => return None,
        };
        Some(Self {
            op,
            operands: [a, b],
            out,
            length: bytes.len() - rest.len() + 3,
        })
    }

    /// Parses a number of at most nine digits and the single blank after it.
    #[inline]
    fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
        let mut value = 0;
        for (i, byte) in bytes.iter().enumerate().take(10) {
            match byte {
                b'0'..=b'9' if i < 9 => value = value * 10 + u32::from(byte - b'0'),
                b' ' if i > 0 => return Some((value, &bytes[i + 1..])),
                _ => return None,
            }
        }
        None
    }
}

/// Splits a source into lines.
pub(super) struct Scanner<R> {
    source: R,
    buffer: Box<[u8]>,
    /// The index of the next byte in `buffer`.
    next: usize,
    /// The end of the valid bytes in `buffer`.
    end: usize,
    /// Number of bytes read before those in `buffer`.
    before: u64,
    line: u64,
    /// Number of bytes before the first byte of the current line.
    line_start: u64,
}

impl<R: Read> Scanner<R> {
    pub(super) fn new(source: R, length: u64) -> Self {
        Self {
            source,
            buffer: vec![0; length.clamp(1, BUFFER_BYTES) as usize].into(),
            next: 0,
            end: 0,
            before: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// Returns the position of the next byte.
    pub(super) fn position(&self) -> Position {
        Position {
            line: self.line,
            column: self.before + self.next as u64 - self.line_start + 1,
        }
    }

    /// Returns the next gate, without consuming it, if it has the usual spelling and its whole line
    /// is in the buffer.
    pub(super) fn plain_gate(&self) -> Option<PlainGate> {
        PlainGate::read(&self.buffer[self.next..self.end])
    }

    /// Consumes the gate that [`Scanner::plain_gate`] returned, except the end of its line.
    pub(super) fn take_plain(&mut self, gate: &PlainGate) {
        self.line += 1;
        self.line_start = self.before + self.next as u64 + 1;
        self.next += gate.length;
    }

    /// Reads the next line that is not blank; returns whether there is one.
    pub(super) fn read_line(&mut self, line: &mut Line) -> Result<bool, BristolError> {
        line.numbers.clear();
        line.word_len = 0;
        if self.skip_blank_lines()?.is_none() {
            return Ok(false);
        }
        line.line = self.line;
        loop {
            let byte = self.skip_blanks()?;
            line.tail_column = self.column();
            match byte {
                None | Some(b'\n') => return Ok(true),
                Some(b'0'..=b'9') => {
                    if line.numbers.len() == MAX_NUMBERS_PER_LINE {
                        return Err(self.error(Problem::LineTooLong));
                    }
                    let number = self.read_number(line.tail_column)?;
                    line.numbers.push(number);
                }
                Some(b'A'..=b'Z' | b'a'..=b'z') => {
                    self.read_word(line)?;
                    return match self.skip_blanks()? {
                        None | Some(b'\n') => Ok(true),
                        Some(byte) => Err(self.unexpected("the end of the line", byte)),
                    };
                }
                Some(byte) => return Err(self.unexpected("a number or an operation", byte)),
            }
        }
    }

    /// Skips lines that are blank or start with `//`.
    pub(super) fn skip_comments(&mut self) -> Result<(), BristolError> {
        while self.skip_blank_lines()? == Some(b'/') {
            self.next += 1;
            match self.peek()? {
                Some(b'/') => {}
                Some(byte) => return Err(self.unexpected("a second '/'", byte)),
                None => return Ok(()),
            }
            while self.peek()?.is_some_and(|byte| byte != b'\n') {
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Skips blanks and line ends, and returns the next byte without consuming it.
    pub(super) fn skip_blank_lines(&mut self) -> Result<Option<u8>, BristolError> {
        loop {
            let byte = self.skip_blanks()?;
            if byte != Some(b'\n') {
                return Ok(byte);
            }
            self.next += 1;
            self.line += 1;
            self.line_start = self.before + self.next as u64;
        }
    }

    fn skip_blanks(&mut self) -> Result<Option<u8>, BristolError> {
        loop {
            let byte = self.peek()?;
            if !matches!(byte, Some(b' ' | b'\t' | b'\r')) {
                return Ok(byte);
            }
            self.next += 1;
        }
    }

    /// Reads a number whose first digit is the next byte.
    fn read_number(&mut self, column: u32) -> Result<Number, BristolError> {
        let mut value = 0;
        loop {
            match self.peek()? {
                Some(digit @ b'0'..=b'9') => {
                    value = value * 10 + u64::from(digit - b'0');
                    if value > MAX_NUMBER.into() {
                        let mut error = self.error(Problem::NumberTooLarge);
                        if let BristolError::Invalid { position, .. } = &mut error {
                            position.column = column.into();
                        }
                        return Err(error);
                    }
                    self.next += 1;
                }
                None | Some(b' ' | b'\t' | b'\r' | b'\n') => {
                    let value = value as u32;
                    return Ok(Number { value, column });
                }
                Some(byte) => return Err(self.unexpected("a digit or a blank", byte)),
            }
        }
    }

    /// Reads a word whose first letter is the next byte.
    fn read_word(&mut self, line: &mut Line) -> Result<(), BristolError> {
        while let Some(byte) = self.peek()?
            && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
        {
            if let Some(place) = line.word.get_mut(line.word_len) {
                *place = byte;
                line.word_len += 1;
            }
            self.next += 1;
        }
        Ok(())
    }

    #[inline]
    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.next == self.end && !self.refill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.next]))
    }

    /// Refills the buffer, which is used up; returns whether the source had more bytes.
    #[cold]
    fn refill(&mut self) -> io::Result<bool> {
        self.before += self.end as u64;
        (self.next, self.end) = (0, 0);
        self.end = loop {
            match self.source.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        Ok(self.end > 0)
    }

    /// Returns the column of the next byte, at most `u32::MAX`. Exact columns of lines over 4 GiB
    /// would need 8 bytes per number.
    fn column(&self) -> u32 {
        self.position().column.try_into().unwrap_or(u32::MAX)
    }

    fn unexpected(&self, expected: &'static str, byte: u8) -> BristolError {
        let found = match byte {
            b'\n' => Found::EndOfLine,
            _ => Found::Byte(byte),
        };
        self.error(Problem::Unexpected { expected, found })
    }

    pub(super) fn error(&self, problem: Problem) -> BristolError {
        BristolError::Invalid {
            position: self.position(),
            problem,
        }
    }
}
