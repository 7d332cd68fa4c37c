//! Batch files: the inputs of many evaluations, one evaluation per line.
//!
//! A line has this party's values as `N=VALUE`, separated by blanks. A party with one value may
//! write a bare `VALUE`. Blank lines and lines that start with `#` are skipped. The file is read
//! twice: once to count and check the evaluations, and once when the values are needed. It is never
//! in memory as a whole.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use thiserror::Error;
use transpute::{Bits, InputError, Inputs};
use zeroize::Zeroizing;

use crate::{
    inputs::{InputProblem, Wanted},
    value,
};

/// A line of a batch file may have one byte for each bit of its values, and this number of bytes
/// more for each value. That suffices for `N=`, the notation, blanks, and the path of a file.
const VALUE_SLACK: usize = 8 << 10;

/// The error of a batch file.
#[derive(Debug, Error)]
pub(crate) enum BatchError {
    #[error("{}: cannot read the batch file", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: a batch file is read twice and must be a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("{}: there are no evaluations in the batch file", path.display())]
    Empty { path: PathBuf },
    #[error("{}:{line}: the line is longer than {limit} bytes", path.display())]
    LineTooLong {
        path: PathBuf,
        line: u64,
        limit: usize,
    },
    #[error("{}:{line}: the line is not text", path.display())]
    NotText { path: PathBuf, line: u64 },
    #[error("{}:{line}: a batch file is read twice and cannot take values from standard input", path.display())]
    StandardInput { path: PathBuf, line: u64 },
    #[error("{}:{line}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        source: InputProblem,
    },
    #[error("{}: the batch file changed: it had {expected} evaluations", path.display())]
    Changed { path: PathBuf, expected: u64 },
}

/// A batch file that was read once and has no errors.
pub(crate) struct BatchFile {
    lines: Lines,
    wanted: Wanted,
    count: u64,
}

impl BatchFile {
    /// Opens a batch file. Counts its evaluations and checks the values of each.
    pub(crate) fn open(path: &Path, wanted: Wanted) -> Result<Self, BatchError> {
        let limit = (wanted.values())
            .map(|(_, width)| width as usize + VALUE_SLACK)
            .sum::<usize>()
            .max(VALUE_SLACK);
        let mut lines = Lines::open(path, limit)?;
        let mut count = 0;
        while let Some(line) = lines.next_evaluation()? {
            let number = line.number;
            let mut values = (line.text.split_whitespace())
                .map(|text| text.split_once('=').map_or(text, |(_, value)| value));
            if values.any(value::is_read_once) {
                return Err(BatchError::StandardInput {
                    path: path.into(),
                    line: number,
                });
            }
            wanted
                .read(line.text.split_whitespace())
                .map_err(|source| BatchError::Line {
                    path: path.into(),
                    line: number,
                    source,
                })?;
            count += 1;
        }
        if count == 0 {
            return Err(BatchError::Empty { path: path.into() });
        }
        lines.rewind()?;
        Ok(Self {
            lines,
            wanted,
            count,
        })
    }

    /// Returns the number of evaluations.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn next(&mut self) -> Result<Bits, BatchError> {
        let (path, expected) = (self.lines.path.clone(), self.count);
        let Some(line) = self.lines.next_evaluation()? else {
            return Err(BatchError::Changed { path, expected });
        };
        let number = line.number;
        (self.wanted.read(line.text.split_whitespace())).map_err(|source| BatchError::Line {
            path,
            line: number,
            source,
        })
    }
}

impl Inputs for BatchFile {
    fn bits(&mut self, _instance: u64) -> Result<Bits, InputError> {
        Ok(self.next()?)
    }
}

/// Reads the lines of a batch file through one buffer, which is overwritten with zeros on drop.
struct Lines {
    path: PathBuf,
    file: File,
    buffer: Zeroizing<Vec<u8>>,
    /// Start of the bytes that are read from the file and not returned yet.
    start: usize,
    end: usize,
    number: u64,
}

struct Line<'a> {
    number: u64,
    text: &'a str,
}

impl Lines {
    fn open(path: &Path, limit: usize) -> Result<Self, BatchError> {
        let io = |source| BatchError::Io {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(BatchError::NotRegular { path: path.into() });
        }
        Ok(Self {
            path: path.into(),
            file,
            // One byte more, for the newline of the longest line.
            buffer: Zeroizing::new(vec![0; limit + 1]),
            start: 0,
            end: 0,
            number: 0,
        })
    }

    fn rewind(&mut self) -> Result<(), BatchError> {
        (self.file.rewind()).map_err(|source| self.io(source))?;
        (self.start, self.end, self.number) = (0, 0, 0);
        Ok(())
    }

