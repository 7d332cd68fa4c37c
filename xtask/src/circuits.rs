//! The circuit files of the repository, in Bristol Fashion, written by the project's generators.

use std::{error::Error, fs, io, path::Path};

use transpute_circuit::{
    bristol::{Format, WriteOptions},
    catalogue,
};

/// The circuits that are stored as files: small ones that other implementations have too.
const SPECS: [&str; 11] = [
    "aes128",
    "aes192",
    "aes256",
    "sha256",
    "add:32",
    "add:64",
    "mul:16",
    "mul:32",
    "div:16",
    "div:32",
    "millionaires:32",
];

/// Writes all circuit files.
pub(crate) fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = root.join("circuits");
    fs::create_dir_all(&folder)?;
    for spec in SPECS {
        fs::write(folder.join(file_name(spec)), content(spec)?)?;
    }
    Ok(())
}

/// Returns the files that are missing, outdated or unknown.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let folder = root.join("circuits");
    let mut complaints = Vec::new();
    for spec in SPECS {
        let name = file_name(spec);
        match fs::read(folder.join(&name)) {
            Ok(found) if found == content(spec)? => {}
            Ok(_) => complaints.push(format!("circuits/{name} is not current")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                complaints.push(format!("circuits/{name} is missing"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".txt") && !SPECS.iter().any(|spec| file_name(spec) == name) {
            complaints.push(format!(
                "circuits/{name} is not among the circuits to write"
            ));
        }
    }
    if !complaints.is_empty() {
        complaints.push("run `cargo xtask circuits`".into());
    }
    Ok(complaints)
}

fn file_name(spec: &str) -> String {
    format!("{}.txt", spec.replace(':', "_"))
}

fn content(spec: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    catalogue::named(spec)?.write(&mut bytes, Format::Fashion, &WriteOptions::default())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuit_files_are_current() {
        let complaints = check(&crate::root()).unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn circuit_files_stay_small() {
        let bytes: usize = SPECS.iter().map(|spec| content(spec).unwrap().len()).sum();
        assert!(bytes < 6_000_000, "{bytes} bytes");
    }
}
