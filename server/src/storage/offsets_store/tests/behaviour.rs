//! What is applied, durable and kept.

use super::*;

#[test]
fn reopening_gives_what_was_applied() {
    let folder = tempfile::tempdir().unwrap();
    let records = at(0, vec![group_record(1), commit(1, 0, 5), commit(1, 1, 6), commit(1, 0, 7)]);
    {
        let store = open(folder.path());
        store.apply(partition(3), &records, meta(4)).unwrap();
    }
    let store = open(folder.path());
    assert_eq!(store.meta(partition(3)), Some(meta(4)));
    assert_eq!(store.durable_applied(partition(3)), Some(Offset::new(4)), "recovery has synced it");
    let loaded = load(&store, 3, 4);
    assert_eq!(loaded.meta, Some(meta(4)));
    assert_eq!(loaded.wiped, None);
    let expected = fold(&records, Offset::new(4));
    assert_eq!(loaded.shard, expected);
    assert_eq!(loaded.shard.live_bytes(), expected.live_bytes());
}

#[test]
fn a_partition_never_applied_starts_at_the_log_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let log = LogView { log_start_offset: Offset::new(9), ..view(20) };
    let loaded = store.load(partition(0), &log, |_| None).unwrap();
    assert_eq!((loaded.meta, loaded.wiped), (None, None));
    assert_eq!(loaded.shard.applied(), Offset::new(9));
}

#[test]
fn durable_applied_moves_only_by_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.apply(partition(0), &at(0, vec![commit(1, 0, 5)]), meta(1)).unwrap();
    assert_eq!(store.durable_applied(partition(0)), None);
    store.sync().unwrap();
    assert_eq!(store.durable_applied(partition(0)), Some(Offset::new(1)));
    store.apply(partition(0), &at(1, vec![commit(1, 0, 6)]), meta(2)).unwrap();
    assert_eq!(store.durable_applied(partition(0)), Some(Offset::new(1)));
    assert_eq!(store.meta(partition(0)), Some(meta(2)));
    store.sync().unwrap();
    assert_eq!(store.durable_applied(partition(0)), Some(Offset::new(2)));
}

#[test]
fn a_crash_of_the_process_keeps_all_and_a_loss_of_power_what_was_synced() {
    for mode in [PowerLossMode::Off, PowerLossMode::On] {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = (folder.path().join("store"), folder.path().join("image"));
        let store = OffsetsStore::open(&path, OffsetsStoreOptions { power_loss_mode: mode }).unwrap();
        let records = at(0, vec![commit(1, 0, 5), commit(1, 1, 6), group_record(1)]);
        store.apply(partition(0), &records[..1], meta(1)).unwrap();
        store.sync().unwrap();
        store.apply(partition(0), &records[1..], meta(3)).unwrap();
        copy_files(&path, &image);
        let applied = if mode == PowerLossMode::On { 1 } else { 3 };
        let loaded = load(&open(&image), 0, 3);
        assert_eq!(loaded.meta, Some(meta(applied)));
        assert_eq!(loaded.shard, fold(&records, Offset::new(applied)));
    }
}

#[test]
fn a_wipe_takes_one_partition_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let neighbour = at(0, vec![group_record(2), commit(2, 0, 5)]);
    {
        let store = open(folder.path());
        for number in 1..4 {
            store.apply(partition(number), &neighbour, meta(2)).unwrap();
        }
        store.sync().unwrap();
        store.wipe(partition(2)).unwrap();
        assert_eq!(store.meta(partition(2)), None);
        assert_eq!(store.durable_applied(partition(2)), None);
    }
    let store = open(folder.path());
    let loaded = load(&store, 2, 9);
    assert_eq!((loaded.meta, loaded.wiped), (None, None));
    assert_eq!(loaded.shard, GroupShard::new(Offset::ZERO));
    for number in [1, 3] {
        assert_eq!(load(&store, number, 2).shard, fold(&neighbour, Offset::new(2)));
    }
    store.apply(partition(2), &at(0, vec![commit(9, 9, 9)]), meta(1)).unwrap();
    assert_eq!(load(&store, 2, 1).shard.group_count(), 1);
}

