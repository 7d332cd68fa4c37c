//! Writes a report as a folder of files.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    chart::{PngError, png},
    figures, hosts_tables, tables,
};
use crate::{record::RunRecord, runner::hosts::HostsRecord};

/// The reason why a report cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file cannot be written.
    #[error("{}: cannot write the report", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There are no records.
    #[error("there are no records to report")]
    Empty,
    /// A chart cannot be converted to PNG.
    #[error("{name}.png: cannot draw the chart")]
    Png {
        /// The name of the chart.
        name: String,
        /// The error of the conversion to PNG.
        source: PngError,
    },
}

/// Writes a report into a folder: all tables (CSV) and charts (SVG and PNG) for which the records
/// have data, and `report.md`, which contains all of them. Creates the folder. Overwrites files of
/// an older report. Returns the paths of the written files. Records of runs between two real hosts
/// have tables only.
///
/// # Errors
/// Returns an error if there are no records, a file cannot be written, or this machine has no font
/// for PNG.
pub fn write(
    records: &[RunRecord],
    hosts: &[HostsRecord],
    folder: &Path,
) -> Result<Vec<PathBuf>, ReportError> {
    if records.is_empty() && hosts.is_empty() {
        return Err(ReportError::Empty);
    }
    fs::create_dir_all(folder).map_err(|source| ReportError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let mut files = Files {
        folder,
        written: Vec::new(),
    };
    let mut text =
        "# Results of the testbed\n\nWritten by `transpute testbed report`; how to read \
                    it is in docs/testbed.md.\n"
            .to_owned();
    for (name, table) in tables(records).into_iter().chain(hosts_tables(hosts)) {
        files.write(&format!("{name}.csv"), table.csv().as_bytes())?;
        let _ = write!(text, "\n## {}\n\n{}", table.title(), table.markdown());
    }
    for (name, figure) in figures(records) {
        let svg = figure.svg();
        files.write(&format!("{name}.svg"), svg.as_bytes())?;
        let pixels = png(&svg).map_err(|source| ReportError::Png {
            name: name.clone(),
            source,
        })?;
        files.write(&format!("{name}.png"), &pixels)?;
        let _ = write!(text, "\n## {}\n\n![{0}]({name}.svg)\n", figure.title);
    }
    files.write("report.md", text.as_bytes())?;
    Ok(files.written)
}

struct Files<'a> {
    folder: &'a Path,
    written: Vec<PathBuf>,
}

impl Files<'_> {
    fn write(&mut self, name: &str, content: &[u8]) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        fs::write(&path, content).map_err(|source| ReportError::Write {
            path: path.clone(),
            source,
        })?;
        self.written.push(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    #[test]
    fn a_report_names_all_its_files() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep/down");
        let records = [
            record("aes128", "eu-us", 120.0),
            record("aes128", "eu-aus", 310.0),
        ];
        let files = match write(&records, &[], &folder) {
            Err(ReportError::Png {
                source: PngError::NoFont,
                ..
            }) => return,
            other => other.unwrap(),
        };
        let names: Vec<_> = files
            .iter()
            .map(|file| file.file_name().unwrap().to_str().unwrap())
            .collect();
        for name in [
            "runtimes.csv",
            "runtime-rtt.svg",
            "resources-rtt.png",
            "report.md",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let text = fs::read_to_string(folder.join("report.md")).unwrap();
        for name in names.iter().filter(|name| name.ends_with(".svg")) {
            assert!(
                text.contains(&format!("]({name})")),
                "{name} is not in the report"
            );
        }
        assert!(
            text.contains("| aes128, tcp, half-gates, eu-us |"),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(
            write(&[], &[], place.path()),
            Err(ReportError::Empty)
        ));
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let error = write(&[record("aes128", "eu-us", 1.0)], &[], &file).unwrap_err();
        assert!(
            error.to_string().ends_with("file: cannot write the report"),
            "{error}"
        );
    }
}
