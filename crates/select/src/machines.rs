//! How fast machines compute, kept from one run to the next.

use std::{fs::DirBuilder, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Machine, SelectError, files};

/// How many figures are kept: those that were measured first go first.
const MAX_ENTRIES: usize = 64;

/// The longest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 17;

/// The longest part of a key that is kept, in bytes.
const MAX_KEY: usize = 256;

const FORMAT: u32 = 1;

/// What figures belong to: they hold for nothing else.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MachineKey {
    /// The model of the processor. A folder may be shared by several machines.
    pub processor: String,
    /// The version of what computes.
    pub version: String,
    /// The garbling scheme.
    pub scheme: String,
}

/// Figures by what they belong to.
#[derive(Clone, Debug, Default)]
pub struct MachineCache {
    /// The last measured last.
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Entry {
    #[serde(flatten)]
    key: MachineKey,
    figures: Machine,
}

/// [`MachineCache`] in a file.
#[derive(Deserialize, Serialize)]
struct Written {
    format: u32,
    machines: Vec<Entry>,
}

impl MachineCache {
    /// Reads a cache. A file that is not there is an empty one; one that cannot be understood, or has a figure that no machine
    /// has, is too, with a warning: to measure again costs a few milliseconds.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        match read(path) {
            Ok(machines) => {
                let mut cache = Self { entries: machines };
                cache.entries.retain(|entry| entry.key.is_plain());
                cache.bound();
                cache
            }
            Err(problem) => {
                tracing::warn!(path = %path.display(), problem, "ignoring the file of how fast this machine computes");
                Self::default()
            }
        }
    }

    /// Writes the cache, whole or not at all. Folders on the way are made, for this user alone.
    ///
    /// Two processes that do so at once do not damage the file; what one of them measured is lost.
    ///
    /// # Errors
    /// [`SelectError::File`].
    pub fn save(&self, path: &Path) -> Result<(), SelectError> {
        let written = Written {
            format: FORMAT,
            machines: self.entries.clone(),
        };
        if let Some(folder) = path.parent().filter(|name| !name.as_os_str().is_empty()) {
            let mut builder = DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder).map_err(|source| SelectError::File {
                path: folder.to_owned(),
                source,
            })?;
        }
        files::replace_json(path, &written)
    }

    /// Keeps figures in the place of older ones. Those that no machine has, and those with a key that is too long or has control
    /// characters, are not kept.
    pub fn put(&mut self, key: MachineKey, figures: Machine) {
        if !key.is_plain() || figures.checked().is_err() {
            return;
        }
        self.entries.retain(|entry| entry.key != key);
        self.entries.push(Entry { key, figures });
        self.bound();
    }

    /// Returns the figures that belong to the key.
    #[must_use]
    pub fn get(&self, key: &MachineKey) -> Option<Machine> {
        let found = self.entries.iter().rev().find(|entry| entry.key == *key);
        found.map(|entry| entry.figures)
    }

    /// Returns how many figures there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn bound(&mut self) {
        let beyond = self.entries.len().saturating_sub(MAX_ENTRIES);
        self.entries.drain(..beyond);
    }
}

impl MachineKey {
    fn is_plain(&self) -> bool {
        let parts = [&self.processor, &self.version, &self.scheme];
        (parts.iter()).all(|part| part.len() <= MAX_KEY && !part.contains(char::is_control))
    }
}

/// Returns what is in a file, nothing of one that is not there, or what is wrong with it.
fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let Some(text) = files::read(path, MAX_FILE_BYTES)? else {
        return Ok(Vec::new());
    };
    match serde_json::from_str(&text) {
        Ok(Written {
            format: FORMAT,
            machines,
        }) => Ok(machines),
        Ok(Written { format, .. }) => Err(format!("its format is {format}, not {FORMAT}")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(processor: &str, scheme: &str) -> MachineKey {
        MachineKey {
            processor: processor.into(),
            version: "1".into(),
            scheme: scheme.into(),
        }
    }

    #[test]
    fn figures_are_those_of_their_key_and_survive_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/for/it/machine.json");
        assert!(MachineCache::load(&file).is_empty());
        let mut cache = MachineCache::default();
        let mut slow = Machine::TYPICAL;
        slow.garble_and_s = 1e-6;
        cache.put(key("old", "prf"), slow);
        cache.put(key("new", "prf"), slow);
        cache.put(key("new", "prf"), Machine::TYPICAL);
        cache.save(&file).unwrap();
        let cache = MachineCache::load(&file);
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.get(&key("old", "prf")), Some(slow));
        assert_eq!(cache.get(&key("new", "prf")), Some(Machine::TYPICAL));
        assert_eq!(cache.get(&key("new", "half-gates")), None);
        let other_version = MachineKey {
            version: "2".into(),
            ..key("new", "prf")
        };
        assert_eq!(cache.get(&other_version), None);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let made = std::fs::metadata(folder.path().join("made")).unwrap();
            assert_eq!(made.permissions().mode() & 0o077, 0);
        }
    }

    #[test]
    fn no_more_than_a_bounded_number_is_kept() {
        let mut cache = MachineCache::default();
        for number in 0..100 {
            cache.put(key(&number.to_string(), "prf"), Machine::TYPICAL);
        }
        assert_eq!(cache.len(), MAX_ENTRIES);
        assert!(cache.get(&key("35", "prf")).is_none());
        assert!(cache.get(&key("36", "prf")).is_some());
        cache.put(key(&"x".repeat(MAX_KEY + 1), "prf"), Machine::TYPICAL);
        cache.put(key("a\nb", "prf"), Machine::TYPICAL);
        let mut wrong = Machine::TYPICAL;
        wrong.xor_s = 0.0;
        cache.put(key("wrong", "prf"), wrong);
        assert_eq!(cache.len(), MAX_ENTRIES);
        assert!(cache.get(&key("99", "prf")).is_some());
        // What is kept at most can be read again.
        let mut full = MachineCache::default();
        for number in 0..MAX_ENTRIES {
            let long = format!("{number:0>MAX_KEY$}");
            full.put(key(&long, &long), Machine::TYPICAL);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.json");
        full.save(&file).unwrap();
        assert_eq!(MachineCache::load(&file).len(), MAX_ENTRIES);
    }

    #[test]
    fn files_that_are_none_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.json");
        let mut cache = MachineCache::default();
        cache.put(key("cpu", "prf"), Machine::TYPICAL);
        cache.save(&file).unwrap();
        let good = std::fs::read_to_string(&file).unwrap();
        for bad in [
            String::new(),
            good[..good.len() - 1].to_owned(),
            good.replace("\"format\":1", "\"format\":2"),
            good.replace("1.3e-8", "-1.3e-8"),
            good.replace("1.3e-8", "1e999"),
            good.clone() + &" ".repeat(MAX_FILE_BYTES as usize),
        ] {
            assert_ne!(bad, good);
            std::fs::write(&file, &bad).unwrap();
            assert!(MachineCache::load(&file).is_empty(), "{bad:.200}");
        }
        std::fs::write(&file, [0xff; 10]).unwrap();
        assert!(MachineCache::load(&file).is_empty());
        // A folder is no file.
        assert!(MachineCache::load(folder.path()).is_empty());
        assert!(cache.save(folder.path()).is_err());
    }
}