    fn io(&self, source: io::Error) -> BatchError {
        BatchError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// Returns the next line that is neither blank nor a comment.
    fn next_evaluation(&mut self) -> Result<Option<Line<'_>>, BatchError> {
        loop {
            let Some((from, to)) = self.next_line()? else {
                return Ok(None);
            };
            let bytes = self.buffer[from..to].trim_ascii();
            if !bytes.is_empty() && bytes[0] != b'#' {
                // Looked up again, because the borrow of a value returned from a loop would last
                // too long.
                let number = self.number;
                return match std::str::from_utf8(self.buffer[from..to].trim_ascii()) {
                    Ok(text) => Ok(Some(Line { number, text })),
                    Err(_) => Err(BatchError::NotText {
                        path: self.path.clone(),
                        line: number,
                    }),
                };
            }
        }
    }

    /// Returns the range of the next line in the buffer.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>, BatchError> {
        let mut searched = self.start;
        loop {
            let found = self.buffer[searched..self.end]
                .iter()
                .position(|&byte| byte == b'\n');
            if let Some(offset) = found {
                let line = (self.start, searched + offset);
                self.start = line.1 + 1;
                self.number += 1;
                return Ok(Some(line));
            }
            searched = self.end;
            if self.start > 0 && self.end == self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                searched -= self.start;
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.end == self.buffer.len() {
                return Err(BatchError::LineTooLong {
                    path: self.path.clone(),
                    line: self.number + 1,
                    limit: self.buffer.len() - 1,
                });
            }
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.start == self.end => return Ok(None),
                Ok(0) => {
                    let line = (self.start, self.end);
                    self.start = self.end;
                    self.number += 1;
                    return Ok(Some(line));
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use transpute::{InputSplit, Role};

    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn wanted(widths: &[u32]) -> Wanted {
        let all: Vec<_> = (0..widths.len()).collect();
        Wanted::of(Role::Garbler, InputSplit::new(widths, &all).unwrap())
    }

    fn read(file: &mut BatchFile) -> Vec<String> {
        (0..file.count())
            .map(|instance| file.bits(instance).unwrap().to_hex())
            .collect()
    }

    #[test]
    fn lines_are_evaluations() {
        let held =
            file("# two values\n0=hex:1 1=hex:2\r\n\n  1=hex:4\t0=hex:3\n#\n0=hex:5 1=hex:6");
        let mut batch = BatchFile::open(held.path(), wanted(&[4, 4])).unwrap();
        assert_eq!(read(&mut batch), ["21", "43", "65"]);

        let held = file("hex:7\n0=hex:8\n");
        let mut batch = BatchFile::open(held.path(), wanted(&[4])).unwrap();
        assert_eq!(read(&mut batch), ["7", "8"]);
    }

    #[test]
    fn files_longer_than_the_buffer_are_streamed() {
        let lines: Vec<_> = (0..40_000_u32).map(|i| format!("{i:08x}")).collect();
        let content: String = lines.iter().map(|hex| format!("hex:{hex}\n")).collect();
        let held = file(&content);
        let mut batch = BatchFile::open(held.path(), wanted(&[32])).unwrap();
        assert!(batch.lines.buffer.len() < content.len() / 4);
        assert_eq!(read(&mut batch), lines);
    }

    #[test]
    fn errors_name_file_and_line() {
        let held = file("hex:1\n\nhex:12\n");
        let error = BatchFile::open(held.path(), wanted(&[4])).err().unwrap();
        assert_eq!(error.to_string(), format!("{}:3", held.path().display()));
        let error = error_of(&file("\n#\n"));
        assert!(matches!(error, BatchError::Empty { .. }));
        let long = "0".repeat(3 * VALUE_SLACK);
        let error = error_of(&file(&format!("hex:1\nbits:{long}")));
        assert!(matches!(error, BatchError::LineTooLong { line: 2, .. }));
        let error = error_of(&file("hex:1\n0=@-"));
        assert!(matches!(error, BatchError::StandardInput { line: 2, .. }));
        let error = BatchFile::open(Path::new("/dev/null"), wanted(&[4]));
        assert!(matches!(error.err(), Some(BatchError::NotRegular { .. })));
    }

    fn error_of(file: &tempfile::NamedTempFile) -> BatchError {
        BatchFile::open(file.path(), wanted(&[4])).err().unwrap()
    }

    #[test]
    fn a_line_may_fill_the_buffer() {
        let limit = 4 + VALUE_SLACK;
        let pad = |length: usize| format!("hex:1{}\n", " ".repeat(length - 5));
        let held = file(&pad(limit));
        let mut batch = BatchFile::open(held.path(), wanted(&[4])).unwrap();
        assert_eq!(read(&mut batch), ["1"]);
        let error = error_of(&file(&pad(limit + 1)));
        assert!(matches!(error, BatchError::LineTooLong { line: 1, .. }));
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let content = "hex:1\n".repeat(10_000);
        let held = file(&content);
        let mut batch = BatchFile::open(held.path(), wanted(&[4])).unwrap();
        batch.bits(0).unwrap();
        held.as_file().set_len(6 * 5_000).unwrap();
        let error = loop {
            if let Err(error) = batch.bits(1) {
                break error;
            }
        };
        let error = error.downcast::<BatchError>().unwrap();
        assert!(matches!(
            *error,
            BatchError::Changed {
                expected: 10_000,
                ..
            }
        ));
    }
}
