//! Runs the published experiments over emulated paths with `transpute testbed`.
//!
//! The output directory gets a file of records per experiment, and a report of all records. An
//! interrupted reproduction continues where it stopped; to start from scratch, remove the
//! directory.

use std::{
    error::Error,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{cargo, succeed, target_folder};

/// Time limit of one run, in seconds. It is long because CUBIC needs minutes for 30 MB at 110 ms
/// and 1 % loss.
const TIMEOUT_SECONDS: &str = "900";

/// The flag that selects CUBIC, which the paper used. It is the default of Linux since 2.6.19, but
/// a machine may have another default.
const CUBIC: (&str, &str) = ("--congestion-control", "cubic");

/// An experiment: a matrix of testbed runs.
struct Experiment {
    name: &'static str,
    /// Flags of `transpute testbed run`.
    flags: &'static [(&'static str, &'static str)],
    /// Values of the quick form, which replace those in `flags` with the same name. The quick form
    /// of all experiments takes minutes, the full form an hour or more.
    quick: &'static [(&'static str, &'static str)],
}

/// The experiments. If the flags do not give the transport or the batch size, the default of
/// `transpute testbed run` applies.
const EXPERIMENTS: [Experiment; 10] = [
    // Table 3 of transputation-2020.
    Experiment {
        name: "grid",
        flags: &[
            CUBIC,
            ("--scenario", "lan,eu-us,eu-aus"),
            ("--circuits", "aes128,sha256,mincut"),
            ("--schemes", "fixed-key,half-gates,prf"),
            ("--repetitions", "10"),
        ],
        quick: &[("--repetitions", "2")],
    },
    // Figure 2 of transputation-2020.
    Experiment {
        name: "rtt",
        flags: &[
            CUBIC,
            ("--scenario", "eu-us"),
            ("--circuits", "aes128,sha256,mincut"),
            ("--rtt", "1,10,50,100,200,300"),
            ("--repetitions", "5"),
        ],
        quick: &[("--rtt", "1,50,100,300"), ("--repetitions", "2")],
    },
    // Figure 3 of transputation-2020, and Figures 3, 4 and 7 of maltitz-carle, with losses up to 10
    // %.
    Experiment {
        name: "loss",
        flags: &[
            CUBIC,
            ("--scenario", "eu-us"),
            ("--circuits", "aes128,sha256"),
            ("--loss", "0,0.0001,0.0005,0.001,0.01,0.05,0.1"),
            ("--repetitions", "10"),
        ],
        quick: &[("--loss", "0,0.0005,0.01"), ("--repetitions", "3")],
    },
    // The figures of the experiment `loss` for a large circuit, whose runs take minutes.
    Experiment {
        name: "loss-mincut",
        flags: &[
            CUBIC,
            ("--scenario", "eu-us"),
            ("--circuits", "mincut"),
            ("--loss", "0,0.0001,0.0005,0.01"),
            ("--repetitions", "3"),
        ],
        quick: &[("--loss", "0,0.0001"), ("--repetitions", "2")],
    },
    // Figure 8 of maltitz-carle.
    Experiment {
        name: "rate",
        flags: &[
            CUBIC,
            ("--scenario", "eu-us"),
            ("--circuits", "aes128,sha256"),
            ("--rate", "1,10,100,1000"),
            ("--repetitions", "5"),
        ],
        quick: &[("--rate", "10,100,1000"), ("--repetitions", "2")],
    },
    // Figures 9 to 13 of maltitz-carle, on a short path and on a long path.
    Experiment {
        name: "batch",
        flags: &[
            CUBIC,
            ("--scenario", "lan,eu-us"),
            ("--circuits", "aes128"),
            ("--batch", "1,10,100,1000"),
            ("--repetitions", "5"),
        ],
        quick: &[("--scenario", "eu-us"), ("--repetitions", "2")],
    },
    // The same function on increasing amounts of data.
    Experiment {
        name: "size",
        flags: &[
            CUBIC,
            ("--scenario", "lan,eu-us"),
            (
                "--circuits",
                "min-of-candidates:25x20,min-of-candidates:250x20,min-of-candidates:2500x20,\
                 min-of-candidates:25000x20,min-of-candidates:100000x20",
            ),
            ("--repetitions", "5"),
        ],
        quick: &[
            (
                "--circuits",
                "min-of-candidates:25x20,min-of-candidates:250x20,min-of-candidates:2500x20",
            ),
            ("--repetitions", "2"),
        ],
    },
    // All networks that come with the testbed.
    Experiment {
        name: "networks",
        flags: &[
            CUBIC,
            (
                "--scenario",
                "loopback,lan,us-us,eu-us,eu-aus,lossy-transatlantic,lossy-transatlantic-1pct,\
                 shallow-buffer,cross-traffic,5g,mobile,satellite,rebane-europe,rebane-global",
            ),
            ("--circuits", "aes128,sha256"),
            ("--repetitions", "5"),
        ],
        quick: &[("--circuits", "aes128"), ("--repetitions", "1")],
    },
    // Congestion controls of kernel TCP.
    Experiment {
        name: "congestion-control",
        flags: &[
            ("--scenario", "eu-us,eu-aus,lossy-transatlantic"),
            ("--circuits", "sha256,mincut"),
            ("--congestion-control", "cubic,bbr,reno"),
            ("--repetitions", "5"),
        ],
        quick: &[("--scenario", "eu-us,eu-aus"), ("--repetitions", "1")],
    },
    Experiment {
        name: "buffers",
        flags: &[
            CUBIC,
            ("--scenario", "eu-us,eu-aus"),
            ("--circuits", "mincut"),
            ("--socket-buffer", "262144,1048576,6291456,67108864"),
            ("--repetitions", "3"),
        ],
        quick: &[
            ("--scenario", "eu-us"),
            ("--socket-buffer", "1048576,6291456,67108864"),
            ("--repetitions", "2"),
        ],
    },
];

/// Runs all experiments and writes records and a report to `docs/results`, or to
/// `docs/results/quick` for the quick form.
pub(crate) fn reproduce(root: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let transpute = build(root)?;
    let folder = root.join(if quick {
        "docs/results/quick"
    } else {
        "docs/results"
    });
    fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for experiment in &EXPERIMENTS {
        let results = folder.join(format!("{}.jsonl", experiment.name));
        eprintln!("{}", experiment.name);
        let mut command = Command::new(&transpute);
        command.args(["testbed", "run", "--timeout", TIMEOUT_SECONDS, "--results"]);
        command.arg(&results).args(experiment.arguments(quick));
        succeed(&mut command)?;
        files.push(results);
    }
    let mut command = Command::new(&transpute);
    command.args([
        OsStr::new("testbed"),
        OsStr::new("report"),
        OsStr::new("--out"),
    ]);
    succeed(command.arg(&folder).args(files))
}

impl Experiment {
    /// Returns the arguments for the full or the quick form: each flag, followed by its value.
    fn arguments(&self, quick: bool) -> impl Iterator<Item = &'static str> {
        let instead = if quick { self.quick } else { &[] };
        self.flags.iter().flat_map(|(flag, value)| {
            let quick_value = instead.iter().find(|(other, _)| other == flag);
            [*flag, quick_value.map_or(*value, |(_, value)| *value)]
        })
    }
}

/// Builds the programs `transpute` and `transpute-testbed` in the release profile. Returns the path
/// of `transpute`.
pub(crate) fn build(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let packages = [
        "--package",
        "transpute-cli",
        "--package",
        "transpute-testbed-cli",
    ];
    succeed(cargo(root).args(["build", "--release"]).args(packages))?;
    Ok(fs::canonicalize(
        target_folder(root)?.join("release/transpute"),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_form_replaces_values_and_adds_no_flags() {
        for experiment in &EXPERIMENTS {
            let full: Vec<_> = experiment.arguments(false).collect();
            let quick: Vec<_> = experiment.arguments(true).collect();
            assert_eq!(full.len(), quick.len());
            assert_ne!(full, quick, "{}", experiment.name);
            for (flag, value) in experiment.quick {
                let place = quick.iter().position(|argument| argument == flag);
                let place = place.unwrap_or_else(|| panic!("{}: {flag}", experiment.name));
                assert_eq!(quick[place + 1], *value);
            }
        }
    }

    #[test]
    fn experiments_have_files_of_their_own() {
        let mut names: Vec<_> = EXPERIMENTS
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EXPERIMENTS.len());
    }
}
