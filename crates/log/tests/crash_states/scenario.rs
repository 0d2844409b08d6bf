//! A scenario: operations on one log in one data directory, recorded with what is true after each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wharf_log::batch::{BatchBuilder, EntrySource, RecordView, RequestEntry, SealedBatch, UnsealedBatch};
use wharf_log::data_dir::DataDir;
use wharf_log::log::{LeaderAppend, LeaderAppendOutcome, Log, LogConfig, ReadLimit};
use wharf_log::producer::ProducerStates;
use wharf_log::vfs::{MemoryVfs, Operation, Vfs};
use wharf_types::{
    BrokerEpoch, CleanupPolicy, Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId,
    Sequence, TimestampMs, TopicId, TopicPartition,
};

pub(crate) const ROOT: &str = "/wharf";
pub(crate) const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };
pub(crate) const NOW: TimestampMs = TimestampMs::new(1_000_000);

/// What is true of the log at a point between two operations.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    pub(crate) durable_end: Offset,
    /// The records that can be read, by offset.
    pub(crate) visible: BTreeMap<u64, Vec<u8>>,
    /// All batches since `fold_from`, compacted away or not.
    pub(crate) batches: Vec<SealedBatch>,
    pub(crate) fold_from: Offset,
}

/// A scenario that has run.
pub(crate) struct Recording {
    pub(crate) start: MemoryVfs,
    pub(crate) operations: Vec<Operation>,
    /// Versions with the count of operations before each.
    pub(crate) points: Vec<(usize, Version)>,
    pub(crate) config: LogConfig,
}

pub(crate) struct Scenario {
    vfs: MemoryVfs,
    start: MemoryVfs,
    dir: Option<DataDir>,
    log: Option<Log>,
    config: LogConfig,
    epoch: LeaderEpoch,
    sequence: u64,
    keys: u64,
    points: Vec<(usize, Version)>,
    now: Version,
}

pub(crate) fn config() -> LogConfig {
    LogConfig { segment_bytes: 6 << 10, ..LogConfig::default() }
}

impl Scenario {
    pub(crate) fn new() -> Self {
        let vfs = MemoryVfs::new();
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let dir = DataDir::open(Arc::clone(&shared), Path::new(ROOT)).unwrap();
        let log = Log::create(shared, &dir.partition_dir(PARTITION), PARTITION, config(), b"").unwrap();
        let start = vfs.fork();
        vfs.start_recording();
        let now = Version {
            log_start: Offset::ZERO,
            log_end: Offset::ZERO,
            durable_end: Offset::ZERO,
            visible: BTreeMap::new(),
            batches: Vec::new(),
            fold_from: Offset::ZERO,
        };
        Scenario {
            vfs,
            start,
            dir: Some(dir),
            log: Some(log),
            config: config(),
            epoch: LeaderEpoch::new(1),
            sequence: 0,
            keys: 0,
            points: vec![(0, now.clone())],
            now,
        }
    }

    pub(crate) fn finish(self) -> Recording {
        let operations = self.vfs.recorded();
        Recording { start: self.start, operations, points: self.points, config: self.config }
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().unwrap()
    }

    fn note(&mut self) {
        let log = self.log.as_ref().unwrap();
        self.now.log_start = log.log_start_offset();
        self.now.log_end = log.log_end_offset();
        self.now.durable_end = log.durable_end_offset();
        self.points.push((self.vfs.recorded().len(), self.now.clone()));
    }

    pub(crate) fn append(&mut self, batches: u64) {
        for _ in 0..batches {
            self.append_batch(None, None);
        }
    }

    pub(crate) fn append_from_producer(&mut self, batches: u64) {
        for _ in 0..batches {
            self.sequence += 1;
            self.append_batch(Some(self.sequence), None);
        }
    }

    pub(crate) fn append_keyed(&mut self, batches: u64) {
        for _ in 0..batches {
            self.keys += 1;
            self.append_batch(None, Some(self.keys % 3));
        }
    }

    fn append_batch(&mut self, sequence: Option<u64>, key: Option<u64>) {
        let first = self.log().log_end_offset().value();
        let mark = self.points.len() as u64;
        let values: Vec<Vec<u8>> = (first..first + 2).map(|offset| value(offset, mark)).collect();
        let context =
            LeaderAppend { leader_epoch: self.epoch, high_watermark: self.log().high_watermark(), now: NOW };
        let outcome = self.log().append_leader(batch(&values, sequence, key), &context).unwrap();
        let LeaderAppendOutcome::Appended { batch, .. } = outcome else {
            panic!("the batch was refused");
        };
        self.now.batches.push(batch);
        for (offset, value) in (first..).zip(values) {
            self.now.visible.insert(offset, value);
        }
        self.note();
    }

    pub(crate) fn flush(&mut self) {
        let log = self.log();
        let durable_end = log.flush().unwrap();
        log.advance_high_watermark(durable_end);
        self.note();
    }

    pub(crate) fn checkpoint(&mut self) {
        let entry = self.log().checkpoint_entry();
        self.dir.as_mut().unwrap().store_checkpoint([(PARTITION, entry)]).unwrap();
        self.note();
    }

