//! Tests of the history: paging, counting, deleting, damaged files and permissions.

use transpute_testbed::report::fixture::record;

use super::*;

fn run(transport: &str, number: u64) -> Run {
    let mut run = Run::of_record(&record("aes128", "eu-us", number as f64), "aes128");
    run.transport = transport.to_owned();
    run.started_unix_ms = number;
    run
}

fn filled(folder: &Path, count: u64) -> Store {
    let store = Store::open(folder).unwrap();
    let runs: Vec<_> = (0..count)
        .map(|number| run(["tcp", "quic"][number as usize % 2], number))
        .collect();
    let pairs: Vec<_> = runs.iter().map(|run| (run, "{\"row\":null}")).collect();
    store.add_all(&pairs).unwrap();
    store
}

#[test]
fn pages_contain_every_run_once_while_runs_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 1000);
    let quic = Filter::parse(&mut Params::of([("transport", "quic")])).unwrap();
    assert_eq!(store.count(&quic).unwrap(), 500);
    for (order, filter) in [
        (Order::Newest, &Filter::default()),
        (Order::Oldest, &quic),
        (Order::Newest, &quic),
    ] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = store.page(filter, order, after, 70).unwrap();
            seen.extend(page.runs.iter().map(|run| run.started_unix_ms));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
            if order == Order::Newest {
                store.add(&run("tcp", 5000), "{}").unwrap();
            }
        }
        let mut expected: Vec<u64> = (0..1000)
            .filter(|n| filter != &quic || n % 2 == 1)
            .collect();
        seen.retain(|&number| number < 1000);
        if order == Order::Newest {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_history_persists_and_is_locked_by_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 3);
    let locked = Store::open(folder.path());
    assert!(matches!(locked, Err(StoreError::Locked { .. })));
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.count(&Filter::default()).unwrap(), 3);
    let detailed = store.detailed(2).unwrap().unwrap();
    assert_eq!((detailed.run.id, detailed.run.started_unix_ms), (2, 1));
    assert_eq!(detailed.detail, "{\"row\":null}");
    assert!(store.detailed(99).unwrap().is_none());
}

#[test]
fn runs_are_deleted_only_if_their_count_is_as_expected() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 10);
    let quic = Filter::parse(&mut Params::of([("transport", "quic")])).unwrap();
    assert_eq!(store.delete(&quic, Some(4)).unwrap(), Err(5));
    assert_eq!(store.count(&quic).unwrap(), 5);
    assert_eq!(store.delete(&quic, Some(5)).unwrap(), Ok(5));
    let two = Filter::of_ids(vec![1, 3, 2]);
    assert_eq!(store.delete(&two, None).unwrap(), Ok(2));
    assert_eq!(store.count(&Filter::default()).unwrap(), 3);
    // Deleting runs deletes their details.
    let left = store.details(&Filter::default(), None, 100).unwrap();
    assert_eq!(left.len(), 3);
    // Numbers are not reused.
    assert_eq!(store.add(&run("tcp", 1), "{}").unwrap(), 11);
}

#[test]
fn facets_count_the_runs_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), 5);
    let facets = store.facet(&Filter::default(), Column::Transport).unwrap();
    let counts: Vec<_> = (facets.iter())
        .map(|facet| (facet.value.as_str(), facet.runs))
        .collect();
    assert_eq!(counts, [("tcp", 3), ("quic", 2)]);
}

#[test]
fn damaged_and_foreign_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    std::fs::write(&path, "this is not a database\n".repeat(50)).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("move it away"), "{error}");

    std::fs::remove_file(&path).unwrap();
    filled(folder.path(), 200);
    // A page in the middle of the file is overwritten.
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    std::fs::remove_file(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute("CREATE TABLE songs (name TEXT)", []).unwrap();
    drop(other);
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    std::fs::remove_file(&path).unwrap();
    drop(filled(folder.path(), 1));
    let later = Connection::open(&path).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    drop(later);
    let error = Store::open(folder.path()).unwrap_err();
    assert!(
        matches!(error, StoreError::NewerFormat { found: 99, .. }),
        "{error}"
    );
}

#[test]
fn only_this_user_has_access_to_a_history() {
    use std::{fs, os::unix::fs::PermissionsExt};

    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let database = folder.join(FILE);
    drop(Store::open(&folder).unwrap());
    // The umask can only remove permission bits.
    assert_eq!((mode(&folder), mode(&database)), (0o700, 0o600));
    for (name, bits) in [(FILE, 0o644), (LOCK, 0o666)] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(bits)).unwrap();
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let store = Store::open(&folder).unwrap();
    store.add(&run("tcp", 1), "{}").unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    for bits in [0o770, 0o757, 0o720] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(bits)).unwrap();
        let error = Store::open(&folder).unwrap_err();
        assert!(
            matches!(&error, StoreError::Writable { path, mode } if *path == folder && *mode == bits),
            "{error}"
        );
    }
}
