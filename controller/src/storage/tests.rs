//! The store against what raft-rs demands of it.
#![allow(clippy::unwrap_used)]

use super::*;

fn entry(index: u64, term: u64) -> Entry {
    let mut entry = Entry::default();
    (entry.index, entry.term) = (index, term);
    entry.data = format!("{index}@{term}").into_bytes().into();
    entry
}

fn snapshot(index: u64, term: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.set_data(format!("image {index}").into_bytes().into());
    let meta = snapshot.mut_metadata();
    (meta.index, meta.term) = (index, term);
    meta.mut_conf_state().set_voters(vec![1]);
    snapshot
}

fn state(term: u64, commit: u64) -> HardState {
    let mut state = HardState::default();
    (state.term, state.commit) = (term, commit);
    state
}

fn store(dir: &Path) -> RaftStore {
    if !exists(dir) {
        RaftStore::create(dir, 1, &snapshot(1, 1)).unwrap();
    }
    RaftStore::open(dir, SyncMode::Normal).unwrap()
}

fn append(store: &mut RaftStore, entries: &[Entry], state: &HardState) {
    let persist = Persist { entries, hard_state: Some(state), ..Persist::default() };
    store.persist(&persist, true).unwrap();
}

fn all(store: &RaftStore) -> Vec<(u64, u64)> {
    store.entries().map(|entry| (entry.index, entry.term)).collect()
}

#[test]
fn a_new_log_starts_after_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert_eq!((store.first_index().unwrap(), store.last_index().unwrap()), (2, 1));
    assert_eq!(store.term(1).unwrap(), 1);
    assert_eq!(store.term(0), Err(StorageError::Compacted.into()));
    assert_eq!(store.term(2), Err(StorageError::Unavailable.into()));
    let initial = store.initial_state().unwrap();
    assert_eq!((initial.hard_state.commit, initial.conf_state.get_voters()), (1, &[1][..]));
}

#[test]
fn a_conflicting_tail_is_replaced_and_stays_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, &[entry(2, 1), entry(3, 1), entry(4, 1), entry(5, 1)], &state(1, 2));
    append(&mut log, &[entry(3, 2)], &state(2, 2));
    assert_eq!(all(&log), [(2, 1), (3, 2)]);
    drop(log);
    let log = store(dir.path());
    assert_eq!(all(&log), [(2, 1), (3, 2)]);
    assert_eq!(log.entry_bytes(), log.entries().map(weight).sum::<usize>());
    let read = Storage::entries(&log, 2, 4, None, GetEntriesContext::empty(false)).unwrap();
    assert_eq!(read, [entry(2, 1), entry(3, 2)]);
    let read = Storage::entries(&log, 2, 4, 1, GetEntriesContext::empty(false)).unwrap();
    assert_eq!(read.len(), 1, "at least one, whatever the limit");
}

#[test]
fn compaction_keeps_a_tail_and_the_term_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    let entries: Vec<Entry> = (2..=20).map(|index| entry(index, index / 5 + 1)).collect();
    append(&mut log, &entries, &state(5, 18));
    log.compact(&snapshot(15, 4), 4).unwrap();
    drop(log);
    let log = store(dir.path());
    assert_eq!((log.first_index().unwrap(), log.last_index().unwrap()), (12, 20));
    assert_eq!((log.term(11).unwrap(), log.term(15).unwrap(), log.term(20).unwrap()), (3, 4, 5));
    assert_eq!(Storage::snapshot(&log, 15, 2).unwrap(), snapshot(15, 4));
    let later = Storage::snapshot(&log, 16, 2);
    assert_eq!(later, Err(StorageError::SnapshotTemporarilyUnavailable.into()));
    let compacted = Storage::entries(&log, 11, 13, None, GetEntriesContext::empty(false));
    assert_eq!(compacted, Err(StorageError::Compacted.into()));
}

#[test]
fn an_installed_snapshot_replaces_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, &[entry(2, 1), entry(3, 1)], &state(1, 2));
    let (installed, hard_state) = (snapshot(50, 7), state(7, 50));
    let persist =
        Persist { snapshot: Some(&installed), entries: &[entry(51, 7)], hard_state: Some(&hard_state) };
    log.persist(&persist, true).unwrap();
    drop(log);
    let log = store(dir.path());
    assert_eq!((all(&log), log.first_index().unwrap(), log.term(50).unwrap()), (vec![(51, 7)], 51, 7));
}

#[test]
fn gaps_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    for index in [1, 3] {
        let entries = [entry(index, 1)];
        let persist = Persist { entries: &entries, ..Persist::default() };
        assert!(matches!(log.persist(&persist, true), Err(WriteError::Gap { .. })), "{index}");
    }
    assert!(all(&log).is_empty());
}

#[test]
fn a_log_that_ends_below_its_commit_index_or_floor_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, &[entry(2, 1)], &state(1, 3));
    drop(log);
    let opened = RaftStore::open(dir.path(), SyncMode::Normal);
    assert!(matches!(opened, Err(Damage::CommitAheadOfLog { commit: 3, last: 2 })), "{opened:?}");

    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, &[entry(2, 1)], &state(1, 2));
    log.floor.advance(Floor { commit: 3, term: 1 }).unwrap();
    drop(log);
    let opened = RaftStore::open(dir.path(), SyncMode::Normal);
    assert!(matches!(opened, Err(Damage::FloorAheadOfLog { commit: 3, last: 2, .. })), "{opened:?}");
}

#[test]
fn a_hole_in_the_log_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, &[entry(2, 1), entry(3, 1), entry(4, 1)], &state(1, 2));
    let mut batch = Batch::default();
    batch.delete_entries(3, 4);
    log.disk.write(batch, true).unwrap();
    drop(log);
    let opened = RaftStore::open(dir.path(), SyncMode::Normal);
    assert!(matches!(opened, Err(Damage::Gap { expected: 3, actual: 4, .. })), "{opened:?}");
}

#[test]
fn in_a_power_loss_test_only_synced_writes_reach_the_files() {
    let dir = tempfile::tempdir().unwrap();
    RaftStore::create(dir.path(), 1, &snapshot(1, 1)).unwrap();
    let mut log = RaftStore::open(dir.path(), SyncMode::PowerLossTest).unwrap();
    let lost = |from: &Path| {
        let copy = tempfile::tempdir().unwrap();
        for folder in [METADATA_DIR, "metadata/db"] {
            fs::create_dir_all(copy.path().join(folder)).unwrap();
            for file in fs::read_dir(from.join(folder)).unwrap().map(Result::unwrap) {
                if file.file_type().unwrap().is_file() {
                    fs::copy(file.path(), copy.path().join(folder).join(file.file_name())).unwrap();
                }
            }
        }
        all(&RaftStore::open(copy.path(), SyncMode::Normal).unwrap())
    };
    append(&mut log, &[entry(2, 1)], &state(1, 1));
    let entries = [entry(3, 1)];
    log.persist(&Persist { entries: &entries, ..Persist::default() }, false).unwrap();
    assert_eq!(all(&log), [(2, 1), (3, 1)]);
    assert_eq!(lost(dir.path()), [(2, 1)]);
    log.sync_all().unwrap();
    assert_eq!(lost(dir.path()), [(2, 1), (3, 1)]);
}
