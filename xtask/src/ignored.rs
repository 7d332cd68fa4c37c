//! Finds the ignored tests of the workspace and their reasons.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use crate::tidy::sources;

/// The command that runs slow tests. The ignore reason of such a test names it.
const COMMAND: &str = "cargo xtask slow-tests";

/// The reason why a test is ignored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reason {
    /// The test takes long.
    Slow,
    /// The test reads files from the directory in this environment variable.
    Needs(String),
    /// The test is a measurement, which prints figures.
    Measures,
    /// Another test runs this test in a child process.
    Child,
}

/// An ignored test.
#[derive(Debug)]
pub(crate) struct Ignored {
    /// The package that the test belongs to.
    pub(crate) package: String,
    /// The arguments by which `cargo test` selects the target that contains the test.
    pub(crate) target: Vec<String>,
    /// The name of the test function.
    pub(crate) name: String,
    /// The reason why the test is ignored.
    pub(crate) reason: Reason,
}

impl Reason {
    /// Parses the text of an `#[ignore = "…"]`.
    fn parse(text: &str) -> Option<Self> {
        if let Some(command) = text.strip_prefix("measures; run by hand: ") {
            return (!command.trim().is_empty()).then_some(Self::Measures);
        }
        if let Some(test) = text.strip_prefix("child of ") {
            return (!test.trim().is_empty()).then_some(Self::Child);
        }
        let (kind, command) = text.split_once(": ")?;
        if command != COMMAND {
            return None;
        }
        match kind.strip_prefix("needs ") {
            Some(variable) => Some(Self::Needs(variable.to_owned())),
            None => (kind == "slow").then_some(Self::Slow),
        }
    }
}

/// Returns each ignored test of a source file: the line number of its attribute, the name of the
/// function, and the reason, if it has one of the forms in docs/testing.md.
pub(crate) fn in_source(text: &str) -> impl Iterator<Item = (usize, &str, Option<Reason>)> {
    let lines = text.lines().zip(1..);
    lines.filter_map(move |(line, number)| {
        let attribute = line.trim_start().strip_prefix("#[ignore")?;
        let reason = attribute
            .strip_prefix(" = \"")
            .and_then(|rest| rest.strip_suffix("\"]"))
            .and_then(Reason::parse);
        let name = (text.lines().skip(number)).find_map(|line| {
            let (_, rest) = line.split_once("fn ")?;
            rest.split_once('(').map(|(name, _)| name)
        });
        Some((number, name.unwrap_or_default(), reason))
    })
}

/// Returns all ignored tests with a valid reason, by package and file. `tidy` reports the others.
pub(crate) fn all(root: &Path) -> Result<Vec<Ignored>, Box<dyn Error>> {
    let mut tests = Vec::new();
    for file in sources(root)? {
        let text = fs::read_to_string(&file)?;
        for (_, name, reason) in in_source(&text) {
            let Some(reason) = reason else { continue };
            let (package, folder) = package(&file)?;
            tests.push(Ignored {
                package,
                target: target(file.strip_prefix(&folder)?, &folder),
                name: name.to_owned(),
                reason,
            });
        }
    }
    Ok(tests)
}

/// Returns the name and the directory of the package that contains a file.
fn package(file: &Path) -> Result<(String, PathBuf), Box<dyn Error>> {
    for folder in file.ancestors().skip(1) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = (manifest.lines()).find_map(|line| line.strip_prefix("name = \""));
        if let Some(name) = name {
            return Ok((name.trim_end_matches('"').to_owned(), folder.to_owned()));
        }
    }
    Err(format!("{} belongs to no package", file.display()).into())
}

/// Returns the arguments of `cargo test` for the target that contains a file of a package.
fn target(file: &Path, folder: &Path) -> Vec<String> {
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    let first = parts.next().unwrap_or_default();
    let argument =
        |kind: &str, name: &str| vec![kind.to_owned(), name.trim_end_matches(".rs").to_owned()];
    match &*first {
        "src" if folder.join("src/lib.rs").exists() => vec!["--lib".to_owned()],
        "src" => vec!["--bins".to_owned()],
        "tests" => argument("--test", &parts.next().unwrap_or_default()),
        // All examples belong to one package, and each has its own directory.
        example => argument("--example", example),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_parsed() {
        let parse = Reason::parse;
        assert_eq!(parse("slow: cargo xtask slow-tests"), Some(Reason::Slow));
        assert_eq!(
            parse("needs A_FOLDER: cargo xtask slow-tests"),
            Some(Reason::Needs("A_FOLDER".into()))
        );
        assert_eq!(
            parse("measures; run by hand: cargo test speed -- --ignored"),
            Some(Reason::Measures)
        );
        assert_eq!(parse("child of both_meet"), Some(Reason::Child));
        for other in [
            "",
            "slow",
            "slow: cargo test",
            "takes 10 s; run with --ignored",
            "measures; run by hand: ",
            "child of ",
        ] {
            assert_eq!(parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn ignored_tests_of_a_source_are_found() {
        // `IGNORE` is replaced below. With the real attribute, `tidy` would complain about this
        // file.
        let text = "\
//! A module.
#[test]
fn fast() {}
#[tokio::test]
#[IGNORE = \"slow: cargo xtask slow-tests\"]
async fn idle() {}
#[test]
#[IGNORE]
fn without() {}
"
        .replace("IGNORE", "ignore");
        let found: Vec<_> = in_source(&text).collect();
        assert_eq!(
            found,
            [(5, "idle", Some(Reason::Slow)), (8, "without", None)]
        );
    }

    #[test]
    fn the_target_follows_from_the_file() {
        let target = |file: &str| target(Path::new(file), &crate::root()).join(" ");
        assert_eq!(target("tests/vanish.rs"), "--test vanish");
        assert_eq!(target("tests/it/vanish.rs"), "--test it");
        assert_eq!(target("src/main.rs"), "--bins");
        assert_eq!(target("forecast/tests/mod.rs"), "--example forecast");
    }
}
