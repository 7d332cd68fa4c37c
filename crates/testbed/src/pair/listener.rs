//! Reads the output streams of a program. Stores the last relevant line of each stream and the last
//! bytes of all streams.

use std::{
    io::{self, Read},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Instant,
};

use serde::de::IgnoredAny;

/// Maximum length of a line that is stored, in bytes. Longer lines are ignored.
const MAX_LINE: usize = 1 << 20;

/// Number of bytes at the end of a program's output that are kept.
const MAX_OUTPUT: usize = 16 << 10;

/// The last bytes of a program's output on all its streams, in order of arrival.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn take(&self, bytes: &[u8]) {
        let mut kept = lock(&self.0);
        kept.extend_from_slice(bytes);
        let superfluous = kept.len().saturating_sub(MAX_OUTPUT);
        kept.drain(..superfluous);
    }

    /// Returns the kept bytes as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0)).into_owned()
    }
}

/// A separate thread that reads one stream to its end.
pub(super) struct Listener {
    heard: Arc<Mutex<LineParser>>,
    closed: Receiver<()>,
}

impl Listener {
    /// Starts to read `stream`. Stores the last line for which `matters` returns true, and appends
    /// all output to `tail`.
    pub(super) fn to(
        mut stream: impl Read + Send + 'static,
        matters: fn(&[u8]) -> bool,
        tail: &Tail,
    ) -> Self {
        let tail = tail.clone();
        let heard = Arc::new(Mutex::new(LineParser::new(matters)));
        let shared = Arc::clone(&heard);
        let (open, closed) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => {
                        tail.take(&buffer[..read]);
                        lock(&shared).take(&buffer[..read]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            lock(&shared).end_line();
            drop(open);
        });
        Self { heard, closed }
    }

    /// Waits until the stream ends or the deadline passes. Returns the last line for which
    /// `matters` returned true.
    pub(super) fn last_line(self, deadline: Instant) -> Option<Vec<u8>> {
        // Nothing is sent on this channel. It closes at the end of the stream. Only a process that
        // has left the command's process group can keep the stream open until the deadline.
        let _ = (self.closed).recv_timeout(deadline.saturating_duration_since(Instant::now()));
        lock(&self.heard).last.take()
    }
}

fn lock<T>(kept: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each write is complete, so a panic of another thread leaves valid lines.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits a stream into lines and stores the last line for which `matters` returns true.
struct LineParser {
    matters: fn(&[u8]) -> bool,
    line: Vec<u8>,
    is_too_long: bool,
    last: Option<Vec<u8>>,
}

impl LineParser {
    fn new(matters: fn(&[u8]) -> bool) -> Self {
        Self {
            matters,
            line: Vec::new(),
            is_too_long: false,
            last: None,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.is_too_long |= self.line.len() + piece.len() > MAX_LINE;
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !std::mem::take(&mut self.is_too_long) && (self.matters)(&line) {
            self.last = Some(line);
        }
    }
}

/// Returns whether a line is a JSON object.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Returns whether a line is not blank.
pub(super) fn is_text(line: &[u8]) -> bool {
    !line.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(matters: fn(&[u8]) -> bool, pieces: &[&[u8]]) -> Option<String> {
        let mut heard = LineParser::new(matters);
        for piece in pieces {
            heard.take(piece);
        }
        heard.end_line();
        heard.last.map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn the_last_object_is_found_wherever_reads_end() {
        let text = b"{\"x\":1}\nnoise\n {\"x\":\n{\"x\":2}\r\n[3]\n{\"x\":3\n";
        for cut in 0..text.len() {
            let pieces: [&[u8]; 2] = [&text[..cut], &text[cut..]];
            assert_eq!(last(is_object, &pieces).unwrap(), "{\"x\":2}\r\n");
        }
        assert_eq!(last(is_object, &[b"{}"]).unwrap(), "{}");
        assert_eq!(last(is_object, &[b"5\n"]), None);
        assert_eq!(
            last(is_text, &[b"error: no\n\n", b" \n"]).unwrap(),
            "error: no\n"
        );
    }

    #[test]
    fn lines_that_are_too_long_are_passed_over() {
        let long = vec![b' '; MAX_LINE];
        let pieces: [&[u8]; 4] = [b"{\"x\":1}\n", b"{", &long, b"}\n"];
        assert_eq!(last(is_object, &pieces).unwrap(), "{\"x\":1}\n");
        let deep = "{\"x\":".repeat(5000);
        assert_eq!(last(is_object, &[deep.as_bytes()]), None);
    }

    #[test]
    fn a_stream_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let tail = Tail::default();
        let listener = Listener::to(reader, is_object, &tail);
        let noise = vec![b' '; MAX_OUTPUT];
        for text in [&noise, b"\n{\"x\":1}\nbye".as_slice()] {
            io::Write::write_all(&mut writer, text).unwrap();
        }
        drop(writer);
        let deadline = Instant::now() + std::time::Duration::from_secs(60);
        assert_eq!(listener.last_line(deadline).unwrap(), b"{\"x\":1}\n");
        let text = tail.text();
        assert!(text.len() == MAX_OUTPUT && text.ends_with(" \n{\"x\":1}\nbye"));
    }
}
