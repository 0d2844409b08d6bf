//! The rows are the fold of the log, however it was cut into batches.

use proptest::prelude::*;

use super::*;

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        8 => (0..3u32, 0..3u32, any::<u64>()).prop_map(|(group, partition, offset)| commit(group, partition, offset)),
        2 => (0..3u32, 0..3u32, any::<u64>(), any::<u64>()).prop_map(|(group, partition, offset, origin)| {
            match commit(group, partition, offset) {
                Record::Commit { key, value } => {
                    let value = CommitValue { origin: Some(Offset::new(origin)), ..value };
                    Record::Commit { key, value }
                }
                other => other,
            }
        }),
        2 => (0..3u32, 0..3u32).prop_map(|(group, partition)| Record::CommitTombstone(key(group, partition))),
        2 => (0..3u32).prop_map(group_record),
        1 => (0..3u32).prop_map(|number| Record::GroupTombstone(group(number))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_load_gives_the_fold_of_the_log(
        batches in proptest::collection::vec(proptest::collection::vec(record(), 0..12), 1..12),
        flush_after in 0..12usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let mut log = Vec::new();
        for (index, batch) in batches.into_iter().enumerate() {
            let records = at(log.len() as u64, batch);
            log.extend(records.clone());
            store.apply(partition(0), &records, meta(log.len() as u64)).unwrap();
            if index == flush_after {
                store.flush_table();
            }
        }
        let end = log.len() as u64;
        let expected = fold(&log, Offset::new(end));
        let loaded = load(&store, 0, end);
        prop_assert_eq!(loaded.wiped, None);
        prop_assert_eq!(&loaded.shard, &expected);
        drop(store);
        prop_assert_eq!(&load(&open(folder.path()), 0, end).shard, &expected);
    }
}
