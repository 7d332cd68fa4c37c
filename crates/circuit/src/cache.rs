//! A cache of compiled programs on disk.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use thiserror::Error;

use crate::{Circuit, LoadError, Program};

/// Version of the compiler, hashed into every [`SourceKey`]. Change it with every change of the
/// compiler after which a circuit compiles to a different program.
const COMPILER: &[u8] = b"transpute program cache 2";

/// A directory of compiled programs. Each program has one file, named after its [`SourceKey`].
///
/// A program is checked when it is read, and recompiled if its file is damaged. The directory must
/// be trusted, because a forged file can contain another valid program. A session detects such a
/// program, because both parties compare the digests of their programs.
#[derive(Clone, Debug)]
pub struct ProgramCache {
    folder: PathBuf,
}

/// The key of a program in the cache: a digest of the circuit file from which the program was
/// compiled, or of the name of the built-in circuit.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct SourceKey([u8; 32]);

/// The reason why the cache could not store or load a program.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A program's file cannot be read or written, or its directory cannot be created.
    #[error("cannot use {path:?} as a program cache")]
    File {
        /// The path of the program's file.
        path: PathBuf,
        /// The I/O error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// A program's file is not a valid compiled program.
    #[error("{path:?} is not a valid compiled program")]
    Content {
        /// The path of the program's file.
        path: PathBuf,
        /// The reason why the content of the file is not valid.
        #[source]
        source: LoadError,
    },
}

impl SourceKey {
    /// Returns the key of the program compiled from `source`, which is the bytes of a circuit file
    /// or the name of a built-in circuit.
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
    /// Returns a cache in a directory. [`store`](Self::store) creates the directory if necessary.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Returns the path at which the cache stores the program of a key.
    #[must_use]
    pub fn path(&self, key: &SourceKey) -> PathBuf {
        self.folder.join(format!("{key}.program"))
    }

    /// Loads the program of a key, or returns `None` if the cache has no file for the key.
    ///
    /// # Errors
    /// Returns [`CacheError`] if the program's file cannot be read or is damaged.
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

    /// Stores a program atomically: a concurrent [`load`](Self::load) never sees a part of its
    /// file.
    ///
    /// # Errors
    /// Returns [`CacheError::File`] if the directory cannot be created or the file not be written.
    pub fn store(&self, key: &SourceKey, program: &Program) -> Result<(), CacheError> {
        let path = self.path(key);
        let stored = fs::create_dir_all(&self.folder).and_then(|()| {
            let (new, mut file) = self.temporary_file()?;
            let written = file
                .write_all(&program.to_bytes())
                .and_then(|()| fs::rename(&new, &path));
            if written.is_err() {
                // If the removal fails too, the caller gets the first error. `load` never reads a
                // temporary file.
                let _ = fs::remove_file(&new);
            }
            written
        });
        stored.map_err(|source| CacheError::File { path, source })
    }

    /// Returns the program from the cache. If it is missing or damaged, compiles the circuit that
    /// `make` returns and stores the program. The second value is the error of loading or storing,
    /// if one of them failed. The program is valid even then.
    ///
    /// # Errors
    /// Returns the error of `make` if `make` fails.
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

    /// Creates a temporary file in the directory of the cache. Only the owner may access it (mode
    /// 0600 on Unix).
    fn temporary_file(&self) -> io::Result<(PathBuf, File)> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let call = CALLS.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!(".{}-{call}.new", process::id()));
            match options.open(&path) {
                // An earlier process with the same process ID was killed and left this file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (path, file)),
            }
        }
    }

    /// Returns the directory of the cache.
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
    fn a_failed_store_leaves_no_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path());
        let circuit = catalogue::named("add:8").unwrap();
        let key = SourceKey::of(b"add:8");
        // A program cannot replace a directory.
        fs::create_dir_all(cache.path(&key)).unwrap();
        let stored = cache.store(&key, &Program::compile(&circuit));
        assert!(matches!(stored, Err(CacheError::File { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_access_a_stored_program() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path());
        let key = SourceKey::of(b"add:8");
        let circuit = catalogue::named("add:8").unwrap();
        cache.store(&key, &Program::compile(&circuit)).unwrap();
        let mode = fs::metadata(cache.path(&key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_program_is_recompiled_only_if_its_file_is_damaged() {
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
    fn an_unusable_directory_does_not_prevent_compilation() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = ProgramCache::new(file.path());
        let key = SourceKey::of(b"mul:8");
        let program = cache.program(&key, || catalogue::named("mul:8"));
        assert!(matches!(program.unwrap().1, Some(CacheError::File { .. })));
    }
}
