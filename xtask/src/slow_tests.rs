//! Runs the tests that are ignored because they are slow.

use std::{env, error::Error, path::Path, process::Output, time::Instant};

use crate::{
    command::cargo,
    ignored::{self, Ignored, Reason},
};

/// Slow tests that take minutes each, and are therefore not run in continuous integration.
const NOT_IN_CI: [&str; 4] = [
    "a_hundred_thousand_paths",
    "huge_transfers_take_little_more_than_the_path_does",
    "ten_million_forgeries_change_nothing",
    "what_every_transport_survives",
];

/// The slow tests to run, and the profile in which they are built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Selection {
    /// All slow tests, in the release profile.
    All,
    /// The tests for continuous integration, in the dev profile, in which everything is already
    /// built.
    Ci,
}

/// Runs or lists the slow tests.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let tests: Vec<Ignored> = (ignored::all(root)?.into_iter())
        .filter(|test| matches!(test.reason, Reason::Slow | Reason::Needs(_)))
        .collect();
    match arguments {
        [] => run_all(root, &tests, Selection::All),
        ["--ci"] => run_all(root, &tests, Selection::Ci),
        ["--list"] => {
            tests.iter().for_each(|test| println!("{}", listed(test)));
            Ok(())
        }
        _ => Err("expected --ci, --list or nothing".into()),
    }
}

fn listed(test: &Ignored) -> String {
    let mut text = format!("{} {} {}", test.package, test.target.join(" "), test.name);
    if let Reason::Needs(variable) = &test.reason {
        text += &format!(" (needs {variable})");
    }
    if !is_selected(test, Selection::Ci) {
        text += " (not with --ci)";
    }
    text
}

fn is_selected(test: &Ignored, selection: Selection) -> bool {
    selection == Selection::All || !NOT_IN_CI.contains(&test.name.as_str())
}

fn run_all(root: &Path, tests: &[Ignored], selection: Selection) -> Result<(), Box<dyn Error>> {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for test in tests.iter().filter(|test| is_selected(test, selection)) {
        if let Reason::Needs(variable) = &test.reason
            && env::var_os(variable).is_none()
        {
            skipped += 1;
            println!("skipped           {}", listed(test));
            continue;
        }
        let path = path_in_target(root, test, selection)?;
        let start = Instant::now();
        let output = cargo_test(root, test, selection, &["--exact", &path, "--nocapture"])?;
        let seconds = start.elapsed().as_secs_f64();
        let stdout = String::from_utf8_lossy(&output.stdout);
        // `cargo test` also succeeds if the name matches no test, so the output is checked too.
        if output.status.success() && stdout.contains("test result: ok. 1 passed") {
            passed += 1;
            println!("ok      {seconds:7.1} s {}", listed(test));
        } else {
            failed += 1;
            println!("FAILED  {seconds:7.1} s {}", listed(test));
            print!("{stdout}");
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    println!("slow tests: {passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        return Err(format!("{failed} slow tests failed").into());
    }
    Ok(())
}

/// Builds the target of a test. Returns the full path of the test in it, such as `module::name`.
fn path_in_target(
    root: &Path,
    test: &Ignored,
    selection: Selection,
) -> Result<String, Box<dyn Error>> {
    let output = cargo_test(root, test, selection, &["--list", "--format", "terse"])?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let path = stdout
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .find(|path| path.rsplit("::").next() == Some(&test.name));
    path.map(str::to_owned).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("there is no ignored test {}\n{stderr}", listed(test)).into()
    })
}

fn cargo_test(
    root: &Path,
    test: &Ignored,
    selection: Selection,
    arguments: &[&str],
) -> std::io::Result<Output> {
    let mut command = cargo(root);
    command.arg("test");
    match selection {
        Selection::All => command.args(["--release", "--package", &test.package]),
        // With `--package`, cargo would select other features of dependencies and rebuild them.
        Selection::Ci => command.arg("--workspace"),
    };
    command.args(&test.target);
    command.args(["--", "--ignored"]).args(arguments).output()
}
