//! A server under test, and a minimal HTTP client that can send requests that browsers would not.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Deref,
    path::Path,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Finished, Process};

/// Maximum time to wait for an answer. No answer takes nearly as long.
const DEADLINE: Duration = Duration::from_secs(100);

/// A running server.
pub(crate) struct Server {
    process: Process,
    client: Client,
    pub(crate) token: Option<String>,
    /// The folder of the history. It is removed after the process has ended.
    _folder: Option<TempDir>,
}

impl Server {
    /// Starts a server with its own history.
    pub(crate) fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::start_in(folder.path(), args);
        server._folder = Some(folder);
        server
    }

    /// Starts a server with the history in a folder.
    pub(crate) fn start_in(folder: &Path, args: &[&str]) -> Self {
        let fixed = ["testbed", "serve", "--quiet", "--data"].map(Into::into);
        let mut all: Vec<std::ffi::OsString> = fixed.to_vec();
        all.push(folder.into());
        if !args.contains(&"--listen") {
            all.extend(["--listen", "127.0.0.1:0"].map(Into::into));
        }
        all.extend(args.iter().map(Into::into));
        let mut process = Process::start(&all);
        let url = process.line("serving on http://");
        let (address, fragment) = url.split_once('/').unwrap();
        Self {
            process,
            client: Client {
                address: address.parse().unwrap(),
            },
            token: fragment.strip_prefix("#token=").map(str::to_owned),
            _folder: None,
        }
    }

    /// Ends the server with Ctrl-C and waits for it.
    pub(crate) fn stop(self) -> Finished {
        self.process.interrupt().finish()
    }

    /// Exchanges the token for a session.
    pub(crate) fn sign_in(&self) -> String {
        let token = self.token.as_ref().unwrap();
        let answer = self.post("/api/session", &format!(r#"{{"token": "{token}"}}"#));
        // Browsers would send a cookie to every port of the host.
        assert_eq!(answer.header("set-cookie"), "");
        let session = answer.json()["session"].as_str().unwrap().to_owned();
        assert!(session.len() >= 32 && !session.contains(token));
        session
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a client for another thread.
    pub(crate) fn client(&self) -> Client {
        self.client
    }
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A client of a server.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Client {
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, json: &str) -> Answer {
        let headers = [("Content-Type", "application/json")];
        self.ask("POST", path, &headers, json.as_bytes())
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        Answer::read(self.send(method, path, headers, body))
    }

    /// Sends a request and returns the stream of the answer.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that rejects the request need not read all of the body.
        let _ = stream.write_all(body);
        BufReader::new(stream)
    }

    /// Subscribes to the events of a job.
    pub(crate) fn events(&self, job: i64, headers: &[(&str, &str)]) -> Events {
        let path = format!("/api/jobs/{job}/events");
        let mut stream = self.send("GET", &path, headers, b"");
        let (status, _) = head(&mut stream);
        assert_eq!(status, 200);
        Events(Chunks {
            stream,
            left: 0,
            is_over: false,
        })
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn read(mut stream: BufReader<TcpStream>) -> Self {
        let (status, headers) = head(&mut stream);
        let mut body = Vec::new();
        let is_chunked =
            (headers.iter()).any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if is_chunked {
            let mut chunks = Chunks {
                stream,
                left: 0,
                is_over: false,
            };
            chunks.read_to_end(&mut body).unwrap();
        } else {
            // The connection is closed after the body. It may be reset if the request was not read
            // completely.
            let _ = stream.read_to_end(&mut body);
        }
        Self {
            status,
            headers,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        (self.headers.iter())
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        let text = self.text();
        assert!((200..300).contains(&self.status), "{} {text}", self.status);
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the message of an error.
    pub(crate) fn error(&self) -> String {
        assert!(self.status >= 400, "{self:?}");
        let json: Value = serde_json::from_slice(&self.body).unwrap();
        let error = json["error"].as_str().unwrap().to_owned();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        error
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}"));
    let status = status.parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => return (status, headers),
        }
    }
}

/// A body in chunks (RFC 9112, section 7.1).
struct Chunks {
    stream: BufReader<TcpStream>,
    left: usize,
    is_over: bool,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.is_over || buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16)
                .map_err(|_| std::io::Error::other(format!("invalid chunk: {line:?}")))?;
            if self.left == 0 {
                self.is_over = true;
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if self.left == 0 {
            self.stream.read_exact(&mut [0; 2])?;
        }
        Ok(read)
    }
}

/// The stream of events of a job.
pub(crate) struct Events(Chunks);

/// An event of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let (mut id, mut name, mut data) = (None, String::new(), String::new());
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.parse().unwrap()),
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => data.push_str(value),
                _ if line.is_empty() && !data.is_empty() => {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Event { id, name, data });
                }
                // This line is a comment that keeps the connection alive.
                _ => {}
            }
        }
    }
}

impl Events {
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(0) | Err(_) => return None,
                Ok(_) if byte[0] == b'\n' => return Some(String::from_utf8(line).unwrap()),
                Ok(_) => line.push(byte[0]),
            }
        }
    }
}
