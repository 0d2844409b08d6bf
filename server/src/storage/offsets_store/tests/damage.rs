//! Damaged files. Whatever happens to them, a partition comes up either with the fold of its log below `applied`, or empty
//! and ready to replay: never with anything else.

use std::path::PathBuf;

use super::*;

const PARTITIONS: u32 = 3;

/// A store as a crash leaves it: tables of several flushes and a log of writes. Returns the log of each partition too.
fn crashed_store(folder: &Path) -> (PathBuf, Vec<(Offset, Record)>) {
    let (path, image) = (folder.join("store"), folder.join("image"));
    let store = open(&path);
    let mut log = Vec::new();
    for round in 0..6u32 {
        let base = log.len() as u64;
        let mut records = vec![group_record(round)];
        records.extend((0..40).map(|number| commit(round.min(3), number, base + u64::from(number))));
        if round == 4 {
            records.push(Record::GroupTombstone(group(1)));
        }
        let records = at(base, records);
        log.extend(records.clone());
        for number in 0..PARTITIONS {
            store.apply(partition(number), &records, meta(log.len() as u64)).unwrap();
        }
        if matches!(round, 0 | 1 | 3) {
            store.flush_table();
        }
    }
    store.sync().unwrap();
    copy_files(&path, &image);
    (image, log)
}

/// Opens a damaged store and checks every partition. Returns whether it was moved aside.
fn check(path: &Path, log: &[(Offset, Record)], what: &str) -> bool {
    let opened = OffsetsStore::open_or_rebuild(path, OffsetsStoreOptions::default())
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    for number in 0..PARTITIONS {
        let end = log.len() as u64;
        let loaded = load(&opened.store, number, end);
        let applied = loaded.meta.map_or(Offset::ZERO, |meta| meta.applied);
        assert_eq!(loaded.shard, fold(log, applied), "{what}: partition {number}");
        if opened.damaged.is_some() {
            assert_eq!(loaded.meta, None, "{what}");
        }
        let rest: Vec<_> = log.iter().filter(|(offset, _)| *offset >= applied).cloned().collect();
        opened.store.apply(partition(number), &rest, meta(end)).unwrap();
        // Looks every row up in every table and filter.
        let more = at(end, (0..40 * 4).map(|each| commit(each / 40, each % 40, 1)).collect());
        opened
            .store
            .apply(partition(number), &more, meta(end + 160))
            .unwrap_or_else(|error| panic!("{what}: partition {number}: {error}"));
        let whole = [log, &more].concat();
        let end = Offset::new(end + 160);
        assert_eq!(load(&opened.store, number, end.value()).shard, fold(&whole, end), "{what}");
    }
    opened.store.compact();
    opened.store.check_health().unwrap_or_else(|error| panic!("{what}: {error}"));
    if let Some(damaged) = &opened.damaged {
        assert!(damaged.moved_to.is_dir(), "{what}");
        assert!(damaged.error.is_damage(), "{what}");
    }
    opened.damaged.is_some()
}

/// Changes a file.
type Damage = Box<dyn Fn(&Path)>;

fn cut(keep: usize) -> Damage {
    Box::new(move |file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..keep]).unwrap();
    })
}

fn flip(place: usize) -> Damage {
    Box::new(move |file| {
        let mut bytes = fs::read(file).unwrap();
        bytes[place] ^= 0x10;
        fs::write(file, bytes).unwrap();
    })
}

/// The file gone, cut at and flipped at `places` places that are spread over it.
fn damages(length: usize, places: usize) -> Vec<(String, Damage)> {
    let mut damages: Vec<(String, Damage)> =
        vec![("removed".to_owned(), Box::new(|file| fs::remove_file(file).unwrap()))];
    if length > 0 {
        for place in (0..=places).map(|each| (length - 1) * each / places) {
            damages.push((format!("cut to {place} of {length} bytes"), cut(place)));
            damages.push((format!("byte {place} of {length} flipped"), flip(place)));
        }
    }
    damages
}

