//! Splits the bytes of a circuit file into lines of numbers and a word.

use std::io::{self, Read};

use super::{BristolError, Found, MAX_NUMBERS_PER_LINE, Position, Problem};
use crate::Op;

/// Maximum size of the read buffer, in bytes. With this size, few system calls are needed and the
/// buffer fits in the L2 cache.
const BUFFER_BYTES: u64 = 1 << 18;

/// The largest valid number in a file. A larger one is a [`Problem::NumberTooLarge`].
const MAX_NUMBER: u32 = 1 << 31;

/// A number on a line, and the column of its first digit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) value: u32,
    /// The column of the first digit, counted in bytes from 1.
    pub(super) column: u32,
}

/// The content of a line that is not blank: numbers, then at most one word.
#[derive(Default)]
pub(super) struct Line {
    /// The line number, counted from 1.
    pub(super) line: u64,
    pub(super) numbers: Vec<Number>,
    word: [u8; 16],
    word_len: usize,
    /// Column of the word, or of the end of the line if the line has no word.
    tail_column: u32,
}

impl Line {
    /// Returns the first 16 bytes of the word, or `None` if the line has no word. All names of
    /// operations are shorter.
    pub(super) fn word(&self) -> Option<&[u8]> {
        (self.word_len > 0).then(|| &self.word[..self.word_len])
    }

    /// Returns an error whose position is a column of this line.
    pub(super) fn error(&self, column: u32, problem: Problem) -> BristolError {
        BristolError::Invalid {
            position: Position {
                line: self.line,
                column: column.into(),
            },
            problem,
        }
    }

    /// Returns an error whose position is the number with this index. If the line has fewer
    /// numbers, the position is the word or the end of the line.
    pub(super) fn error_at_number(&self, index: usize, problem: Problem) -> BristolError {
        let number = self.numbers.get(index);
        self.error(number.map_or(self.tail_column, |n| n.column), problem)
    }

    /// Returns the error that the line has something else than `expected` at the position of the
    /// number with this index.
    pub(super) fn unexpected(&self, index: usize, expected: &'static str) -> BristolError {
        let found = match (self.numbers.get(index), self.word()) {
            (Some(number), _) => Found::Number(number.value),
            (None, Some(word)) => Found::Word(String::from_utf8_lossy(word).into_owned()),
            (None, None) => Found::EndOfLine,
        };
        self.error_at_number(index, Problem::Unexpected { expected, found })
    }
}

/// A gate of `XOR`, `AND` or `INV` in the usual spelling: one blank between numbers and words, and
/// a line feed directly after the operation.
pub(super) struct PlainGate {
    pub(super) op: Op,
    pub(super) operands: [u32; 2],
    pub(super) out: u32,
    /// Number of bytes from the line feed of the previous line up to this gate's line feed, which
    /// does not count.
    length: usize,
}

impl PlainGate {
    /// Parses a gate from bytes that start with the line feed of the previous line. Returns `None`
    /// if the gate is not in the usual spelling.
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

/// Reads a circuit file and splits it into lines.
pub(super) struct Scanner<R> {
    source: R,
    buffer: Box<[u8]>,
    /// The index in `buffer` of the next byte.
    next: usize,
    /// The number of bytes in `buffer` that were read from the source.
    end: usize,
    /// Number of bytes of the file before the first byte in `buffer`.
    before: u64,
    line: u64,
    /// Number of bytes of the file before the first byte of the current line.
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

    /// Returns the next gate if it is in the usual spelling and its whole line is in the buffer.
    /// The scanner stays in front of the gate.
    pub(super) fn plain_gate(&self) -> Option<PlainGate> {
        PlainGate::read(&self.buffer[self.next..self.end])
    }

    /// Skips the gate that [`Scanner::plain_gate`] returned, up to the line feed at its end.
    pub(super) fn take_plain(&mut self, gate: &PlainGate) {
        self.line += 1;
        self.line_start = self.before + self.next as u64 + 1;
        self.next += gate.length;
    }

    /// Reads the next line that is not blank into `line`. Returns `false` at the end of the file.
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

    /// Skips blanks and line ends. Returns the next byte, or `None` at the end of the file.
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

    /// Reads a number whose first digit is the next byte, in this column.
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

    /// Reads a word whose first letter is the next byte, into `line`.
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

    /// Replaces the content of the buffer, all of which was consumed, by the next bytes of the
    /// source. Returns `false` if the source has ended.
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

    /// Returns the column of the next byte, or `u32::MAX` if the column is larger. With 64-bit
    /// columns, each [`Number`] would take 16 bytes instead of 8.
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
