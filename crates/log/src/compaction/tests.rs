#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition,
};

use super::*;
use crate::batch::{
    BatchBuilder, BatchKind, ControlRecord, EntrySource, Record, RecordView, RequestEntry, Seal, SealedBatch,
};
use crate::producer::ProducerStates;
use crate::segment::{BatchCursor, LOG_SUFFIX, Segment, file_name};
use crate::vfs::{MemoryVfs, OpenMode, Vfs};

const DIR: &str = "/p";
const DELETE_RETENTION_MS: u64 = 1_000;

/// A record: its key, if any, and its value, if any.
type Pair = (Option<u8>, Option<u8>);

/// A log of closed segments, and the fold of it.
struct TestLog {
    vfs: Arc<dyn Vfs>,
    segments: Vec<Arc<Segment>>,
    producers: ProducerStates,
    clean_below: Offset,
    next_sequence: u64,
}

fn partition() -> TopicPartition {
    TopicPartition { topic_id: TopicId::from_bytes([1; 16]), partition: PartitionIndex::new(0) }
}

fn seal(base_offset: Offset, kind: BatchKind) -> Seal {
    Seal {
        partition: partition(),
        base_offset,
        leader_epoch: LeaderEpoch::new(0),
        hw_hint: Offset::ZERO,
        ack_mode: true,
        append_time: TimestampMs::new(10),
        kind,
    }
}

impl TestLog {
    fn new() -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        vfs.create_dir_all(Path::new(DIR)).unwrap();
        TestLog {
            vfs,
            segments: Vec::new(),
            producers: ProducerStates::default(),
            clean_below: Offset::ZERO,
            next_sequence: 0,
        }
    }

    fn append_segment(&mut self, batches: &[(u64, Vec<Pair>)]) {
        let base = self.producers.end_offset();
        let segment = Arc::new(Segment::create(&*self.vfs, Path::new(DIR), base).unwrap());
        for (producer, records) in batches {
            let batch = self.build(*producer, records);
            self.append(&segment, &batch);
        }
        self.segments.push(segment);
    }

    fn append_control(&mut self, record: &ControlRecord) {
        let base = self.producers.end_offset();
        let segment = Arc::new(Segment::create(&*self.vfs, Path::new(DIR), base).unwrap());
        let batch =
            record.to_batch(TimestampMs::EPOCH).unwrap().seal(&seal(base, BatchKind::Control)).unwrap();
        self.append(&segment, &batch);
        self.segments.push(segment);
    }

    fn append(&mut self, segment: &Arc<Segment>, batch: &SealedBatch) {
        segment.file(&*self.vfs).unwrap().write_all_at(batch.bytes(), segment.bytes()).unwrap();
        segment.publish(&*self.vfs, batch.header()).unwrap();
        self.producers.apply(batch).unwrap();
    }

    fn build(&mut self, producer: u64, records: &[Pair]) -> SealedBatch {
        let mut builder = BatchBuilder::new(Compression::Lz4);
        for (key, value) in records {
            let key = key.map(|key| [b'k', key]);
            let value = value.map(|value| vec![value; 40]);
            let view = RecordView {
                key: key.as_ref().map(<[u8; 2]>::as_slice),
                value: value.as_deref(),
                headers: &[],
                timestamp: TimestampMs::new(self.next_sequence),
            };
            builder.push_record(&view).unwrap();
        }
        let entry = RequestEntry {
            producer_id: ProducerId::new(producer),
            producer_epoch: ProducerEpoch::new(0),
            sequence: Sequence::new(self.next_sequence),
            record_count: builder.record_count(),
            source: EntrySource::Gateway,
        };
        self.next_sequence += 1;
        builder.push_entry(entry).unwrap();
        builder.finish().unwrap().seal(&seal(self.producers.end_offset(), BatchKind::Data)).unwrap()
    }

    fn job(&self, now: u64, map_bytes_max: usize) -> CompactionJob {
        CompactionJob {
            vfs: Arc::clone(&self.vfs),
            dir: DIR.into(),
            partition: partition(),
            segments: self.segments.clone(),
            dirty_from: self.clean_below,
            producers: self.producers.clone(),
            now: TimestampMs::new(now),
            delete_retention_ms: DELETE_RETENTION_MS,
            segment_bytes: 2_000,
            map_bytes_max,
        }
    }

    /// Runs a pass and swaps its result in, as the log does but without its manifest.
    fn compact(&mut self, now: u64, map_bytes_max: usize) -> CompactionStats {
        let output = self.job(now, map_bytes_max).run().unwrap();
        for segment in &self.segments {
            segment.unlink(&*self.vfs).unwrap();
        }
        let replaced: usize = output.segments.iter().map(|segment| segment.replaces.len()).sum();
        assert_eq!(replaced, self.segments.len());
        let mut swapped = Vec::new();
        for segment in output.segments {
            let end = segment.replaces.last().unwrap().next_offset();
            let name = file_name(segment.base_offset, LOG_SUFFIX);
            self.vfs.rename(&segment.path, &Path::new(DIR).join(name)).unwrap();
            let opened = Segment::open(&*self.vfs, Path::new(DIR), segment.base_offset).unwrap();
            let opened = self.scanned(opened);
            assert_eq!(opened.next_offset(), end, "an output ends where its inputs ended");
            swapped.push(opened);
        }
        self.segments = swapped;
        self.clean_below = output.clean_below;
        output.stats
    }

    /// The segment with its end known, as a scan finds it.
    fn scanned(&self, segment: Segment) -> Arc<Segment> {
        let path = segment.path().to_owned();
        let length = self.vfs.open(&path, OpenMode::Read).unwrap().len().unwrap();
        assert_eq!(segment.bytes(), length);
        let segment = Arc::new(segment);
        let mut cursor = BatchCursor::new(Arc::clone(&self.vfs), Arc::clone(&segment), partition(), 0);
        let mut next_offset = segment.base_offset();
        while let Some(batch) = cursor.next_batch().unwrap() {
            assert!(batch.base_offset() >= next_offset);
            next_offset = batch.next_offset();
        }
        segment.set_end(crate::segment::SegmentEnd {
            bytes: length,
            next_offset,
            first_append_time: TimestampMs::new(10),
            last_append_time: TimestampMs::new(10),
        });
        segment
    }

    fn batches(&self) -> Vec<SealedBatch> {
        let mut batches = Vec::new();
        for segment in &self.segments {
            let mut cursor = BatchCursor::new(Arc::clone(&self.vfs), Arc::clone(segment), partition(), 0);
            while let Some(batch) = cursor.next_batch().unwrap() {
                batches.push(batch);
            }
        }
        batches
    }

    fn records(&self) -> BTreeMap<Offset, Record> {
        let data = |batch: &SealedBatch| batch.header().kind == BatchKind::Data;
        let batches = self.batches().into_iter().filter(data);
        let records = batches.flat_map(|batch| batch.records().unwrap().map(Result::unwrap));
        records.map(|record| (record.offset, record)).collect()
    }

    /// The latest value of each key, and the keyless records.
    fn table(&self) -> (BTreeMap<Vec<u8>, Vec<u8>>, usize) {
        let mut table = BTreeMap::new();
        let mut keyless = 0;
        for record in self.records().into_values() {
            match (record.key, record.value) {
                (None, _) => keyless += 1,
                (Some(key), Some(value)) => drop(table.insert(key.to_vec(), value.to_vec())),
                (Some(key), None) => drop(table.remove(key.as_ref())),
            }
        }
        (table, keyless)
    }

    fn folded(&self) -> ProducerStates {
        let mut states = ProducerStates::default();
        for batch in self.batches() {
            states.apply(&batch).unwrap();
        }
        states
    }
}

