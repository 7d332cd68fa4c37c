//! The reference of all commands in docs, which is generated from the help texts.

use std::{env, fmt::Write as _, fs};

use crate::process::transpute;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/command-reference.md"
);
const START: &str = "# Reference of all commands\n\n\
    The help text of every command, as the programs print it. A test generates this page and \
    compares it\n(`WRITE_REFERENCE=1 cargo test -p transpute-testbed-cli --test it reference` \
    writes it). [Command\nline](command-line.md) is the overview. `transpute testbed` and \
    `transpute model fit` need the program\n`transpute-testbed`.\n";

/// Appends the help text of a command and of all commands below it.
fn append_help(page: &mut String, command: &[&str]) {
    let args = command.iter().chain(&["--help"]);
    let help = transpute(args).expect(0);
    let name = ["transpute"].iter().chain(command).copied();
    let name = name.collect::<Vec<_>>().join(" ");
    // Users call `transpute`, which has the same commands. It starts this program for those of the
    // testbed.
    let text = help.stdout.replace("transpute-testbed ", "transpute ");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let text = lines.join("\n");
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
    let below = lines.iter().skip_while(|line| **line != "Commands:");
    let names = below.skip(1).take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            append_help(page, &[command, &[name]].concat());
        }
    }
}

#[test]
fn the_reference_has_the_help_of_every_command() {
    let mut page = START.to_owned();
    append_help(&mut page, &[]);
    assert!(page.matches("\n## ").count() > 20, "{page}");
    if env::var_os("WRITE_REFERENCE").is_some() {
        fs::write(PAGE, page).unwrap();
        return;
    }
    let written = fs::read_to_string(PAGE).unwrap();
    assert!(
        written == page,
        "docs/command-reference.md differs from the help texts; write it with \
         WRITE_REFERENCE=1 cargo test -p transpute-testbed-cli --test it reference"
    );
}

/// The other test compares the page with the help texts. The tests of `transpute` check its own
/// commands.
#[test]
fn the_help_of_every_command_of_the_testbed_has_an_example() {
    let page = fs::read_to_string(PAGE).unwrap();
    let mut number = 0;
    for section in page.split("\n## `").skip(1) {
        let (name, help) = section.split_once('`').unwrap();
        let is_ours = name.starts_with("transpute testbed") || name == "transpute model fit";
        if !is_ours || help.contains("\nCommands:\n") {
            continue;
        }
        let example = format!("Example:\n  {name}");
        assert!(help.contains(&example), "{name}\n{help}");
        number += 1;
    }
    assert!(number >= 11, "{number}");
}
