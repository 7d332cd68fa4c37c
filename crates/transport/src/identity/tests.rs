//! Tests of keys, key files and fingerprints.

use std::fs;

use sha2::{Digest, Sha256};
use tempfile::tempdir;

use super::*;

/// The example key of RFC 8410, section 10.3, and its public key (section 10.1).
const RFC_8410_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
const RFC_8410_PUBLIC: [u8; 44] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00, 0x19, 0xbf, 0x44, 0x09,
    0x69, 0x84, 0xcd, 0xfe, 0x85, 0x41, 0xba, 0xc1, 0x67, 0xdc, 0x3b, 0x96, 0xc8, 0x50, 0x86, 0xaa,
    0x30, 0xb6, 0xb6, 0xcb, 0x0c, 0x5c, 0x38, 0xad, 0x70, 0x31, 0x66, 0xe1,
];

fn put(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    #[cfg(not(unix))]
    let _ = mode;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn reads_the_rfc_8410_key() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("key");
    put(&path, RFC_8410_KEY, 0o600);
    let identity = Identity::load(&path).unwrap();
    assert_eq!(
        identity.fingerprint(),
        Fingerprint::of_public_key(&RFC_8410_PUBLIC)
    );
    // Output of `openssl pkey -pubout -outform der | sha256sum` for the same key.
    assert_eq!(
        identity.fingerprint().to_string(),
        "sha256:a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f"
    );
    let copy = directory.path().join("copy");
    identity.save(&copy).unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), RFC_8410_KEY);
}

#[test]
fn the_certificate_is_a_function_of_the_key() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("key");
    let made = Identity::load_or_create(&path).unwrap();
    let read = Identity::load_or_create(&path).unwrap();
    assert_eq!(made.fingerprint(), read.fingerprint());
    assert_eq!(made.certified().cert, read.certified().cert);
    assert_ne!(
        made.fingerprint(),
        Identity::generate().unwrap().fingerprint()
    );
    let certified = made.certified();
    let parsed = rustls::server::ParsedCertificate::try_from(&certified.cert[0]).unwrap();
    assert_eq!(
        Fingerprint::of_public_key(&parsed.subject_public_key_info()),
        made.fingerprint()
    );
}

#[cfg(unix)]
#[test]
fn key_files_are_private_and_never_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempdir().unwrap();
    let path = directory.path().join("key");
    let identity = Identity::load_or_create(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert!(matches!(
        Identity::generate().unwrap().save(&path),
        Err(IdentityError::Exists { .. })
    ));
    assert_eq!(
        Identity::load(&path).unwrap().fingerprint(),
        identity.fingerprint()
    );
    let names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["key"], "no draft is left behind");
    for mode in [0o640, 0o604, 0o620, 0o601] {
        put(&path, RFC_8410_KEY, mode);
        assert!(
            matches!(Identity::load(&path), Err(IdentityError::Permissions { mode: got, .. }) if got == mode)
        );
    }
}

#[test]
fn concurrent_creators_agree() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("key");
    let fingerprints: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Identity::load_or_create(&path).unwrap().fingerprint()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(fingerprints.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn refuses_what_is_no_key() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("key");
    assert!(matches!(
        Identity::load(&path),
        Err(IdentityError::Read { .. })
    ));
    assert!(matches!(
        Identity::load(directory.path()),
        Err(IdentityError::NotAFile { .. })
    ));
    assert!(matches!(
        Identity::load_or_create(directory.path().join("missing/key")),
        Err(IdentityError::Write { .. })
    ));
    put(&path, "hello", 0o600);
    assert!(matches!(
        Identity::load(&path),
        Err(IdentityError::Format { .. })
    ));
    put(&path, &"x".repeat(20_000), 0o600);
    assert!(matches!(
        Identity::load(&path),
        Err(IdentityError::TooLarge { got: 20_000, .. })
    ));
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(
        Identity::load(&path),
        Err(IdentityError::Format { .. })
    ));
    // A P-256 key: well-formed PKCS#8 of the wrong algorithm.
    put(&path, P256_KEY, 0o600);
    assert!(matches!(
        Identity::load(&path),
        Err(IdentityError::Key { .. })
    ));
}

#[test]
fn debug_shows_the_fingerprint_only() {
    let identity = Identity::generate().unwrap();
    let shown = format!("{identity:?}");
    assert_eq!(
        shown,
        format!("Identity {{ fingerprint: {}, .. }}", identity.fingerprint())
    );
}

const P256_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg070MGHGEl/4r9lbL
1Js+C10t8AJoOrLX2eARGYTQgxmhRANCAATcJ7H9CeF3uzc65G8WzkoXOEBz3KrF
MeGu1RWHGVL5/3zqFm1MCE3Krth68AWJ8cdg9CNETsXSeaa4HjELG5TW
-----END PRIVATE KEY-----
";

/// The expected bytes were made with the crate `rcgen` 0.14.10, for the private key of 32 bytes 7.
#[test]
fn certificates_have_the_same_bytes_in_all_versions() {
    let pkcs8 = [&PKCS8_HEADER[..], &[7; 32]].concat();
    let identity = Identity::from_pkcs8(Zeroizing::new(pkcs8)).unwrap();
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let digest = |message: &[u8]| {
        let certified = identity.saying(message).unwrap().certified();
        hex(&Sha256::digest(&certified.cert[0]))
    };
    assert_eq!(hex(&identity.certified().cert[0]), PLAIN_CERTIFICATE);
    assert_eq!(
        digest(b"message"),
        "0b144ed9cf269a6a86e6e8de9dfdc4bfa49794ff11310d3b8c22cdcd1f9d0a2d"
    );
    assert_eq!(
        digest(&[9; 300]),
        "8cfa729aa60a08195d236ca225c03e9ba6aa7809c684a6d75ac855174206b09b"
    );
}

const PLAIN_CERTIFICATE: &str = "\
    3081d6308189a003020102020101300506032b657030143112301006035504030c097472616e737075746530\
    20170d3735303130313030303030305a180f34303936303130313030303030305a3014311230100603550403\
    0c097472616e7370757465302a300506032b6570032100ea4a6c63e29c520abef5507b132ec5f9954776aebe\
    be7b92421eea691446d22c300506032b65700341004ebe4bc3213de78f173df78bf4695cef37b93d7b5af11a\
    eac67ab40f721b08e01b944133d8bfaaac9984bcfb36c103eea024ff337b2de074a1d9fa88adfb840a\
";
