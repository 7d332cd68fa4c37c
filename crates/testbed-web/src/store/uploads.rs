//! Uploaded circuits: files named by their digest, with their labels and sizes in the history.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use thiserror::Error;
use transpute::circuit::hex;

use super::{Store, StoreError};
use crate::predictor::CircuitFacts;

/// The name of the folder of uploads.
const FOLDER: &str = "circuits";

/// Number of hexadecimal digits of a SHA-256 digest.
const DIGEST_DIGITS: usize = 64;

/// Maximum number of uploads.
const MAX_UPLOADS: i64 = 500;

/// Maximum total size of all uploads, in bytes.
const MAX_BYTES: i64 = 2 << 30;

/// The reason why an upload cannot be stored.
#[derive(Debug, Error)]
pub(crate) enum UploadError {
    /// The limit on the number or the size of uploads is reached.
    #[error(
        "at most {MAX_UPLOADS} circuits of {MAX_BYTES} bytes in total can be stored; delete some"
    )]
    Full,
    /// The folder cannot be used.
    #[error("cannot store the circuit")]
    File(#[source] io::Error),
    /// The history cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An uploaded circuit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Upload {
    pub(crate) digest: String,
    pub(crate) label: String,
    pub(crate) facts: CircuitFacts,
}

impl Store {
    /// Returns the SHA-256 digest of a file's content, in hexadecimal digits.
    pub(crate) fn digest(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    /// Returns the path of the circuit with this digest. Returns `None` for any other text, so that
    /// a request cannot name a path.
    pub(crate) fn upload_path(&self, digest: &str) -> Option<PathBuf> {
        let is_digest = digest.len() == DIGEST_DIGITS
            && (digest.bytes()).all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_digest.then(|| self.uploads_folder().join(format!("{digest}.txt")))
    }

    /// Writes an upload to a file, if the limits permit, and returns the path of the file.
    pub(crate) fn put_upload(&self, digest: &str, bytes: &[u8]) -> Result<PathBuf, UploadError> {
        let query = "SELECT count(*), ifnull(sum(bytes), 0) FROM uploads";
        let (count, sum) = (self
            .query_one(query, Vec::new(), |row| Ok((row.get(0)?, row.get(1)?)))?)
        .unwrap_or((0_i64, 0_i64));
        if count >= MAX_UPLOADS
            || sum.saturating_add(super::sql_integer(bytes.len() as u64)) > MAX_BYTES
        {
            return Err(UploadError::Full);
        }
        let path = (self.upload_path(digest))
            .ok_or_else(|| UploadError::File(io::ErrorKind::InvalidInput.into()))?;
        write_whole(&self.uploads_folder(), &path, bytes).map_err(UploadError::File)?;
        Ok(path)
    }

    /// Removes the file of an upload.
    pub(crate) fn drop_upload(&self, path: &Path) {
        // If removing fails, the next upload of the same content replaces the file.
        let _ = fs::remove_file(path);
    }

    /// Records the label and size of an upload whose file was written.
    pub(crate) fn keep_upload(&self, upload: &Upload, bytes: u64) -> Result<(), StoreError> {
        let facts = serde_json::to_string(&upload.facts).map_err(StoreError::Entry)?;
        let values = vec![
            upload.digest.clone().into(),
            upload.label.clone().into(),
            super::sql_integer(bytes).into(),
            facts.into(),
        ];
        let query =
            "INSERT OR REPLACE INTO uploads (digest, label, bytes, facts) VALUES (?, ?, ?, ?)";
        self.execute(query, values).map(drop)
    }

    /// Lists all uploads.
    pub(crate) fn uploads(&self) -> Result<Vec<Upload>, StoreError> {
        let query = "SELECT digest, label, facts FROM uploads ORDER BY label, digest";
        let found = self.query(query, Vec::new(), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
        })?;
        (found.into_iter())
            .map(|(digest, label, facts)| {
                let facts = serde_json::from_str(&facts).map_err(StoreError::Entry)?;
                Ok(Upload {
                    digest,
                    label,
                    facts,
                })
            })
            .collect()
    }

    /// Returns an upload, if the history contains it and its file exists.
    pub(crate) fn upload(&self, digest: &str) -> Result<Option<Upload>, StoreError> {
        let all = self.uploads()?;
        let has_file =
            |upload: &Upload| (self.upload_path(&upload.digest)).is_some_and(|path| path.is_file());
        Ok((all.into_iter()).find(|upload| upload.digest == digest && has_file(upload)))
    }

    /// Deletes an upload. Returns whether it existed.
    pub(crate) fn delete_upload(&self, digest: &str) -> Result<bool, StoreError> {
        let query = "DELETE FROM uploads WHERE digest = ?";
        let (deleted, _) = self.execute(query, vec![digest.to_owned().into()])?;
        if let Some(path) = self.upload_path(digest) {
            self.drop_upload(&path);
        }
        Ok(deleted > 0)
    }

    fn uploads_folder(&self) -> PathBuf {
        self.path.with_file_name(FOLDER)
    }
}

/// Writes a file atomically: a temporary file is renamed to its path.
fn write_whole(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_become_paths() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let digest = Store::digest(b"x");
        let path = store.upload_path(&digest).unwrap();
        assert_eq!(path.parent(), Some(&*folder.path().join(FOLDER)));
        for wrong in [
            "",
            "../../etc/passwd",
            &"/".repeat(64),
            &"A".repeat(64),
            &format!("{digest}0"),
            &digest[1..],
        ] {
            assert_eq!(store.upload_path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_upload_is_stored_once_and_can_be_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let digest = Store::digest(b"circuit");
        let path = store.put_upload(&digest, b"circuit").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"circuit");
        assert_eq!(store.upload(&digest).unwrap(), None);
        let upload = Upload {
            digest: digest.clone(),
            label: "mine".to_owned(),
            facts: CircuitFacts {
                and_gates: 1,
                xor_gates: 2,
                input_widths: vec![1, 1],
                output_widths: vec![1],
            },
        };
        for _ in 0..2 {
            store.keep_upload(&upload, 7).unwrap();
        }
        assert_eq!(store.uploads().unwrap(), vec![upload.clone()]);
        assert_eq!(store.upload(&digest).unwrap(), Some(upload));
        assert!(store.delete_upload(&digest).unwrap());
        assert!(!store.delete_upload(&digest).unwrap() && !path.exists());
    }
}
