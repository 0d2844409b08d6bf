//! The log against a plain vector: whatever is done to it, it holds what the vector holds.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_log::batch::{BatchBuilder, RecordView, UnsealedBatch};
use wharf_log::checkpoint::CheckpointEntry;
use wharf_log::log::{LeaderAppend, LeaderAppendOutcome, Log, LogConfig, OpenHint, ReadError, ReadLimit};
use wharf_log::vfs::{CrashPolicy, MemoryVfs, Vfs};
use wharf_types::{Compression, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

const DIR: &str = "/p";
const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };

#[derive(Clone, Debug)]
enum Step {
    /// So many records of so many bytes, this long after the last append.
    Append {
        records: u64,
        bytes: usize,
        pause_ms: u64,
    },
    Flush,
    /// Read from a share of the log on, at most so many bytes.
    Read {
        from: f64,
        max_bytes: usize,
    },
    Truncate {
        to: f64,
    },
    AdvanceStart {
        to: f64,
    },
    Retention {
        keep_bytes: u64,
    },
    NextEpoch,
    CloseAndOpen,
    CrashAndOpen {
        seed: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let share = 0.0..=1.0f64;
    prop_oneof![
        10 => (1..8u64, 0..900usize, 0..50u64)
            .prop_map(|(records, bytes, pause_ms)| Step::Append { records, bytes, pause_ms }),
        3 => Just(Step::Flush),
        5 => (share.clone(), 0..20_000usize).prop_map(|(from, max_bytes)| Step::Read { from, max_bytes }),
        2 => share.clone().prop_map(|to| Step::Truncate { to }),
        1 => share.prop_map(|to| Step::AdvanceStart { to }),
        1 => (0..40_000u64).prop_map(|keep_bytes| Step::Retention { keep_bytes }),
        1 => Just(Step::NextEpoch),
        1 => Just(Step::CloseAndOpen),
        1 => any::<u64>().prop_map(|seed| Step::CrashAndOpen { seed }),
    ]
}

/// A record of the model.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    value: Vec<u8>,
    append_time: u64,
    /// Offset of the first record of its batch.
    batch: u64,
}

struct Model {
    vfs: MemoryVfs,
    log: Option<Log>,
    checkpoint: Option<CheckpointEntry>,
    records: Vec<Stored>,
    log_start: u64,
    durable_end: u64,
    now: u64,
    epoch: u32,
    appended: u64,
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 9_000, segment_ms: 700, retention_ms: None, ..LogConfig::default() }
}

fn batch(values: &[Vec<u8>]) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::Lz4);
    for value in values {
        let timestamp = TimestampMs::new(1);
        builder.push_record(&RecordView { key: None, value: Some(value), headers: &[], timestamp }).unwrap();
    }
    builder.finish().unwrap()
}

