//! Errors that are found before a peer is involved, and their reports.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use crate::{
    BINARY,
    harness::{KEY, KEYS, Party, Process, transpute, write},
};

/// A complete garbler to which no peer will connect.
fn garbler(circuit: &str) -> Party {
    Party::new("garbler", circuit).and(["--listen", "127.0.0.1:0"])
}

#[test]
fn wrong_flags_are_named() {
    let run = |args: &[&str]| transpute(garbler("aes128").and(args.iter().copied()).0);
    for (args, fragment) in [
        (
            &["--input", "hex:00"][..],
            "--input: input value 0: hex: takes 32 digits",
        ),
        (&["--input", "0=hex:xyz"], "character 1 is no hex digit"),
        (
            &["--input", "0=00"],
            "a value starts with bits:, hex:, dec: or @",
        ),
        (
            &[],
            "--input: input value 0 (128 bits, the garbler's) is missing",
        ),
        (&["--input", "1=dec:1"], "input value 1 is the evaluator's"),
        (&["--input", "2=dec:1"], "input value 2 does not exist"),
        (
            &["--input", "0=dec:1", "--input", "0=dec:1"],
            "input value 0 is given twice",
        ),
        (
            &["--garbler-inputs", "3"],
            "--garbler-inputs: input value 3 does not exist",
        ),
        (&["--garbler-inputs", "x"], "--garbler-inputs"),
        (
            &["--input", "0=dec:1", "--transport", "smoke"],
            "for '--transport <NAME[:KEY=VALUE,...]>': there is no transport named \"smoke\" among auto, quic, rudp, \
             tcp, tcp-striped, udp",
        ),
        (&["--transport", "htcp"], "did you mean tcp?"),
        (&["--transport", "tcp:x=1"], "it has: cc"),
        (&["--rekey-period", "3"], "--rekey-period"),
        (
            &["--scheme", "prf", "--rekey-period", "2"],
            "--rekey-period",
        ),
        (
            &["--scheme", "yao"],
            "for '--scheme <NAME|auto[:NAME,...]>': unknown garbling scheme \"yao\", expected one of half-gates, ",
        ),
        (&["--scheme", "halfgates"], "did you mean half-gates?"),
        (&["--chunk", "63"], "--chunk"),
        (&["--batch", "0"], "for '--batch <K>': must be at least 1"),
        (
            &["--threads", "0"],
            "for '--threads <N>': must be at least 1",
        ),
        (&["--repeat", "0"], "for '--repeat <N>': must be at least 1"),
        (
            &["--pipeline=-1"],
            "for '--pipeline <K>': must be at least 1",
        ),
        (&["--patience=-1"], "--patience"),
        (&["--ot", "kos"], "--ot"),
        (&["--base-ot", "kyber"], "--base-ot"),
        (
            &["--peer", "sha256:12"],
            "for '--peer <FINGERPRINT>': expected 64 hexadecimal digits after \"sha256:\", got 2",
        ),
        (
            &["--peer", "sha256:aaaa…"],
            "got an abbreviation: give the whole fingerprint",
        ),
        (
            &["--input", "0=hex:0x00"],
            "hex: takes the digits without 0x",
        ),
        (&["--connect", "127.0.0.1:1"], "--connect"),
        (&["--plaintext"], "--plaintext"),
        (&["--batch", "2", "--batch-file", "x"], "--batch-file"),
        (
            &["--input", "0=dec:1", "--batch", "100", "--ot", "direct"],
            "--ot: direct",
        ),
    ] {
        run(args).fails(2, fragment);
    }
}

#[test]
fn protection_is_not_forgotten() {
    let bare = || {
        Party::bare("garbler", "aes128")
            .input(0, KEY)
            .and(["--listen", "127.0.0.1:0"])
    };
    transpute(bare().0).fails(2, "transpute id new");
    transpute(bare().and(["--peer", &KEYS.evaluator.fingerprint]).0).fails(2, "--identity FILE");
    let key = KEYS.garbler.path.to_str().unwrap();
    transpute(bare().and(["--identity", key]).0).fails(2, "--peer FINGERPRINT");
    let neither = Party::bare("garbler", "aes128")
        .input(0, KEY)
        .and(["--plaintext"]);
    transpute(neither.0).fails(2, "required");
}