#[test]
fn no_damage_to_any_file_gives_a_wrong_state() {
    let folder = tempfile::tempdir().unwrap();
    let (image, log) = crashed_store(folder.path());
    let victim = folder.path().join("victim");
    let mut moved_aside = BTreeMap::new();
    for entry in fs::read_dir(&image).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let kind = name.split('-').next().unwrap().trim_start_matches(|c: char| c.is_ascii_digit());
        let places = match kind {
            "MANIFEST" => 12,
            ".sst" | ".log" => 4,
            "CURRENT" => 2,
            _ => 1,
        };
        let length = fs::metadata(image.join(&name)).unwrap().len() as usize;
        for (damage, apply) in damages(length, places) {
            let _ = fs::remove_dir_all(&victim);
            copy_files(&image, &victim);
            apply(&victim.join(&name));
            let moved = check(&victim, &log, &format!("{name}: {damage}"));
            *moved_aside.entry(kind.to_owned()).or_insert(0) += u32::from(moved);
        }
    }
    for kind in ["CURRENT", "MANIFEST", ".sst"] {
        assert!(moved_aside[kind] > 0, "{moved_aside:?}");
    }
    assert!(moved_aside.contains_key(".log"), "{moved_aside:?}");
    for harmless in ["OPTIONS", "IDENTITY", "LOCK", "LOG"] {
        assert_eq!(moved_aside.get(harmless).copied().unwrap_or(0), 0, "{harmless}: {moved_aside:?}");
    }
}

#[test]
fn a_flushed_table_that_the_manifest_forgot_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, before, after) =
        (folder.path().join("store"), folder.path().join("before"), folder.path().join("after"));
    let store = open(&path);
    let log = at(0, (0..60).map(|number| commit(1, number, 1)).collect());
    store.apply(partition(0), &log[..20], meta(20)).unwrap();
    store.flush_table();
    copy_files(&path, &before);
    store.apply(partition(0), &log[20..40], meta(40)).unwrap();
    store.flush_table();
    store.apply(partition(0), &log[40..], meta(60)).unwrap();
    copy_files(&path, &after);
    let mut names = fs::read_dir(&before).unwrap().map(|entry| entry.unwrap().file_name());
    let manifest = names.find(|name| name.to_string_lossy().starts_with("MANIFEST")).unwrap();
    fs::copy(before.join(&manifest), after.join(&manifest)).unwrap();
    let opened = OffsetsStore::open_or_rebuild(&after, OffsetsStoreOptions::default()).unwrap();
    let loaded = load(&opened.store, 0, 60);
    let applied = loaded.meta.map_or(Offset::ZERO, |meta| meta.applied);
    assert_eq!(loaded.shard, fold(&log, applied));
}

#[test]
fn a_row_that_went_missing_wipes_its_partition() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..2 {
        let records = at(0, vec![commit(1, 0, 1), commit(1, 1, 1)]);
        store.apply(partition(number), &records, meta(2)).unwrap();
    }
    store.db.delete_cf(store.family().unwrap(), row::position_key(partition(0), &key(1, 1))).unwrap();
    assert_eq!(load(&store, 0, 2).wiped, Some(WipeReason::Digest));
    assert_eq!(load(&store, 1, 2).wiped, None);
}

#[test]
fn rows_without_meta_are_wiped() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = open(folder.path());
        store.apply(partition(0), &at(0, vec![commit(1, 0, 1)]), meta(1)).unwrap();
        store.db.delete_cf(store.family().unwrap(), row::meta_key(partition(0))).unwrap();
    }
    assert_eq!(load(&open(folder.path()), 0, 1).wiped, Some(WipeReason::MetaMissing));
}

#[test]
fn an_unknown_row_is_damage() {
    for (key, value) in
        [(vec![0, 0, 0, 1, 9], vec![0; 9]), (vec![0, 0, 0, 1, 0], vec![2; 49]), (vec![1], vec![])]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        {
            let store = open(&path);
            store.db.put_cf(store.family().unwrap(), &key, &value).unwrap();
        }
        let error = OffsetsStore::open(&path, OffsetsStoreOptions::default()).unwrap_err();
        assert!(matches!(error, OffsetsStoreError::Row { .. }), "{error}");
        let opened = OffsetsStore::open_or_rebuild(&path, OffsetsStoreOptions::default()).unwrap();
        assert!(opened.damaged.is_some());
    }
}

#[test]
fn at_most_one_damaged_store_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..3 {
        open(&path);
        fs::write(path.join("CURRENT"), "nonsense").unwrap();
        fs::write(path.join(format!("round-{round}")), "").unwrap();
        let opened = OffsetsStore::open_or_rebuild(&path, OffsetsStoreOptions::default()).unwrap();
        let damaged = opened.damaged.unwrap();
        assert_eq!(damaged.moved_to, folder.path().join("store.damaged"));
        assert!(damaged.moved_to.join(format!("round-{round}")).exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn a_store_in_use_is_not_taken_for_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path);
    let error = OffsetsStore::open_or_rebuild(&path, OffsetsStoreOptions::default()).unwrap_err();
    assert!(matches!(error, OffsetsStoreError::Open { .. }), "{error}");
    assert!(!error.is_damage());
    store.apply(partition(0), &[], meta(0)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
