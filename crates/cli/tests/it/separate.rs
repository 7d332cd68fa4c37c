//! Commands that are in the program `transpute-testbed`.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::BINARY;

/// A script that prints its arguments and its input, and fails with an exit code of its own.
const SCRIPT: &str = "#!/bin/sh\necho \"$# [$*]\"\ncat\necho told >&2\nexit 37\n";

/// Installs [`SCRIPT`] in a folder under the name `transpute-testbed`.
fn install(folder: &Path) {
    let file = folder.join("transpute-testbed");
    fs::write(&file, SCRIPT).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the program from a folder of its own, with this search path.
fn run(folder: &Path, path: &Path, args: &[&str]) -> Output {
    let program = folder.join("transpute");
    if !program.exists() {
        fs::copy(BINARY, &program).unwrap();
    }
    let mut child = Command::new(program)
        .args(args)
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The write fails if the program has ended without reading its input.
    let _ = child.stdin.take().unwrap().write_all(b"input\n");
    child.wait_with_output().unwrap()
}

#[test]
fn a_missing_testbed_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    for (args, needs) in [
        (&["testbed", "run", "--json"][..], "transpute testbed needs"),
        (&["testbed", "--help"], "transpute testbed needs"),
        (&["model", "fit", "rows.jsonl"], "transpute model fit needs"),
        (
            &["model", "predict", "--path", "eu-us"],
            "--path eu-us needs",
        ),
        (&["man", "testbed"], "manual page needs"),
    ] {
        let output = run(folder.path(), &nowhere, args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1));
        assert!(told.contains(needs), "{told}");
        assert!(told.contains("cargo build --release -p transpute-testbed-cli"));
        assert_eq!(args.contains(&"--json"), !output.stdout.is_empty());
    }
    // Without the other program, there are completions of all other commands.
    let output = run(folder.path(), &nowhere, &["completions", "bash"]);
    assert!(output.status.success() && !output.stdout.is_empty());
    let output = run(folder.path(), &nowhere, &["help", "testbed"]);
    assert!(output.status.success() && !output.stdout.is_empty());
}

#[test]
fn the_testbed_gets_arguments_and_streams_and_gives_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let [beside, on_path] = ["beside", "path"].map(|name| folder.path().join(name));
    for folder in [&beside, &on_path] {
        fs::create_dir(folder).unwrap();
    }
    let expect = |args: &[&str]| {
        // The script also needs `cat`.
        let path = std::env::join_paths([&*on_path, Path::new("/usr/bin"), Path::new("/bin")]);
        let output = run(&beside, Path::new(&path.unwrap()), args);
        assert_eq!(output.status.code(), Some(37), "{output:?}");
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("{} [{}]\ninput\n", args.len(), args.join(" "))
        );
        assert_eq!(output.stderr, b"told\n");
    };
    install(&on_path);
    expect(&["testbed", "exec", "--a", "sleep 1 -v", "--json", "--", "-v"]);
    expect(&["-v", "testbed", "--help"]);
    install(&beside);
    fs::remove_file(on_path.join("transpute-testbed")).unwrap();
    expect(&["testbed", "run"]);
    expect(&["model", "fit", "--residuals", "rows.jsonl"]);
    expect(&["model", "predict", "--json", "--path", "lan"]);
    expect(&["completions", "zsh"]);
    expect(&["man", "testbed", "run"]);
}
