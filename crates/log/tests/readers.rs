//! Readers beside a writer that appends, rolls, truncates, compacts and removes segments: they never see a wrong record,
//! and never take a change under them for damage.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wharf_log::batch::{BatchBuilder, RecordView, UnsealedBatch};
use wharf_log::log::{LeaderAppend, LeaderAppendOutcome, Log, LogConfig, LogReader, ReadError, ReadLimit};
use wharf_log::vfs::{MemoryVfs, Vfs};
use wharf_types::{
    CleanupPolicy, Compression, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition,
};

const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };
const READERS: usize = 3;
const ROUNDS: u64 = 3_000;

/// The value of an offset, the same in every incarnation of the log.
fn value(offset: u64) -> Vec<u8> {
    let length = 40 + usize::try_from(offset * 31 % 400).unwrap();
    offset.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn batch(first: u64, count: u64) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    for offset in first..first + count {
        let (value, key) = (value(offset), [u8::try_from(offset % 50).unwrap()]);
        let timestamp = TimestampMs::new(1);
        builder
            .push_record(&RecordView { key: Some(&key), value: Some(&value), headers: &[], timestamp })
            .unwrap();
    }
    builder.finish().unwrap()
}

fn create(config: LogConfig) -> Log {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    Log::create(vfs, Path::new("/p"), PARTITION, config, b"").unwrap()
}

fn append(log: &mut Log, count: u64, now: u64) {
    let context = LeaderAppend {
        leader_epoch: LeaderEpoch::new(1),
        high_watermark: log.high_watermark(),
        now: TimestampMs::new(now),
    };
    let batch = batch(log.log_end_offset().value(), count);
    let outcome = log.append_leader(batch, &context).unwrap();
    assert!(matches!(outcome, LeaderAppendOutcome::Appended { .. }));
}

/// Reads round after round from some offset on, below the high watermark; returns how many records it has seen.
fn read_until(reader: &LogReader, done: &AtomicBool, seed: u64, allows_holes: bool) -> u64 {
    let (mut seen, mut state) = (0, seed);
    while !done.load(Ordering::Acquire) || seen == 0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (start, end) = (reader.log_start_offset().value(), reader.high_watermark().value());
        let mut next = start + (state >> 33) % (end.saturating_sub(start) + 1);
        for _ in 0..20 {
            let limit = ReadLimit { max_bytes: 3_000, end: reader.high_watermark() };
            let outcome = match reader.read(Offset::new(next), limit) {
                Ok(outcome) => outcome,
                // The log start has passed it.
                Err(ReadError::OutOfRange { log_start, .. }) if log_start.value() > next => break,
                Err(error) => panic!("{error}"),
            };
            let mut expected = next;
            for record in outcome.batches.iter().flat_map(|batch| batch.records().unwrap()) {
                let record = record.unwrap();
                if record.offset.value() >= next {
                    assert!(record.offset.value() == expected || allows_holes);
                    assert_eq!(record.value.as_deref(), Some(&value(record.offset.value())[..]));
                    expected = record.offset.value() + 1;
                    seen += 1;
                }
            }
            next = outcome.next_offset.value();
        }
        std::thread::yield_now();
    }
    seen
}

/// Runs the writer beside readers; all of them must have seen records and no damage.
fn run(mut log: Log, allows_holes: bool, mut write: impl FnMut(&mut Log, u64)) {
    let done = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    let reader = log.reader();
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let (reader, done, seen) = (reader.clone(), &done, &seen);
            scope.spawn(move || {
                let records = read_until(&reader, done, number as u64 + 1, allows_holes);
                seen.fetch_add(records, Ordering::Relaxed);
            });
        }
        for round in 0..ROUNDS {
            write(&mut log, round);
        }
        done.store(true, Ordering::Release);
    });
    assert!(seen.load(Ordering::Relaxed) > 0);
    assert!(log.damaged_ranges().is_empty(), "{:?}", log.damaged_ranges());
}

#[test]
fn readers_are_not_disturbed_by_rolls_retention_and_truncation() {
    let config = LogConfig {
        segment_bytes: 9_000,
        retention_ms: None,
        retention_bytes: Some(60_000),
        ..LogConfig::default()
    };
    run(create(config), false, |log, round| {
        append(log, 1 + round % 5, round);
        match round % 10 {
            3 => {
                // What lies above the high watermark may go; what is below is read meanwhile.
                let cut = log.high_watermark();
                log.truncate_to(cut).unwrap();
            }
            6 => {
                let durable_end = log.flush().unwrap();
                log.advance_high_watermark(durable_end);
            }
            9 => {
                log.apply_retention(TimestampMs::new(round), Offset::MAX).unwrap();
            }
            _ => {}
        }
    });
}

#[test]
fn readers_are_not_disturbed_by_compaction() {
    let config = LogConfig {
        segment_bytes: 9_000,
        cleanup: CleanupPolicy::Compact,
        min_compaction_lag_ms: 0,
        ..LogConfig::default()
    };
    run(create(config), true, |log, round| {
        append(log, 1 + round % 5, round);
        if round % 8 == 0 {
            let durable_end = log.flush().unwrap();
            log.advance_high_watermark(durable_end);
        }
        if round % 64 == 63 {
            log.compact(TimestampMs::new(round), Offset::MAX).unwrap();
        }
    });
}