fn value(key: u8, value: u8) -> Pair {
    (Some(key), Some(value))
}

fn tombstone(key: u8) -> Pair {
    (Some(key), None)
}

#[test]
fn of_each_key_the_latest_record_stays_at_its_offset() {
    let mut log = TestLog::new();
    log.append_segment(&[(1, vec![value(1, 1), value(2, 2)]), (1, vec![value(1, 3), (None, Some(9))])]);
    log.append_segment(&[(1, vec![value(3, 4), value(2, 5)])]);
    let stats = log.compact(0, 1 << 20);
    let offsets: Vec<u64> = log.records().keys().map(|offset| offset.value()).collect();
    assert_eq!(offsets, [2, 3, 4, 5]);
    assert_eq!((stats.records_before, stats.records_after, stats.keys), (6, 4, 3));
    assert_eq!(log.clean_below, Offset::new(6));
    assert_eq!(log.segments.len(), 1, "small neighbours are merged");
}

#[test]
fn a_tombstone_stays_for_its_retention_after_it_was_first_kept() {
    let mut log = TestLog::new();
    log.append_segment(&[(1, vec![value(1, 1), value(2, 1)]), (1, vec![tombstone(1)])]);
    log.append_segment(&[(1, vec![value(2, 2)])]);
    log.compact(500, 1 << 20);
    assert_eq!(log.records().len(), 2);
    log.append_segment(&[(1, vec![value(3, 1)])]);
    log.compact(500 + DELETE_RETENTION_MS - 1, 1 << 20);
    assert!(log.records().contains_key(&Offset::new(2)), "too early");
    log.compact(500 + DELETE_RETENTION_MS, 1 << 20);
    assert!(!log.records().contains_key(&Offset::new(2)));
    assert_eq!(log.table().0.len(), 2);
}

