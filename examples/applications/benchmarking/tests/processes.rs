//! Test of two servers and companies as separate processes.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    iter,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio, exit},
};

use clap::Parser;
use serde_json::Value;

use crate::{
    commands::{self, Cli},
    keys,
    statistics::Statistics,
};

/// The environment variable with the arguments of a child process.
const ARGUMENTS: &str = "BENCHMARKING_TEST_ARGUMENTS";

/// Runs the program in a child process if [`ARGUMENTS`] is set. This is not a test by itself: the
/// test below executes the test program with only this function, because unit tests do not know
/// the path of the binary.
#[tokio::test]
async fn process() {
    let Ok(arguments) = env::var(ARGUMENTS) else {
        return;
    };
    let arguments = iter::once("benchmarking").chain(arguments.lines());
    let outcome = commands::run(Cli::parse_from(arguments)).await;
    if let Err(failure) = &outcome {
        eprintln!("error: {failure}");
    }
    exit(i32::from(outcome.is_err()));
}

struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "tests::processes::process", "--nocapture"])
            .env(ARGUMENTS, arguments.join("\n"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Waits for the process to end, and returns the JSON that it printed.
    fn json(mut self) -> Value {
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "{text}");
        // The test harness prints other lines before and after the JSON.
        let line = text.lines().find_map(|line| Some(&line[line.find('{')?..]));
        serde_json::from_str(line.unwrap()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the next address on which a server listens.
fn address(lines: &mut BufReader<ChildStderr>) -> String {
    for line in lines.lines() {
        let line = line.unwrap();
        if let Some((_, address)) = line.split_once(" at ") {
            assert!(line.contains("listening"), "{line}");
            return address.to_owned();
        }
    }
    panic!("the server printed no address");
}

#[test]
fn servers_and_companies_run_as_processes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let id = |role| keys::server(folder.path(), role).unwrap().to_string();
    make_keys(folder.path(), 4);
    let (garbler_is, evaluator_is) = (id(transpute::Role::Garbler), id(transpute::Role::Evaluator));

    let (list, key) = (at("companies.txt"), at("garbler.key"));
    let mut garbler = Process::start(&[
        "server",
        "--role",
        "garbler",
        "--round",
        "r",
        "--companies",
        &list,
        "--identity",
        &key,
        "--other",
        &evaluator_is,
        "--listen",
        "127.0.0.1:0",
        "--between",
        "127.0.0.1:0",
        "--json",
    ]);
    let mut lines = BufReader::new(garbler.0.stderr.take().unwrap());
    let (garbler_at, between) = (address(&mut lines), address(&mut lines));
    let key = at("evaluator.key");
    let mut evaluator = Process::start(&[
        "server",
        "--role",
        "evaluator",
        "--round",
        "r",
        "--companies",
        &list,
        "--identity",
        &key,
        "--other",
        &garbler_is,
        "--listen",
        "127.0.0.1:0",
        "--between",
        &between,
        "--garbler",
        &garbler_at,
        "--json",
    ]);
    let mut lines = BufReader::new(evaluator.0.stderr.take().unwrap());
    let evaluator_at = address(&mut lines);

    let figures = [3_000_000_000_u32, 17, 17, 4_294_967_295];
    let file = at("figure");
    std::fs::write(&file, "17\n").unwrap();
    let from_file = format!("@{file}");
    let companies: Vec<_> = (figures.iter().zip(1..))
        .map(|(figure, number)| {
            let figure = match number {
                2 => from_file.clone(),
                _ => figure.to_string(),
            };
            let key = at(&format!("company-{number:04}.key"));
            Process::start(&[
                "company",
                &figure,
                "--round",
                "r",
                "--garbler",
                &garbler_at,
                "--garbler-is",
                &garbler_is,
                "--evaluator",
                &evaluator_at,
                "--evaluator-is",
                &evaluator_is,
                "--identity",
                &key,
                "--json",
            ])
        })
        .collect();
    let expected = serde_json::to_value(Statistics::of(&figures).report()).unwrap();
    assert_eq!(expected["average"], "1823741832.250000");
    for company in companies {
        assert_eq!(company.json(), expected);
    }
    for (server, role) in [(garbler, "garbler"), (evaluator, "evaluator")] {
        let report = server.json();
        assert_eq!(report["role"], role);
        assert_eq!(report["companies"], 4);
    }
}

fn make_keys(folder: &Path, companies: usize) {
    keys::make(folder, companies).unwrap();
    // Creating keys again changes nothing.
    let before = keys::server(folder, transpute::Role::Garbler).unwrap();
    keys::make(folder, companies).unwrap();
    let after = keys::server(folder, transpute::Role::Garbler).unwrap();
    assert_eq!(before, after);
}