impl Model {
    fn new() -> Self {
        let vfs = MemoryVfs::new();
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let log = Log::create(shared, Path::new(DIR), PARTITION, config(), b"").unwrap();
        Model {
            vfs,
            log: Some(log),
            checkpoint: None,
            records: Vec::new(),
            log_start: 0,
            durable_end: 0,
            now: 1000,
            epoch: 1,
            appended: 0,
        }
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().unwrap()
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Append { records, bytes, pause_ms } => self.append(records, bytes, pause_ms),
            Step::Flush => {
                self.durable_end = self.log().flush().unwrap().value();
                let durable_end = Offset::new(self.durable_end);
                self.log().advance_high_watermark(durable_end);
                self.checkpoint = Some(self.log().checkpoint_entry());
            }
            Step::Read { from, max_bytes } => self.read(from, max_bytes),
            Step::Truncate { to } => self.truncate(to),
            Step::AdvanceStart { to } => {
                let high = self.log().high_watermark().value();
                let start = self.log_start + (to * high.saturating_sub(self.log_start) as f64) as u64;
                self.log().advance_log_start(Offset::new(start)).unwrap();
                self.log_start = start;
            }
            Step::Retention { keep_bytes } => {
                let limits = LogConfig { retention_bytes: Some(keep_bytes), ..config() };
                let now = TimestampMs::new(self.now);
                self.log().set_config(limits).unwrap();
                let report = self.log().apply_retention(now, Offset::MAX).unwrap();
                self.log().set_config(config()).unwrap();
                assert!(report.log_start.value() >= self.log_start);
                assert!(report.log_start <= self.log().high_watermark());
                self.log_start = report.log_start.value();
            }
            Step::NextEpoch => {
                self.epoch += 1;
                let epoch = LeaderEpoch::new(self.epoch);
                self.log().begin_leader_epoch(epoch).unwrap();
            }
            Step::CloseAndOpen => {
                let checkpoint = self.log.take().unwrap().close().unwrap();
                self.vfs = self.vfs.crash(CrashPolicy::LoseAll);
                self.durable_end = self.records.len() as u64;
                self.open(true, Some(checkpoint));
            }
            Step::CrashAndOpen { seed } => {
                self.log = None;
                self.vfs = self.vfs.crash(CrashPolicy::Seeded(seed));
                let checkpoint = self.checkpoint;
                self.open(false, checkpoint);
                let end = self.log().log_end_offset().value();
                assert!(end >= self.durable_end && end <= self.records.len() as u64);
                self.records.truncate(usize::try_from(end).unwrap());
                self.durable_end = end;
            }
        }
        self.check_bounds();
    }

    fn open(&mut self, clean: bool, checkpoint: Option<CheckpointEntry>) {
        let shared: Arc<dyn Vfs> = Arc::new(self.vfs.clone());
        let hint = OpenHint { clean, checkpoint };
        let now = TimestampMs::new(self.now);
        let (log, report) = Log::open(shared, Path::new(DIR), PARTITION, config(), hint, now).unwrap();
        // A crash may have kept only part of an index; everything else is whole.
        let is_expected = |name: &&str| !clean && *name == "index";
        assert!(report.damaged.is_empty() && report.rebuilt.iter().all(is_expected), "{report:?}");
        self.log = Some(log);
    }

    fn append(&mut self, records: u64, bytes: usize, pause_ms: u64) {
        self.now += pause_ms;
        let values: Vec<Vec<u8>> = (0..records)
            .map(|_| {
                self.appended += 1;
                let mut value = self.appended.to_le_bytes().to_vec();
                value.extend((0..bytes).map(|at| (at as u64 ^ self.appended) as u8));
                value
            })
            .collect();
        let context = LeaderAppend {
            leader_epoch: LeaderEpoch::new(self.epoch),
            high_watermark: self.log().high_watermark(),
            now: TimestampMs::new(self.now),
        };
        let outcome = self.log().append_leader(batch(&values), &context).unwrap();
        let LeaderAppendOutcome::Appended { base_offset, append_time, .. } = outcome else {
            panic!("refused");
        };
        assert_eq!(base_offset.value(), self.records.len() as u64);
        let (batch, append_time) = (base_offset.value(), append_time.value());
        self.records.extend(values.into_iter().map(|value| Stored { value, append_time, batch }));
    }

    fn truncate(&mut self, to: f64) {
        let end = self.records.len() as u64;
        let cut = self.log_start + (to * (end - self.log_start) as f64) as u64;
        let new_end = self.log().truncate_to(Offset::new(cut)).unwrap().value();
        let expected = self.records.get(usize::try_from(cut).unwrap()).map_or(end, |record| record.batch);
        let expected = expected.max(self.log_start);
        assert_eq!(new_end, expected, "a batch stays whole or goes");
        self.records.truncate(usize::try_from(new_end).unwrap());
        self.durable_end = new_end;
    }

    fn check_bounds(&mut self) {
        let (start, end, durable_end) = (self.log_start, self.records.len() as u64, self.durable_end);
        let log = self.log();
        assert_eq!(log.log_start_offset().value(), start);
        assert_eq!(log.log_end_offset().value(), end);
        assert!(log.durable_end_offset().value() >= durable_end);
        assert!(log.high_watermark().value() <= end && log.high_watermark().value() >= start);
    }

    fn read(&mut self, from: f64, max_bytes: usize) {
        let reader = self.log().reader();
        let end = self.records.len() as u64;
        let from = self.log_start + (from * (end - self.log_start) as f64) as u64;
        let mut next = from;
        while next < end {
            let limit = ReadLimit { max_bytes, end: Offset::MAX };
            let outcome = reader.read(Offset::new(next), limit).unwrap();
            for record in outcome.batches.iter().flat_map(|batch| batch.records().unwrap()) {
                let record = record.unwrap();
                if record.offset.value() >= next {
                    let stored = &self.records[usize::try_from(record.offset.value()).unwrap()];
                    assert_eq!(record.value.as_deref(), Some(&stored.value[..]));
                    next += 1;
                    assert_eq!(record.offset.value() + 1, next, "offsets are contiguous");
                }
            }
            assert_eq!(outcome.next_offset.value(), next);
        }
        let limit = ReadLimit { max_bytes, end: Offset::MAX };
        let beyond = reader.read(Offset::new(end + 1), limit);
        assert!(matches!(beyond, Err(ReadError::OutOfRange { .. })));
        self.check_time(from);
    }

    /// The first record appended at or after the time of some record is the first of its time.
    fn check_time(&mut self, offset: u64) {
        let Some(stored) = self.records.get(usize::try_from(offset).unwrap()) else {
            return;
        };
        let time = TimestampMs::new(stored.append_time);
        let first = self.records.partition_point(|record| record.append_time < stored.append_time) as u64;
        let found = self.log().reader().offset_for_time(time).unwrap();
        let expected = first.max(self.log_start);
        assert_eq!(found.map(|(offset, _)| offset.value()), Some(expected));
    }
}

/// Sequences to try: `WHARF_MODEL_CASES`, by default enough for each change.
fn cases() -> u32 {
    std::env::var("WHARF_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_log_holds_what_the_vector_holds(steps in proptest::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in &steps {
            model.apply(step);
        }
        model.read(0.0, 5000);
    }
}
