//! Rules of the repository that neither the compiler nor Clippy checks.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use crate::ignored;

/// The core crates, which are pure state machines: they use no sockets, clocks or threads.
const CORE_CRATES: [&str; 6] = ["circuit", "garble", "ot", "rudp", "session", "units"];

/// Dependencies that are forbidden in core crates: runtimes and sockets.
const NO_CORE_DEPENDENCIES: [&str; 5] = ["tokio", "async-trait", "socket2", "quinn", "rustls"];

/// Texts that are forbidden in the sources of core crates: sockets, clocks, threads and
/// asynchronous functions.
const NO_CORE_TEXTS: [&str; 8] = [
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "Instant::now",
    "SystemTime",
    "std::thread",
    "thread::",
    "async ",
];

/// The names of the built-in transports. Production code outside the directories of transports must
/// not contain them, so that a transport can be added without other changes.
const TRANSPORTS: [&str; 5] = ["tcp", "tcp-striped", "quic", "rudp", "udp"];

/// The types of the transports that `auto` chooses from.
const TRANSPORT_TYPES: [&str; 4] = ["Tcp", "TcpStriped", "Quic", "Rudp"];

/// The directories of the transports.
const TRANSPORT_FOLDERS: [&str; 5] = [
    "crates/transport/src/tcp/",
    "crates/transport/src/quic/",
    "crates/transport/src/rudp/",
    "crates/transport/src/udp/",
    "crates/transport/src/striped/",
];

/// Crates that must not use the types of transports outside the directories of the transports.
const WITHOUT_TRANSPORT_TYPES: [&str; 4] = [
    "crates/transport/src/",
    "crates/select/src/",
    "crates/transpute/src/",
    "crates/testbed/src/",
];

/// The exceptions from [`WITHOUT_TRANSPORT_TYPES`]: files and directories that may use these types.
const USES_TRANSPORT_TYPES: [&str; 3] = [
    // The list of the built-in transports.
    "crates/transport/src/builtins.rs",
    // This file exports the built-in transports.
    "crates/transport/src/lib.rs",
    // The conformance suite uses its own enum `Port`, whose variant `Tcp` is not a transport.
    "crates/transport/src/conformance/",
];

/// Files and directories, besides those of the transports, that may name transports.
const MAY_NAME_TRANSPORTS: [&str; 8] = [
    // Default values of flags, which are inputs of an experiment.
    "crates/cli/src/link/mod.rs",
    "crates/testbed-cli/src/testbed/",
    // The fit of the built-in model, which names what was measured.
    "crates/select/src/model/shipped.rs",
    // Published figures compare with TCP.
    "crates/testbed/src/report/cells.rs",
    // The labels of scenarios include whether a firewall blocks UDP.
    "crates/testbed/src/report/tables.rs",
    "crates/testbed/src/runner/matrix.rs",
    "crates/testbed-web/src/scenario_choice.rs",
    // This list.
    "xtask/",
];

/// The directories with source files.
const SOURCE_FOLDERS: [&str; 4] = ["crates", "examples", "benches", "xtask"];

/// Maximum number of lines of a source file. Files should have at most 400 lines.
const MAX_LINES: usize = 800;

/// Returns all source files of the repository, in order.
pub(crate) fn sources(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in SOURCE_FOLDERS {
        collect_sources(&root.join(folder), &mut files)?;
    }
    files.sort();
    Ok(files)
}

/// Returns all violations of the rules.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut complaints = Vec::new();
    for file in sources(root)? {
        let shown = file.strip_prefix(root).unwrap_or(&file).display();
        let text = fs::read_to_string(&file)?;
        complaints.extend(check_source(&text).map(|rule| format!("{shown}: {rule}")));
        let named = named_transports(&shown.to_string(), &text);
        complaints.extend((named.iter()).map(|problem| format!("{shown}: {problem}")));
    }
    for name in CORE_CRATES {
        let folder = root.join("crates").join(name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        let found = forbidden_dependencies(&manifest);
        complaints.extend(found.map(|dependency| {
            format!("crates/{name}: a core crate does not depend on {dependency}")
        }));
        let mut files = Vec::new();
        collect_sources(&folder.join("src"), &mut files)?;
        // Files of tests are not checked: they may start the threads that a core crate leaves to
        // its caller.
        let is_test = |file: &PathBuf| file.iter().any(|part| part == "tests");
        for file in files.into_iter().filter(|file| !is_test(file)) {
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            let text = fs::read_to_string(&file)?;
            let found = NO_CORE_TEXTS
                .iter()
                .filter(|banned| text.contains(**banned));
            complaints
                .extend(found.map(|banned| format!("{shown}: a core crate does not use {banned}")));
        }
    }
    let mut texts = String::new();
    for file in sources(root)? {
        texts += &fs::read_to_string(file)?;
    }
    for page in ["protocol", "rudp", "security", "testing"] {
        let path = format!("docs/{page}.md");
        let text = fs::read_to_string(root.join(&path))?;
        let missing = missing_tests(&text, &texts);
        complaints.extend(missing.map(|name| format!("{path}: there is no test {name}")));
    }
    let page = fs::read_to_string(root.join("docs/protocol.md"))?;
    let mut sources = Vec::new();
    for name in ["transport", "tunnel"] {
        collect_sources(&root.join("crates").join(name).join("src"), &mut sources)?;
    }
    let sources: Result<Vec<String>, _> = sources.iter().map(fs::read_to_string).collect();
    let complaint = |problem| format!("docs/protocol.md: {problem}");
    complaints.extend(check_magics(&page, &sources?.concat()).map(complaint));
    Ok(complaints)
}