#[test]
fn unknown_circuits_are_errors_with_suggestions() {
    transpute(garbler("aes-128").0).fails(
        2,
        "--circuit: there is no circuit \"aes-128\"; did you mean aes128?",
    );
    transpute(garbler("mul:100000").0).fails(2, "--circuit: mul");
    transpute(garbler("./aes128").0).fails(3, "./aes128: cannot read the circuit file");
    transpute(garbler("nowhere.txt").0).fails(3, "nowhere.txt");

    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good.rs", "pub fn main(a: u8) -> u8 { a }");
    write(folder.path(), "adder", "");
    for (name, advice) in [
        ("good.rs", "rename it to end in .garble.rs"),
        ("adder", "to read the file of that name, write ./adder"),
        (
            "README.md",
            "there is neither a built-in circuit nor a file \"README.md\"",
        ),
        ("quicksort", "`transpute circuit generate --list`"),
    ] {
        let finished = Process::start_with(["circuit", "info", name], |command| {
            command.current_dir(folder.path())
        });
        let finished = finished.finish().fails(2, advice);
        assert!(finished.stderr.len() < 250, "{}", finished.stderr);
    }
}

#[test]
fn wrong_files_are_named_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name, content| write(folder.path(), name, content);

    let circuit = file("broken.txt", "1 3\n2 1 1\n1 1\n\n2 1 0 7 2 AND\n");
    transpute(garbler(&circuit).0).fails(3, &format!("{circuit}:5:7: wire 7 does not exist"));

    let value = file("value", "hex:00\n 0x");
    let party = garbler("aes128").input(0, &format!("@{value}"));
    transpute(party.0).fails(3, &format!("{value}:2:3: this is no hex digit"));
    let party = garbler("aes128").input(0, "@/nowhere/value");
    transpute(party.0).fails(3, "/nowhere/value: cannot read the value: No such file");

    let batch = file("batch", "# comment\n0=dec:1\n\n0=dec:256\n");
    let party = garbler("add:8").and(["--batch-file", &batch]);
    transpute(party.0).fails(
        3,
        &format!("{batch}:4: input value 0: the value does not fit in 8"),
    );
    let batch = file("foreign", "0=dec:1 1=dec:2\n");
    let party = garbler("add:8").and(["--batch-file", &batch]);
    transpute(party.0).fails(3, &format!("{batch}:1: input value 1 is the evaluator's"));
    let party = garbler("add:8").and(["--batch-file", &file("empty", "# none\n")]);
    transpute(party.0).fails(3, "there are no evaluations");

    let party = Party::bare("garbler", "aes128").input(0, KEY).and([
        "--listen",
        "127.0.0.1:0",
        "--peer",
        &KEYS.evaluator.fingerprint,
    ]);
    let no_key = file("no-key", "not a key");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        transpute(party.clone().and(["--identity", &no_key]).0).fails(3, "chmod 600");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&no_key, private).unwrap();
    }
    transpute(party.clone().and(["--identity", &no_key]).0).fails(3, &no_key);
    transpute(party.and(["--identity", "/nowhere/key"]).0)
        .fails(3, "make one with `transpute id new /nowhere/key`");
}

#[test]
fn a_batch_file_needs_values() {
    let party = Party::new("evaluator", "sha256:3").and([
        "--listen",
        "127.0.0.1:0",
        "--batch-file",
        "/dev/null",
    ]);
    transpute(party.0).fails(
        2,
        "--batch-file: the evaluator has no input values; say with --batch",
    );
}

