//! Messages about the command line, as text and as JSON.

use crate::harness::{KEY, Party, transpute};

#[test]
fn a_wrong_address_names_its_option() {
    for (address, reason) in [
        ("7700", "expected host:port"),
        ("127.0.0.1", "expected host:port"),
        (
            "127.0.0.1:99999",
            "the port must be a number from 0 to 65535",
        ),
    ] {
        for (command, flag) in [
            (
                &["run", "--role", "garbler", "--circuit", "x", "--listen"][..],
                "--listen",
            ),
            (
                &["run", "--role", "garbler", "--circuit", "x", "--connect"],
                "--connect",
            ),
            (
                &["serve", "--role", "garbler", "--circuit", "x", "--listen"],
                "--listen",
            ),
            (&["probe", "--listen"], "--listen"),
            (
                &["plan", "--circuit", "x", "--path", "measured", "--connect"],
                "--connect",
            ),
            (&["link", "serve", "--listen"], "--listen"),
            (&["link", "send", "--bytes", "1", "--connect"], "--connect"),
            (
                &["tunnel", "listen", "--allow", "1", "--listen"],
                "--listen",
            ),
            (
                &["tunnel", "connect", "--allow", "1", "--connect"],
                "--connect",
            ),
        ] {
            let finished = transpute([command, &[address]].concat());
            let fragment =
                format!("for '{flag} <ADDR>': \"{address}\" is not an address: {reason}");
            finished.fails(2, &fragment);
        }
    }
    transpute(["probe", "7700"]).fails(2, "for '[ADDR]'");
}

#[test]
fn misspelt_commands_are_answered_with_a_list() {
    let misspelt = |args: &[&str], fragments: &[&str]| {
        let finished = transpute(args).fails(2, "unrecognized subcommand");
        for fragment in fragments {
            assert!(finished.stderr.contains(fragment), "{}", finished.stderr);
        }
    };
    misspelt(
        &["rnu"],
        &[
            "did you mean 'run'?",
            "the subcommands are: demo, run, serve, ",
        ],
    );
    misspelt(&["quicksort"], &["the subcommands are: demo, run, serve, "]);
    misspelt(
        &["circuit", "inof"],
        &["exists: 'info'", "info, convert, generate"],
    );
    misspelt(&["-v", "id", "mke"], &["the subcommands are: new, show"]);
}

/// The object is on standard output, and the line on standard error.
#[test]
fn errors_are_json_objects_too() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = free.local_addr().unwrap().to_string();
    let busy = Party::new("garbler", "aes128")
        .input(0, KEY)
        .and(["--listen", &taken])
        .0;
    let missing = (Party::new("garbler", "./nowhere.txt"))
        .and(["--listen", "127.0.0.1:0"])
        .0;
    let own = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    for (args, code, kind, fragment) in [
        (own(&["run", "--json"]), 2, "usage", "--role <ROLE>"),
        (
            own(&["demo", "--json", "--scheme", "yao"]),
            2,
            "usage",
            "yao",
        ),
        (
            own(&["circuit", "info", "--json", "aes-128"]),
            2,
            "usage",
            "did you mean aes128?",
        ),
        (own(&["rnu", "--json"]), 2, "usage", "did you mean 'run'?"),
        (
            missing,
            3,
            "file",
            "./nowhere.txt: cannot read the circuit file",
        ),
        (busy, 4, "peer", "cannot listen on"),
    ] {
        let finished = transpute(&args).fails(code, "");
        let json = finished.json();
        let error = json["error"].as_object().unwrap();
        assert_eq!(error.len(), 3, "{json}");
        assert_eq!(
            (&error["code"], &error["kind"]),
            (&code.into(), &kind.into())
        );
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(fragment), "{message}");
        assert!(
            !message.contains('\n') && !message.contains("Usage"),
            "{message}"
        );
    }
    // An argument of another command, and requested help.
    let other = transpute(["demo", "--", "--json"]).expect(2);
    assert_eq!(other.stdout, "");
    let help = transpute(["demo", "--json", "--help"]).expect(0);
    assert!(
        help.stdout.contains("Usage: transpute demo"),
        "{}",
        help.stdout
    );
}