    pub(crate) fn next_epoch(&mut self) {
        self.epoch = self.epoch.next();
        let epoch = self.epoch;
        self.log().begin_leader_epoch(epoch).unwrap();
        self.note();
    }

    pub(crate) fn truncate(&mut self, cut: u64) {
        let end = self.log().truncate_to(Offset::new(cut)).unwrap();
        self.now.batches.retain(|batch| batch.next_offset() <= end);
        self.now.visible.retain(|offset, _| *offset < end.value());
        self.note();
    }

    pub(crate) fn advance_start(&mut self, start: u64) {
        self.log().advance_log_start(Offset::new(start)).unwrap();
        self.now.visible.retain(|offset, _| *offset >= start);
        self.note();
    }

    pub(crate) fn reset(&mut self, start: u64) {
        let start_offset = Offset::new(start);
        self.log().reset_to(start_offset).unwrap();
        self.now.batches.clear();
        self.now.visible.clear();
        self.now.fold_from = start_offset;
        self.note();
        self.log().install_snapshot(ProducerStates::new(start_offset)).unwrap();
        self.note();
    }

    pub(crate) fn compacted(&mut self) {
        self.config.cleanup = CleanupPolicy::Compact;
        self.config.min_compaction_lag_ms = 0;
        let config = self.config.clone();
        self.log().set_config(config).unwrap();
    }

    pub(crate) fn compact(&mut self) {
        let stats = self.log().compact(NOW, Offset::MAX).unwrap().unwrap();
        assert!(stats.records_after < stats.records_before);
        self.now.visible = read_all(self.log.as_ref().unwrap());
        self.note();
    }

    pub(crate) fn restart(&mut self) {
        let entry = self.log.take().unwrap().close().unwrap();
        self.now.durable_end = entry.durable_end;
        self.points.push((self.vfs.recorded().len(), self.now.clone()));
        let mut dir = self.dir.take().unwrap();
        dir.store_checkpoint([(PARTITION, entry)]).unwrap();
        dir.write_clean_marker(BrokerEpoch::new(4)).unwrap();
        drop(dir);
        let (dir, log) = open(&self.vfs, &self.config);
        assert!(dir.clean_marker().is_some());
        self.dir = Some(dir);
        self.log = Some(log.0);
        self.note();
    }
}

/// Opens the data directory and its log as a restarted process does.
pub(crate) fn open(vfs: &MemoryVfs, config: &LogConfig) -> (DataDir, (Log, wharf_log::log::RecoveryReport)) {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let dir = DataDir::open(Arc::clone(&shared), Path::new(ROOT)).unwrap();
    let hint = dir.open_hint(PARTITION);
    let path = dir.partition_dir(PARTITION);
    let opened = Log::open(shared, &path, PARTITION, config.clone(), hint, NOW).unwrap();
    (dir, opened)
}

/// All records from the log start on.
pub(crate) fn read_all(log: &Log) -> BTreeMap<u64, Vec<u8>> {
    let reader = log.reader();
    let mut found = BTreeMap::new();
    let mut next = reader.log_start_offset();
    while next < reader.log_end_offset() {
        let outcome = reader.read(next, ReadLimit { max_bytes: 3000, end: Offset::MAX }).unwrap();
        assert!(outcome.next_offset > next, "a read stands still at {next}");
        for record in outcome.batches.iter().flat_map(|batch| batch.records().unwrap()) {
            let record = record.unwrap();
            if record.offset >= next {
                found.insert(record.offset.value(), record.value.unwrap().to_vec());
            }
        }
        next = outcome.next_offset;
    }
    found
}

/// A value that no other append has, long enough that a batch spans sectors.
fn value(offset: u64, mark: u64) -> Vec<u8> {
    format!("{offset}-{mark}-").into_bytes().into_iter().cycle().take(600).collect()
}

fn batch(values: &[Vec<u8>], sequence: Option<u64>, key: Option<u64>) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    let key = key.map(|key| key.to_le_bytes());
    for value in values {
        let key = key.as_ref().map(|key| &key[..]);
        builder.push_record(&RecordView { key, value: Some(value), headers: &[], timestamp: NOW }).unwrap();
    }
    if let Some(sequence) = sequence {
        builder
            .push_entry(RequestEntry {
                producer_id: ProducerId::new(5),
                producer_epoch: ProducerEpoch::new(0),
                sequence: Sequence::new(sequence),
                record_count: u32::try_from(values.len()).unwrap(),
                source: EntrySource::Client,
            })
            .unwrap();
    }
    builder.finish().unwrap()
}

/// Appends a batch of another producer after a recovery.
pub(crate) fn append_marker(log: &mut Log, leader_epoch: LeaderEpoch, sequence: u64) {
    let first = log.log_end_offset().value();
    let values = [value(first, u64::MAX), value(first + 1, u64::MAX)];
    let context = LeaderAppend { leader_epoch, high_watermark: log.high_watermark(), now: NOW };
    let batch = batch(&values, Some(1_000_000 + sequence), None);
    let outcome = log.append_leader(batch, &context).unwrap();
    assert!(matches!(outcome, LeaderAppendOutcome::Appended { .. }));
}