/// Returns the lines of a production file that name a built-in transport in a string or by its
/// type, unless the file may name it.
fn named_transports(file: &str, text: &str) -> Vec<String> {
    let is_in = |places: &[&str]| places.iter().any(|place| file.starts_with(place));
    let is_production = file.starts_with("crates/") && file.contains("/src/");
    let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
    let is_fixture = file.ends_with("fixture.rs");
    let applies = is_production && !is_test && !is_fixture && !is_in(&TRANSPORT_FOLDERS);
    let checks_strings = applies && !is_in(&MAY_NAME_TRANSPORTS);
    let checks_types = applies && is_in(&WITHOUT_TRANSPORT_TYPES) && !is_in(&USES_TRANSPORT_TYPES);
    let in_string = |line: &str| {
        let parts: Vec<&str> = line.split('"').collect();
        parts.chunks_exact(2).any(|pair| {
            let (code, string) = (pair[0], pair[1]);
            // A cargo feature may have the name of a transport.
            !code.ends_with("feature = ")
                && TRANSPORTS.contains(&string.split(':').next().unwrap_or_default())
        })
    };
    let is_separator = |c: char| !(c.is_alphanumeric() || c == '_');
    let by_type = |line: &str| {
        let mut words = line
            .split('"')
            .step_by(2)
            .flat_map(|code| code.split(is_separator));
        words.any(|word| TRANSPORT_TYPES.contains(&word))
    };
    // The module of unit tests is at the end of a file. Lines from it on are not checked.
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]");
    (code.zip(1..))
        .filter(|(line, _)| !line.trim_start().starts_with("//"))
        .filter(|(line, _)| (checks_strings && in_string(line)) || (checks_types && by_type(line)))
        .map(|(_, number): (_, usize)| {
            format!("line {number} names a transport: take it from the registry or its profile")
        })
        .collect()
}

/// Returns the names of tests on a page that no source defines. A code span of four or more words
/// joined by underscores is assumed to be the name of a test.
fn missing_tests<'a>(page: &'a str, sources: &str) -> impl Iterator<Item = &'a str> {
    let is_test = |text: &&str| {
        text.matches('_').count() >= 3
            && text
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
    };
    (page.split('`').skip(1).step_by(2))
        .filter(is_test)
        .filter(move |name| !sources.contains(&format!("fn {name}(")))
}

/// Checks that a page lists the magic numbers of the transports' messages as in the sources. They
/// contain the version.
fn check_magics(page: &str, sources: &str) -> impl Iterator<Item = String> {
    let named = |line: &str| {
        let (_, rest) = line.split_once("= *b\"")?;
        rest.split_once('"').map(|(magic, _)| magic.to_owned())
    };
    let magics: Vec<String> = (sources.lines())
        .filter(|line| line.contains("const MAGIC"))
        .filter_map(named)
        .collect();
    let is_magic = |text: &str| text.len() == 8 && text.starts_with("tp");
    let written: Vec<String> = (page.split('`').skip(1).step_by(2))
        .filter(|text| is_magic(text))
        .map(str::to_owned)
        .collect();
    let missing = (magics.clone().into_iter())
        .filter(|magic| !written.contains(magic))
        .map(|magic| format!("does not name `{magic}`"))
        .collect::<Vec<_>>();
    let unknown = (written.into_iter())
        .filter(|text| !magics.contains(text))
        .map(|text| format!("names `{text}`, which no crate sends"))
        .collect::<Vec<_>>();
    missing.into_iter().chain(unknown)
}

fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            // Folders named `target` contain build output.
            if !path.ends_with("target") {
                collect_sources(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the rules that a source file breaks.
fn check_source(text: &str) -> impl Iterator<Item = String> {
    let mut broken = Vec::new();
    if !text.starts_with("//!") {
        broken.push("does not start with a module comment".into());
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        broken.push(format!("has {lines} lines, more than {MAX_LINES}"));
    }
    for (line, number) in text.lines().zip(1..) {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        // `!(` is appended here, so that this file does not contain what it forbids.
        for banned in ["todo", "unimplemented", "dbg"] {
            if code.contains(&format!("{banned}!(")) {
                broken.push(format!("line {number} has a {banned}!"));
            }
        }
        if code.starts_with("#[allow") || code.starts_with("#![allow") {
            broken.push(format!(
                "line {number} allows a lint: expect it, with a reason"
            ));
        }
        if line.ends_with([' ', '\t']) {
            broken.push(format!("line {number} ends in blanks"));
        }
    }
    for (number, name, reason) in ignored::in_source(text) {
        if reason.is_none() {
            broken.push(format!(
                "line {number} ignores {name} without a reason listed in docs/testing.md"
            ));
        }
    }
    broken.into_iter()
}

/// Returns the forbidden entries in the dependency tables of a manifest; dev-dependencies are not
/// checked.
fn forbidden_dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut in_dependencies = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', '=', ' ']).next()?;
        (in_dependencies && NO_CORE_DEPENDENCIES.contains(&name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_are_tidy() {
        let complaints = check(&crate::root()).unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn transports_are_named_in_their_folders_only() {
        let text = "//! A module.\nlet x = \"tcp:cc=bbr\";\nlet y = \"udp_blocked\";\n";
        let found = |file| named_transports(file, text).len();
        assert_eq!(found("crates/select/src/rule.rs"), 1);
        assert_eq!(found("crates/transport/src/tcp/mod.rs"), 0);
        assert_eq!(found("crates/select/tests/rule.rs"), 0);
        let text = "//! A module.\n#[cfg(feature = \"quic\")]\nlet x = (cfg!(feature = \"quic\"), \"quic\");\n";
        assert_eq!(named_transports("crates/select/src/rule.rs", text).len(), 1);
        let text = "//! Of Tcp.\nuse crate::{Quic, TcpOptions};\nlet name = Tcp::NAME;\nlet x = \"Tcp\";\n";
        let found = |file| named_transports(file, text).len();
        assert_eq!(found("crates/transport/src/auto/race.rs"), 2);
        for file in [
            "crates/transport/src/builtins.rs",
            "crates/cli/src/link/mod.rs",
        ] {
            assert_eq!(found(file), 0);
        }
    }

    #[test]
    fn tests_that_a_page_names_exist() {
        let page = "See `an_existing_test_is_found` and `a_missing_test_is_reported`, `a_field_name` and `Other`.";
        let sources = "fn an_existing_test_is_found() {}";
        let missing: Vec<_> = missing_tests(page, sources).collect();
        assert_eq!(missing, ["a_missing_test_is_reported"]);
    }

    #[test]
    fn broken_rules_are_found() {
        let rules = |text: &str| check_source(text).collect::<Vec<_>>();
        assert!(rules("//! A module.\nfn f() {}\n").is_empty());
        assert_eq!(
            rules("fn f() {}\n"),
            ["does not start with a module comment"]
        );
        let unfinished = format!("//! A module.\nfn f() {{ {}!() }}\n", "todo");
        assert_eq!(rules(&unfinished), ["line 2 has a todo!"]);
        let lax = "//! A module.\n#[allow(dead_code)]\nfn f() {} \n";
        assert_eq!(
            rules(lax),
            [
                "line 2 allows a lint: expect it, with a reason",
                "line 3 ends in blanks"
            ]
        );
        let ignored = "//! A module.\n#[test]\n#[ignore = \"takes long\"]\nfn slow() {}\n";
        let [complaint] = &rules(ignored)[..] else {
            panic!("{:?}", rules(ignored));
        };
        assert!(complaint.starts_with("line 3 ignores slow"), "{complaint}");
        let long = format!("//! A module.\n{}", "\n".repeat(800));
        assert_eq!(rules(&long), ["has 801 lines, more than 800"]);
    }

    #[test]
    fn magics_are_compared_with_the_page() {
        let sources = "const MAGIC: [u8; 8] = *b\"tphello2\";\nassert_eq!(bytes, b\"tphello1\");\n";
        let complaints = |page| check_magics(page, sources).collect::<Vec<_>>();
        assert!(complaints("begins with `tphello2`, then `tp`").is_empty());
        assert_eq!(
            complaints("begins with `tphello1`"),
            [
                "does not name `tphello2`",
                "names `tphello1`, which no crate sends"
            ]
        );
    }

    #[test]
    fn forbidden_dependencies_are_found() {
        let manifest = "\
[dependencies]
thiserror.workspace = true
tokio = { workspace = true }

[target.'cfg(unix)'.dependencies]
socket2.workspace = true

[dev-dependencies]
tokio.workspace = true
";
        let found: Vec<&str> = forbidden_dependencies(manifest).collect();
        assert_eq!(found, ["tokio", "socket2"]);
    }
}