#[test]
fn control_batches_stay() {
    let mut log = TestLog::new();
    log.append_segment(&[(1, vec![value(1, 1)])]);
    log.append_control(&ControlRecord::ProducerExpiry { producer_ids: vec![ProducerId::new(1)] });
    log.append_segment(&[(2, vec![value(1, 2)])]);
    log.compact(0, 1 << 20);
    assert_eq!(log.batches().len(), 2, "the first batch lost its record, and its producer is forgotten");
    assert_eq!(log.folded().encode_snapshot(), log.producers.encode_snapshot());
}

#[test]
fn an_emptied_batch_stays_while_its_producer_is_remembered() {
    let mut log = TestLog::new();
    log.append_segment(&[(7, vec![value(1, 1)]), (8, vec![value(1, 2)])]);
    log.compact(0, 1 << 20);
    let batches = log.batches();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[0].header().record_count, 0);
    assert_eq!(log.folded().encode_snapshot(), log.producers.encode_snapshot());
}

#[test]
fn a_small_map_ends_the_pass_early_and_the_next_goes_on() {
    let mut log = TestLog::new();
    for round in 0..4 {
        let records = (0..10).map(|key| value(key, round)).collect();
        log.append_segment(&[(1, records)]);
    }
    let before = log.table();
    log.compact(0, 1);
    assert_eq!(log.clean_below, Offset::new(10));
    assert_eq!(log.table(), before);
    while log.clean_below < Offset::new(40) {
        log.compact(0, 1);
    }
    assert_eq!(log.table(), before);
    assert_eq!(log.records().len(), 10);
}

#[test]
fn damage_ends_the_pass_and_changes_nothing() {
    let mut log = TestLog::new();
    log.append_segment(&[(1, vec![value(1, 1)])]);
    log.segments[0].file(&*log.vfs).unwrap().write_all_at(&[0xff; 8], 120).unwrap();
    assert!(matches!(log.job(0, 1 << 20).run(), Err(CompactionError::Bad { .. })));
}

fn log_strategy() -> impl Strategy<Value = Vec<Vec<(u64, Vec<Pair>)>>> {
    let key = prop_oneof![8 => (0..6u8).prop_map(Some), 1 => Just(None)];
    let pair = (key, proptest::option::weighted(0.7, 0..255u8));
    let batch = (1..4u64, proptest::collection::vec(pair, 1..6));
    proptest::collection::vec(proptest::collection::vec(batch, 1..5), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn compaction_changes_neither_the_table_nor_the_producers(
        segments in log_strategy(),
        passes in proptest::collection::vec((0..1_500u64, 1..3_000usize, any::<bool>()), 1..6),
    ) {
        let mut log = TestLog::new();
        let mut originals = BTreeMap::new();
        let mut remaining = segments.iter();
        let mut now = 0;
        for (elapsed, map_bytes, append) in passes {
            if let Some(batches) = remaining.next().filter(|_| append || log.segments.is_empty()) {
                log.append_segment(batches);
            }
            originals.extend(log.records());
            let table = log.table();
            let tombstones: Vec<Offset> = log
                .batches()
                .iter()
                .filter(|batch| batch.header().delete_horizon.is_none_or(|horizon| horizon.value() > now + elapsed))
                .flat_map(|batch| batch.records().unwrap().map(Result::unwrap))
                .filter(|record| record.key.is_some() && record.value.is_none())
                .filter(|tombstone| {
                    log.records().values().all(|other| other.key != tombstone.key || other.offset <= tombstone.offset)
                })
                .map(|record| record.offset)
                .collect();
            now += elapsed;
            log.compact(now, map_bytes);
            prop_assert_eq!(log.table(), table);
            prop_assert_eq!(log.folded().encode_snapshot(), log.producers.encode_snapshot());
            let records = log.records();
            for (offset, record) in &records {
                prop_assert_eq!(record, &originals[offset]);
            }
            for offset in tombstones {
                prop_assert!(records.contains_key(&offset), "tombstone at {} went early", offset);
            }
        }
        while log.clean_below < log.producers.end_offset() {
            log.compact(now, 1);
        }
        let mut keys = std::collections::BTreeSet::new();
        for record in log.records().into_values().filter(|record| record.key.is_some()) {
            prop_assert!(keys.insert(record.key), "a key has two records in a clean log");
        }
    }
}
