//! Measures the applications over emulated paths and writes pages with the results.
//!
//! `NAME/testbed.toml` is the plan of an application. `transpute testbed programs` runs it and
//! appends records to `docs/results/applications/NAME.jsonl`. A module of this program renders the
//! records as `NAME.md`. An interrupted measurement is resumed.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{benchmarking, forecast, records::Record, running_average, survey};

/// The Markdown text of a page, or an error.
type Page = Result<String, Box<dyn Error>>;

/// An application of this package.
struct Application {
    /// The name of the application's folder and of its files of results.
    name: &'static str,
    /// Renders the body of the page from records, which are in the order of the plan. `page` adds
    /// the heading and the line about the origin of the records.
    render: fn(&[Record]) -> Page,
}

const APPLICATIONS: [Application; 4] = [
    Application {
        name: "forecast",
        render: forecast::render,
    },
    Application {
        name: "benchmarking",
        render: benchmarking::render,
    },
    Application {
        name: "survey",
        render: survey::render,
    },
    Application {
        name: "running_average",
        render: running_average::render,
    },
];

/// Returns the root folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Measures the named applications, or all of them, and writes their pages.
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let root = root();
    let mut names = Vec::new();
    let (mut quick, mut render_only) = (false, false);
    for argument in arguments {
        match argument.as_str() {
            "--quick" => quick = true,
            "--render" => render_only = true,
            flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}").into()),
            name => names.push(name),
        }
    }
    let chosen = choose(&names)?;
    let folder = root.join(if quick {
        "docs/results/applications/quick"
    } else {
        "docs/results/applications"
    });
    fs::create_dir_all(&folder)?;
    if !render_only {
        let programs = Programs::build(&root)?;
        for application in &chosen {
            eprintln!("{}", application.name);
            programs.measure(&root, application, &folder, quick)?;
        }
    }
    for application in &chosen {
        let page = application.page(&folder, quick)?;
        fs::write(folder.join(format!("{}.md", application.name)), page)?;
    }
    Ok(())
}

/// Finds applications by name. Returns all if no name is given.
fn choose(names: &[&str]) -> Result<Vec<&'static Application>, Box<dyn Error>> {
    if names.is_empty() {
        return Ok(APPLICATIONS.iter().collect());
    }
    let find = |&name: &&str| {
        let found = APPLICATIONS.iter().find(|known| known.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = APPLICATIONS.iter().map(|known| known.name).collect();
            format!(
                "unknown application {name:?}; known are {}",
                known.join(", ")
            )
            .into()
        })
    };
    names.iter().map(find).collect()
}

impl Application {
    /// Renders the page from the records in a folder.
    fn page(&self, folder: &Path, quick: bool) -> Result<String, Box<dyn Error>> {
        let path = folder.join(format!("{}.jsonl", self.name));
        let read = transpute_testbed::programs::read(&path)?;
        let Some(last) = read.last() else {
            return Err(format!("{}: no records", path.display()).into());
        };
        let mut page = format!("# {}\n\n", self.name);
        page.push_str(&format!(
            "Made by `cargo run --bin measure -- {}{}` from {}.jsonl, as examples/applications/{}/testbed.toml says",
            self.name,
            if quick { " --quick" } else { "" },
            self.name,
            self.name,
        ));
        let failed = read
            .iter()
            .filter(|record| record.error.is_some() && !record.cut_off);
        let cut_off = read.iter().filter(|record| record.cut_off);
        page.push_str(&format!(
            ": {} runs, {} of them cut off and {} failed. The last one ran on {} processors ({}), {}.\n\n",
            read.len(),
            cut_off.count(),
            failed.count(),
            last.environment.cpus,
            last.environment.cpu,
            last.environment.kernel,
        ));
        let body = (self.render)(&read).map_err(|error| format!("{}: {error}", self.name))?;
        page.push_str(body.trim());
        page.push('\n');
        Ok(page)
    }
}

/// The paths of the built programs, and the value of PATH for the measured commands.
struct Programs {
    transpute: PathBuf,
    path: OsString,
}

impl Programs {
    fn build(root: &Path) -> Result<Self, Box<dyn Error>> {
        let packages = [
            "--package",
            "transpute-cli",
            "--package",
            "transpute-testbed-cli",
        ];
        let transpute = build(root, &packages)?.join("transpute");
        let own = build(&root.join("examples/applications"), &["--bins"])?;
        let mut folders = vec![own];
        folders.extend(transpute.parent().map(Path::to_owned));
        if let Some(path) = env::var_os("PATH") {
            folders.extend(env::split_paths(&path));
        }
        let path = env::join_paths(folders)?;
        Ok(Self { transpute, path })
    }

    fn measure(
        &self,
        root: &Path,
        application: &Application,
        folder: &Path,
        quick: bool,
    ) -> Result<(), Box<dyn Error>> {
        let name = application.name;
        let mut command = Command::new(&self.transpute);
        command.args(["testbed", "programs"]);
        command.arg(root.join(format!("examples/applications/{name}/testbed.toml")));
        command
            .arg("--results")
            .arg(folder.join(format!("{name}.jsonl")));
        if quick {
            command.arg("--quick");
        }
        succeed(command.env("PATH", &self.path))
    }
}

/// Builds a workspace in the release profile. Returns the folder with the built programs.
fn build(workspace: &Path, what: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    succeed(
        cargo
            .current_dir(workspace)
            .args(["build", "--release"])
            .args(what),
    )?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from);
    Ok(fs::canonicalize(target.join("release"))?)
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{}: {status}", command.get_program().display()).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use transpute_testbed::programs::{Form, Plan};

    use super::*;

    #[test]
    fn every_plan_is_valid_and_its_quick_form_smaller() {
        for application in &APPLICATIONS {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(application.name)
                .join("testbed.toml");
            let plan = Plan::open(&path).unwrap();
            let runs = |form| -> u64 {
                let cells = plan.cells(form);
                cells.iter().map(|cell| u64::from(cell.repetitions)).sum()
            };
            assert!(runs(Form::Quick) < runs(Form::Full), "{}", application.name);
        }
    }

    #[test]
    fn applications_are_found_by_name() {
        assert_eq!(choose(&[]).unwrap().len(), APPLICATIONS.len());
        assert_eq!(choose(&["survey"]).unwrap()[0].name, "survey");
        let error = choose(&["survey", "surf"]).err().unwrap().to_string();
        assert!(
            error.contains("\"surf\"") && error.contains("forecast"),
            "{error}"
        );
    }
}
