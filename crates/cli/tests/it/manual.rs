//! `transpute completions`, `transpute man` and the help texts.

use crate::harness::transpute;

#[test]
fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = transpute(["completions", shell]).expect(0).stdout;
        for word in ["transpute", "circuit", "garbler-inputs"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    transpute(["completions", "dos"]).fails(2, "dos");
}

#[test]
fn every_command_has_a_manual_page() {
    for (command, words) in [
        (&[][..], [".TH transpute", "demo", "Exit codes"]),
        (
            &["run"],
            [".TH transpute-run", "base\\-ot", "Number of runs"],
        ),
        (
            &["circuit", "eval"],
            [".TH transpute-circuit-eval", "input", "CIRCUIT"],
        ),
    ] {
        let page = transpute([&["man"], command].concat()).expect(0).stdout;
        for word in words {
            assert!(page.contains(word), "{command:?} lacks {word}\n{page}");
        }
    }
    transpute(["man", "rnu"]).fails(2, "there is no command \"rnu\"; did you mean run?");
}

#[test]
fn the_help_has_an_example_and_headings() {
    let help = transpute(["--help"]).expect(0).stdout;
    assert!(help.contains("transpute run --role garbler"), "{help}");
    let help = transpute(["run", "-h"]).expect(0).stdout;
    let position = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}\n{help}"));
    let headings = [
        "Identity:",
        "Transport:",
        "Protocol (the same on both sides):",
        "Many runs:",
    ];
    for (heading, flags) in headings.iter().zip([
        &["--identity", "--peer", "--plaintext"][..],
        &["--transport", "--offer", "--chooser", "--patience"],
        &[
            "--scheme",
            "--output-to",
            "--garbler-inputs",
            "--base-ot",
            "--rekey-period",
            "--chunk",
        ],
        &[
            "--batch",
            "--batch-file",
            "--repeat",
            "--pipeline",
            "--threads",
        ],
    ]) {
        let section = &help[position(&format!("\n{heading}\n")) + 1..];
        let section = &section[..section.find("\n\n").unwrap_or(section.len())];
        for flag in flags {
            assert!(
                section.contains(&format!("{flag} ")) || section.contains(&format!("{flag}\n")),
                "{heading} {flag}\n{section}"
            );
        }
    }
    let options = position("\nOptions:\n");
    assert!(position("--role <ROLE>  ") > options && position("--verbose") > position("--quiet"));
}

/// Returns the subcommands that the help of a command lists, without `help`.
fn subcommands(command: &[&str]) -> Vec<String> {
    let help = transpute([command, &["--help"]].concat()).expect(0).stdout;
    let Some((_, listed)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let listed = listed.split("\n\n").next().unwrap_or_default();
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(String::from)
        .collect()
}

/// `model fit` and `testbed` belong to another program.
#[test]
fn the_help_of_every_command_has_an_example() {
    let mut commands = Vec::new();
    for name in subcommands(&[]) {
        let nested = subcommands(&[&name]);
        match nested[..] {
            [] => commands.push(name),
            [..] => commands.extend(nested.iter().map(|nested| format!("{name} {nested}"))),
        }
    }
    commands.retain(|command| !command.starts_with("testbed") && command != "model fit");
    assert!(commands.len() >= 19, "{commands:?}");
    for command in commands {
        let words = command.split(' ').chain(["--help"]);
        let help = transpute(words.collect::<Vec<_>>()).expect(0).stdout;
        let example = format!("Example:\n  transpute {command}");
        assert!(help.contains(&example), "{command}\n{help}");
    }
}

/// docs/command-line.md lists every command and every flag of `run`; those that only `serve` has
/// are in docs/serving.md.
#[test]
fn the_documents_list_commands_and_flags() {
    const PAGE: &str = include_str!("../../../../docs/command-line.md");
    const SERVING: &str = include_str!("../../../../docs/serving.md");
    let names = subcommands(&[]);
    assert!(!names.is_empty());
    for name in names {
        assert!(PAGE.contains(&format!("`{name}")), "{name}");
    }
    for (command, pages) in [
        ("run", PAGE.to_owned()),
        ("serve", PAGE.to_owned() + SERVING),
    ] {
        let help = transpute([command, "--help"]).expect(0).stdout;
        let lines = help
            .lines()
            .filter(|line| line.trim_start().starts_with('-'));
        let mut flags = 0;
        for flag in lines.filter_map(|line| line.split_whitespace().find(|it| it.starts_with("--")))
        {
            let flag = flag.trim_end_matches('.');
            let is_listed = ["`", " "]
                .iter()
                .any(|end| pages.contains(&format!("`{flag}{end}")));
            assert!(is_listed || flag == "--help", "{command} {flag}");
            flags += 1;
        }
        assert!(flags > 20, "{command} {flags}");
    }
}
