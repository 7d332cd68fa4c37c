//! Programs kept on disk, by what they were compiled from.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{Circuit, LoadError, Program};

/// Changes when the same circuit is compiled to another program.
const COMPILER: &[u8] = b"transpute program cache 2";

/// A folder of compiled programs, each in a file named by the digest of its source.
///
/// A program is checked when it is read, and compiled anew if it is damaged. Whoever can write to the folder can give this party
/// another program; its digest is compared with the peer's in every session.
#[derive(Clone, Debug)]
pub struct ProgramCache {
    folder: PathBuf,
}

/// What a program was compiled from: the digest of a circuit file, or of the name of a built-in circuit.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct SourceKey([u8; 32]);

/// A program could not be kept or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The file or the folder cannot be used.
    #[error("cannot use {path:?} as a cache of programs")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file has something else.
    #[error("{path:?} is no compiled program")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: LoadError,
    },
}

impl SourceKey {
    /// Returns the key of a program that is compiled from these bytes: a circuit file, or what names a circuit for good.
    #[must_use]
    pub fn of(source: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(COMPILER).update(source);
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceKey({self})")
    }
}

impl ProgramCache {
    /// Uses a folder, which need not exist yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Returns the file of a program.
    #[must_use]
    pub fn path(&self, key: &SourceKey) -> PathBuf {
        self.folder.join(format!("{key}.program"))
    }

    /// Reads a program; `None` if it is not there.
    ///
    /// # Errors
    /// [`CacheError`], of a file that cannot be read or is damaged.
    pub fn load(&self, key: &SourceKey) -> Result<Option<Program>, CacheError> {
        let path = self.path(key);
        let read = File::open(&path).and_then(|file| {
            let length = file.metadata()?.len();
            Program::read(file, length)
        });
        match read {
            Ok(Ok(program)) => Ok(Some(program)),
            Ok(Err(source)) => Err(CacheError::Content { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CacheError::File { path, source }),
        }
    }

    /// Keeps a program, whole or not at all.
    ///
    /// # Errors
    /// [`CacheError::File`].
    pub fn store(&self, key: &SourceKey, program: &Program) -> Result<(), CacheError> {
        let path = self.path(key);
        let stored = fs::create_dir_all(&self.folder).and_then(|()| {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&program.to_bytes())?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        });
        stored.map_err(|source| CacheError::File { path, source })
    }

    /// Returns the program of a source: the one kept, or else the one compiled from the circuit that `make` makes, which is kept
    /// then. The second value is what went wrong with the cache, which is no reason to do without the program.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn program<E>(
        &self,
        key: &SourceKey,
        make: impl FnOnce() -> Result<Circuit, E>,
    ) -> Result<(Program, Option<CacheError>), E> {
        let problem = match self.load(key) {
            Ok(Some(program)) => return Ok((program, None)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let program = Program::compile(&make()?);
        let stored = self.store(key, &program).err();
        Ok((program, stored.or(problem)))
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn a_program_is_compiled_once_and_again_when_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path().join("programs"));
        let key = SourceKey::of(b"mul:8");
        assert_ne!(key, SourceKey::of(b"mul:9"));
        let mut made = 0;
        let mut get = || {
            let program = cache.program(&key, || {
                made += 1;
                catalogue::named("mul:8")
            });
            let (program, problem) = program.unwrap();
            (*program.digest(), problem, made)
        };
        let (digest, problem, _) = get();
        assert!(problem.is_none());
        let (again, problem, made) = get();
        assert!(again == digest && problem.is_none() && made == 1);
        let mut bytes = fs::read(cache.path(&key)).unwrap();
        bytes[100] ^= 1;
        fs::write(cache.path(&key), &bytes).unwrap();
        assert!(matches!(cache.load(&key), Err(CacheError::Content { .. })));
        let (again, problem, made) = get();
        assert!(again == digest && problem.is_some() && made == 2);
        assert!(get().1.is_none(), "it was replaced");
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_used_costs_no_program() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = ProgramCache::new(file.path());
        let key = SourceKey::of(b"mul:8");
        let program = cache.program(&key, || catalogue::named("mul:8"));
        assert!(matches!(program.unwrap().1, Some(CacheError::File { .. })));
    }
}
