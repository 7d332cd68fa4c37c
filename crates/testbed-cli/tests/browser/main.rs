//! Tests of the web UI of `transpute testbed serve` in Chromium, controlled over WebDriver.
#![cfg(target_os = "linux")]

mod accessibility;
mod driver;
mod flows;
mod looks;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use driver::Browser;
use tempfile::TempDir;
use transpute_netem::testing::skip;

/// A circuit whose fourth line has an unknown gate.
const BROKEN_CIRCUIT: &str = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 NOPE\n";

/// A circuit of one AND gate.
const AND_CIRCUIT: &str = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";

/// A server with its own history, killed on drop.
struct Server {
    /// The address of the page, with the token if there is one.
    address: String,
    folder: TempDir,
    process: Child,
}

impl Server {
    fn start(folder: TempDir, args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_transpute-testbed"))
            .args(["testbed", "serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .args(args)
            // The server must not write its measurements of this machine to the user's cache.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("the server did not start: {said:?}");
            };
            match line.strip_prefix("serving on ") {
                Some(address) => break address.to_owned(),
                None => said.push(line),
            }
        };
        // Further output is read, because a full pipe would block the server.
        thread::spawn(move || lines.for_each(drop));
        Self {
            address,
            folder,
            process,
        }
    }

    /// Kills the server with SIGKILL and starts it again with the same history.
    fn restart(mut self, args: &[&str]) -> Self {
        self.kill();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Self::start(folder, args)
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn view(&self, view: &str) -> String {
        format!("{}#/{view}", self.origin())
    }

    /// Returns the address of the page without the token.
    fn origin(&self) -> &str {
        self.address.split('#').next().unwrap()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The requirements of a test.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// A browser.
    Page,
    /// A browser and an emulated path.
    Paths,
}

/// Runs a test with a browser and a server. Skips it if this machine lacks a browser or, if needed,
/// emulated paths.
fn browse(needs: Needs, args: &[&str], test: impl AsyncFnOnce(&Browser, &mut Option<Server>)) {
    let lacks = ["chromium", "chromedriver"].into_iter().find(|program| {
        (Command::new(program).arg("--version").output())
            .map_or(true, |output| !output.status.success())
    });
    if let Some(program) = lacks {
        skip(format_args!("{program} is not installed"));
        return;
    }
    let server = Server::start(tempfile::tempdir().unwrap(), args);
    let folder = server.folder().to_owned();
    driver::with_browser(&folder, async |browser| {
        browser.open(&server.address).await;
        browser.until("document.querySelector('main h1')").await;
        let cannot = browser.get("/api/options").await["cannot_run"].clone();
        if needs == Needs::Paths && !cannot.is_null() {
            skip(format_args!("this machine cannot emulate paths: {cannot}"));
            return;
        }
        test(browser, &mut Some(server)).await;
    });
}

/// Writes a file for an upload and returns its path.
fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}