#[test]
fn a_value_comes_from_standard_input_once() {
    use std::io::Write;
    let eval = |inputs: [&str; 2]| {
        let args = ["circuit", "eval", "add:8", "-i", inputs[0], "-i", inputs[1]];
        let (reader, mut writer) = std::io::pipe().unwrap();
        let process = Process::start_with(args, |command| command.stdin(reader));
        writer.write_all(b"dec:5\n").unwrap();
        drop(writer);
        process.finish()
    };
    let finished = eval(["0=@-", "1=dec:4"]).expect(0);
    assert_eq!(finished.stdout, "output 0: hex:09 dec:9 bits:10010000\n");
    eval(["0=@-", "1=@-"]).fails(3, "-: there is no value");
}

#[test]
fn inputs_are_secrets() {
    let secret = "hex:c0ffee00c0ffee00c0ffee00c0ffee0";
    for input in [
        format!("0={secret}"),
        secret.to_owned(),
        format!("00000000000000000000000={secret}"),
        format!("9={secret}"),
        format!("0=0{secret}"),
    ] {
        let finished = transpute(garbler("aes128").and(["-vv", "--input", &input]).0).expect(2);
        for text in [&finished.stderr, &finished.stdout] {
            assert!(!text.contains("c0ffee"), "{text}");
        }
    }
}

#[test]
fn a_refused_connection_is_a_failure_to_reach_the_peer() {
    // No program listens on port 1 (tcpmux).
    let address = "127.0.0.1:1";
    let party = Party::new("garbler", "aes128")
        .input(0, KEY)
        .and(["--patience", "0"]);
    party.clone().connect(address).finish().fails(4, address);
    party
        .clone()
        .connect("no-such-host.invalid:7")
        .finish()
        .fails(4, "no-such-host.invalid");
    party
        .clone()
        .connect("nonsense")
        .finish()
        .fails(2, "\"nonsense\" is not an address");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let party = party.and(["--listen", &address]);
    transpute(party.0).fails(4, "cannot listen on");
}

#[test]
fn a_peer_that_is_late_is_waited_for() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let [garbler, evaluator] = crate::harness::aes();
    let evaluator = evaluator.and(["--patience", "60"]).connect(&address);
    // The first attempt to connect is refused during this delay. The test passes even if it is
    // not.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let garbler = Process::start(garbler.and(["--listen", &address]).0);
    garbler.finish().expect(0);
    evaluator.finish().expect(0);
}

#[cfg(unix)]
#[test]
fn interruptions_have_their_exit_codes() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (process, _) = Party::new("garbler", "aes128").input(0, KEY).listen();
        let id = process.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let finished = process.finish().expect(code);
        assert!(!finished.stderr.contains("error"), "{}", finished.stderr);
    }
}

#[test]
fn a_reader_that_leaves_causes_no_panic() {
    let mut child = Command::new(BINARY)
        .args(["circuit", "generate", "aes128"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(stderr, "");
}

#[test]
fn log_filters_are_checked() {
    let process = Process::start_with(["circuit", "info", "add:8"], |command| {
        command.env("TRANSPUTE_LOG", "transpute=loud")
    });
    process.finish().fails(2, "TRANSPUTE_LOG");
    for wrong in ["bogus", "bogus=1", "info,bogus", "info,"] {
        let process = Process::start_with(["circuit", "info", "add:8"], |command| {
            command.env("TRANSPUTE_LOG", wrong)
        });
        let levels = "the levels being off, error, warn, info, debug, trace";
        process.finish().fails(2, levels);
    }
    for right in ["transpute=debug", "warn,transpute=info", "INFO", "off"] {
        let process = Process::start_with(["circuit", "info", "add:8"], |command| {
            command.env("TRANSPUTE_LOG", right)
        });
        process.finish().expect(0);
    }
    let process = Process::start_with(["circuit", "info", "add:8"], |command| {
        command.env("TRANSPUTE_LOG", "info")
    });
    assert!(process.finish().expect(0).stderr.contains("loaded"));
}

#[test]
fn an_unknown_aes_implementation_is_rejected_with_the_known_ones() {
    let party = garbler("aes128").and(["--input", "dec:1"]).0;
    Process::start_with(party, |command| command.env("TRANSPUTE_AES", "fastest"))
        .finish()
        .fails(
            2,
            "expected one of portable, arm-aes, aes-ni, vaes256, vaes512",
        );
}
