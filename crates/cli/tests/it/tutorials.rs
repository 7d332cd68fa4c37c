//! Runs the commands of the README and of the tutorials, in their order.
//!
//! Both parties run on this machine. The test replaces `alice.example:7700` by the address at which
//! Alice's last command listens, `sha256:AAAA…` by her fingerprint, and a final `…` by
//! `--plaintext`. It skips commands of `cargo` and of `transpute-testbed`, because .ci/run and the
//! tests of the testbed run them.

use std::{fs, path::Path};

use tempfile::TempDir;
use transpute::Identity;

use crate::harness::{Finished, Process};

/// The reader of one page: a folder for its files, and the command that listens.
struct Reader {
    folder: TempDir,
    listener: Option<(Process, String)>,
    address: String,
    commands: usize,
}

/// Returns the code blocks of a page as their language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n```").skip(1).step_by(2);
    parts.filter_map(|block| block.split_once('\n')).collect()
}

/// Returns the fingerprint in a key file, which is created if it does not exist.
fn fingerprint(key: &Path) -> String {
    let identity = Identity::load_or_create(key).unwrap();
    identity.fingerprint().to_string()
}

impl Reader {
    fn new(page: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("key.hex", "hex:000102030405060708090a0b0c0d0e0f");
        write("block.hex", "hex:00112233445566778899aabbccddeeff");
        write("my-circuit.txt", "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n");
        for (language, text) in blocks(page) {
            if language == "rust" && text.contains("pub fn main") {
                write("average.garble.rs", text);
            }
        }
        Self {
            folder,
            listener: None,
            address: String::new(),
            commands: 0,
        }
    }

    /// Replaces a placeholder in a command, as a reader of the page would.
    fn argument(&self, word: &str) -> String {
        let key = |name: &str| self.folder.path().join(name);
        match word {
            "sha256:AAAA…" => fingerprint(&key("alice.key")),
            "sha256:BBBB…" => fingerprint(&key("bob.key")),
            "sha256:CCCC…" => fingerprint(&key("carol.key")),
            "0.0.0.0:7700" => "127.0.0.1:0".to_owned(),
            "alice.example:7700" => self.address.clone(),
            "…" => "--plaintext".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Runs a command without the word `transpute`. Returns its result, unless it listens.
    fn run(&mut self, command: &str) -> Option<Finished> {
        let args: Vec<String> = (command.split_whitespace())
            .map(|word| self.argument(word))
            .collect();
        let folder = self.folder.path();
        // The page shows that keys exist before a command that uses them, or says so.
        if let Some(at) = args.iter().position(|arg| arg == "--identity") {
            fingerprint(&folder.join(&args[at + 1]));
        }
        self.commands += 1;
        let listens = command.contains("--listen");
        if listens {
            self.end_listener();
        }
        let folder = self.folder.path();
        let mut process = Process::start_with(&args, |program| program.current_dir(folder));
        if listens {
            self.address = process.listening_on();
            self.listener = Some((process, command.to_owned()));
            return None;
        }
        Some(process.finish().expect(0))
    }

    /// Waits for the end of Alice's run, or stops her server.
    fn end_listener(&mut self) {
        match self.listener.take() {
            Some((process, command)) if command.starts_with("run") => {
                process.finish().expect(0);
            }
            Some((process, _)) => drop(process.interrupt().finish()),
            None => {}
        }
    }

    /// Runs the commands of a block, and checks the output that it shows.
    fn read(&mut self, block: &str) {
        let mut last = None;
        for line in block.replace("\\\n", " ").lines() {
            let line = line.split(" #").next().unwrap_or_default();
            let line = (line.strip_prefix("alice$").or(line.strip_prefix("bob$"))).unwrap_or(line);
            let line = line.trim();
            if line.starts_with("transpute testbed") {
                continue;
            }
            if let Some(command) = line.strip_prefix("transpute ") {
                last = self.run(command).or(last);
            } else if line.starts_with("output ") {
                let shown = line.trim_end_matches('…').trim_end();
                let output = &last.as_ref().expect("a command before its output").stdout;
                assert!(output.contains(shown), "{shown}\n{output}");
            }
        }
    }
}

/// Runs all commands of a page. Returns their number.
fn read(page: &str) -> usize {
    let mut reader = Reader::new(page);
    for (language, text) in blocks(page) {
        if matches!(language, "" | "text") {
            reader.read(text);
        }
    }
    reader.end_listener();
    reader.commands
}

#[test]
fn the_commands_of_the_readme_work() {
    assert_eq!(read(include_str!("../../../../README.md")), 4);
}

#[test]
fn the_commands_of_the_first_circuit_work() {
    let page = include_str!("../../../../docs/tutorials/first-circuit.md");
    assert_eq!(read(page), 3);
}

#[test]
fn the_commands_of_two_machines_work() {
    let page = include_str!("../../../../docs/tutorials/two-machines.md");
    assert_eq!(read(page), 7);
}

#[test]
fn the_commands_of_an_own_circuit_work() {
    let page = include_str!("../../../../docs/tutorials/own-circuit.md");
    assert_eq!(read(page), 6);
}

#[test]
fn the_commands_of_ones_network_work() {
    let page = include_str!("../../../../docs/tutorials/my-network.md");
    assert_eq!(read(page), 2);
}
