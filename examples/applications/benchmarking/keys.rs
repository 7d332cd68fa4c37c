//! A folder with the keys of all parties, for trials on one machine. In production, each party
//! creates its own key and keeps it secret.

use std::{
    fs,
    path::{Path, PathBuf},
};

use transpute::{Fingerprint, Identity, Role};

use crate::failure::Failure;

/// Creates the key files of both servers and of `companies` companies that do not exist yet. Writes
/// the servers' fingerprints to `garbler.id` and `evaluator.id`, and those of the companies to
/// `companies.txt`.
///
/// # Errors
/// Returns [`Failure::Identity`] or [`Failure::File`] if a file cannot be read or written.
pub(crate) fn make(folder: &Path, companies: usize) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|source| at(folder, source))?;
    for role in [Role::Garbler, Role::Evaluator] {
        let identity = Identity::load_or_create(folder.join(format!("{role}.key")))?;
        write(
            &folder.join(format!("{role}.id")),
            &format!("{}\n", identity.fingerprint()),
        )?;
    }
    let mut list = String::new();
    for number in 1..=companies {
        let identity = Identity::load_or_create(company(folder, number))?;
        list += &format!("{} company {number}\n", identity.fingerprint());
    }
    write(&folder.join("companies.txt"), &list)
}

/// Reads the keys of the first `count` companies in the folder.
///
/// # Errors
/// Returns [`Failure::Identity`] if a key file is missing or invalid.
pub(crate) fn companies(folder: &Path, count: usize) -> Result<Vec<Identity>, Failure> {
    let load = |number| Ok(Identity::load(company(folder, number))?);
    (1..=count).map(load).collect()
}

/// Reads the fingerprint of a server in the folder.
///
/// # Errors
/// Returns [`Failure::File`] or [`Failure::Content`] if the file is missing or invalid.
pub(crate) fn server(folder: &Path, role: Role) -> Result<Fingerprint, Failure> {
    let path = folder.join(format!("{role}.id"));
    let text = fs::read_to_string(&path).map_err(|source| at(&path, source))?;
    (text.trim().parse()).map_err(|error| Failure::Content {
        problem: format!("{error}"),
        path,
    })
}

fn company(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("company-{number:04}.key"))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|source| at(path, source))
}

fn at(path: &Path, source: std::io::Error) -> Failure {
    Failure::File {
        path: path.to_owned(),
        source,
    }
}
