//! `transpute id`.

use std::fs;

use crate::harness::transpute;

#[test]
fn a_new_identity_is_shown_by_its_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("me.key");
    let file = path.to_str().unwrap();
    let made = transpute(["id", "new", file]).expect(0);
    assert!(made.stdout.starts_with("sha256:"));
    assert_eq!(made.stdout.trim_end().len(), 7 + 64);
    assert_eq!(
        transpute(["id", "show", file]).expect(0).stdout,
        made.stdout
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    transpute(["id", "new", file]).fails(3, "--force");
    assert_eq!(
        transpute(["id", "show", file]).expect(0).stdout,
        made.stdout
    );

    let replaced = transpute(["id", "new", "--force", file]).expect(0);
    assert_ne!(replaced.stdout, made.stdout);
    assert_eq!(
        transpute(["id", "show", file]).expect(0).stdout,
        replaced.stdout
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn only_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    transpute(["id", "new", "--force", path]).expect(3);
    transpute(["id", "show", path]).expect(3);
    transpute(["id", "show", "/nowhere/key"]).fails(3, "/nowhere/key");
}
