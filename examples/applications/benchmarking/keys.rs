//! A folder of keys for everybody: to try it out on one machine. In earnest, each party makes its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use transpute::{Fingerprint, Identity, Role};

use crate::failure::Failure;

/// Makes what is not there yet: a key for each server and company, the servers' fingerprints in `garbler.id` and
/// `evaluator.id`, and the list of companies in `companies.txt`.
///
/// # Errors
/// [`Failure::Identity`], [`Failure::File`].
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

/// Reads the keys of the first companies of such a folder.
///
/// # Errors
/// [`Failure::Identity`].
pub(crate) fn companies(folder: &Path, count: usize) -> Result<Vec<Identity>, Failure> {
    let load = |number| Ok(Identity::load(company(folder, number))?);
    (1..=count).map(load).collect()
}

/// Reads the fingerprint of a server in such a folder.
///
/// # Errors
/// [`Failure::File`]; [`Failure::Content`].
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
