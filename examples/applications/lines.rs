//! Text files, line by line, in bounded memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Reads the lines of a file. Only one line at a time is in memory.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    /// Maximum length of a line, including its line break, in bytes.
    limit: usize,
    /// Number of lines that were read so far.
    number: usize,
}

/// The error of a line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LineError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line exceeds the maximum length.
    #[error("{}:{line}: longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The maximum length, in bytes.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("{}:{line}: not a line of text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
    },
}

impl Lines {
    /// Opens a file whose lines have at most `limit` bytes.
    ///
    /// # Errors
    /// Returns [`LineError::File`] if the file cannot be opened.
    pub fn open(path: &Path, limit: usize) -> Result<Self, LineError> {
        let file = File::open(path).map_err(|source| LineError::File {
            path: path.into(),
            source,
        })?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::new(file),
            limit,
            number: 0,
        })
    }

    /// Returns the next line without its line break, or `None` at the end of the file.
    ///
    /// # Errors
    /// Returns [`LineError`] if the file cannot be read, or the line is too long or not UTF-8.
    pub fn next_line(&mut self) -> Result<Option<String>, LineError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(self.limit as u64 + 1);
        if let Err(source) = limited.read_until(b'\n', &mut line) {
            let path = self.path.clone();
            return Err(LineError::File { path, source });
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if line.len() > self.limit {
            return Err(LineError::TooLong {
                path: self.path.clone(),
                line: self.number,
                limit: self.limit,
            });
        }
        match String::from_utf8(line) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned())),
            Err(_) => Err(LineError::NotText {
                path: self.path.clone(),
                line: self.number,
            }),
        }
    }

    /// Returns the number of the line that was read last. Lines are numbered from 1.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lines(content: &[u8], limit: usize) -> Lines {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, content).unwrap();
        Lines::open(&path, limit).unwrap()
    }

    #[test]
    fn lines_come_without_their_ends() {
        let mut lines = lines(b"one\r\n\ntwo", 5);
        assert_eq!(lines.next_line().unwrap().as_deref(), Some("one"));
        assert_eq!(lines.next_line().unwrap().as_deref(), Some(""));
        assert_eq!(lines.next_line().unwrap().as_deref(), Some("two"));
        assert_eq!(lines.number(), 3);
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.number(), 3);
    }

    #[test]
    fn what_is_no_line_is_named() {
        let mut long = lines(b"ok\n123456\n", 6);
        assert!(long.next_line().unwrap().is_some());
        let error = long.next_line().unwrap_err().to_string();
        assert!(error.ends_with(":2: longer than 6 bytes"), "{error}");
        let error = lines(b"\xff\n", 6).next_line().unwrap_err().to_string();
        assert!(error.ends_with(":1: not a line of text"), "{error}");
        let error = Lines::open(Path::new("no such file"), 6).unwrap_err();
        assert_eq!(error.to_string(), "no such file: cannot be read");
    }

    /// `/dev/zero` has no line breaks. Reading from it stops at the maximum length of a line.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut lines = Lines::open(Path::new("/dev/zero"), 1000).unwrap();
        let error = lines.next_line().unwrap_err();
        assert!(matches!(error, LineError::TooLong { .. }));
    }
}