#[test]
fn a_mistaken_caller_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.apply(partition(0), &at(0, vec![commit(1, 0, 5)]), meta(3)).unwrap();
    assert!(matches!(
        store.apply(partition(0), &at(0, vec![commit(1, 0, 6)]), meta(2)),
        Err(OffsetsStoreError::AppliedBackwards { .. })
    ));
    let other = PartitionMeta { topic_id: TopicId::from_bytes([1; 16]), ..meta(9) };
    assert!(matches!(
        store.apply(partition(0), &at(3, vec![commit(1, 0, 6)]), other),
        Err(OffsetsStoreError::TopicMismatch { .. })
    ));
    assert_eq!(store.meta(partition(0)), Some(meta(3)));
    store.apply(partition(0), &[], meta(3)).unwrap();
}

#[test]
fn rows_of_another_log_are_wiped() {
    let other = TopicId::from_bytes([1; 16]);
    let at_start = LogView { log_start_offset: Offset::new(11), ..view(20) };
    let generation = LossGeneration(1);
    let applied = Offset::new(10);
    let stored = LeaderEpoch::new(1);
    let cases = [
        (LogView { topic_id: other, ..view(20) }, Some(1), WipeReason::TopicId { stored: OFFSETS }),
        (
            LogView { loss_generation: generation, ..view(20) },
            Some(1),
            WipeReason::LossGeneration { stored: LossGeneration(0) },
        ),
        (at_start, Some(1), WipeReason::BelowLogStart { applied }),
        (view(9), Some(1), WipeReason::AboveLogEnd { applied }),
        (view(20), Some(2), WipeReason::LeaderEpoch { stored, log: Some(LeaderEpoch::new(2)) }),
        (view(20), None, WipeReason::LeaderEpoch { stored, log: None }),
    ];
    for (log, epoch, reason) in cases {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        store.apply(partition(0), &at(0, vec![commit(1, 0, 5)]), meta(10)).unwrap();
        let epoch_at = |offset| {
            assert_eq!(offset, Offset::new(9), "the epoch asked for is that of the last record applied");
            epoch.map(LeaderEpoch::new)
        };
        let loaded = store.load(partition(0), &log, epoch_at).unwrap();
        assert_eq!(loaded.wiped, Some(reason));
        assert_eq!(loaded.meta, None);
        assert_eq!(loaded.shard, GroupShard::new(log.log_start_offset));
        let again = store.load(partition(0), &log, |_| None).unwrap();
        assert_eq!((again.meta, again.wiped), (None, None));
    }
}

#[test]
fn a_hundred_keys_take_constant_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut sizes = Vec::new();
    let mut next = 0;
    for _ in 0..4 {
        for _ in 0..250 {
            let records: Vec<_> = (0..100).map(|number| commit(number % 10, number / 10, next)).collect();
            store.apply(partition(0), &at(next, records), meta(next + 100)).unwrap();
            next += 100;
        }
        store.flush_table();
        store.compact();
        sizes.push(store.table_bytes());
    }
    assert_eq!(next, 100_000);
    assert!(sizes.iter().all(|size| *size < 32 << 10), "{sizes:?}");
    assert_eq!(load(&store, 0, next).shard.list_groups(None, 99).len(), 10);
}

#[test]
fn syncs_and_applies_of_many_partitions_run_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for offset in 0..200 {
                    store
                        .apply(partition(number), &at(offset, vec![commit(1, 0, offset)]), meta(offset + 1))
                        .unwrap();
                    if offset % 50 == 0 {
                        store.sync().unwrap();
                        assert!(store.durable_applied(partition(number)) > Some(Offset::new(offset)));
                    }
                }
            });
        }
    });
    store.sync().unwrap();
    for number in 0..4 {
        assert_eq!(store.durable_applied(partition(number)), Some(Offset::new(200)));
    }
}
