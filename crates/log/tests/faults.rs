//! Every write, every sync and every byte of space may be the one that fails (T23, T27, T32).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wharf_log::batch::{BatchBuilder, EntrySource, RecordView, RequestEntry, UnsealedBatch};
use wharf_log::log::{
    AppendError, LeaderAppend, Log, LogConfig, LogError, OpenHint, ProducerRecovery, ReadLimit,
};
use wharf_log::vfs::{CrashPolicy, Fault, MemoryVfs, Vfs};
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition,
};

const DIR: &str = "/p";
const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };
const NOW: TimestampMs = TimestampMs::new(1_000);

fn config() -> LogConfig {
    LogConfig { segment_bytes: 6_000, retention_bytes: Some(20_000), ..LogConfig::default() }
}

fn value(offset: u64) -> Vec<u8> {
    offset.to_le_bytes().into_iter().cycle().take(900).collect()
}

fn batch(offset: u64) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = value(offset);
    builder
        .push_record(&RecordView { key: None, value: Some(&value), headers: &[], timestamp: NOW })
        .unwrap();
    builder
        .push_entry(RequestEntry {
            producer_id: ProducerId::new(5),
            producer_epoch: ProducerEpoch::new(0),
            sequence: Sequence::new(offset),
            record_count: 1,
            source: EntrySource::Client,
        })
        .unwrap();
    builder.finish().unwrap()
}

fn create(vfs: &MemoryVfs) -> Log {
    Log::create(Arc::new(vfs.clone()), Path::new(DIR), PARTITION, config(), b"").unwrap()
}

fn append(log: &mut Log) -> Result<(), AppendError> {
    let context =
        LeaderAppend { leader_epoch: LeaderEpoch::new(1), high_watermark: log.high_watermark(), now: NOW };
    log.append_leader(batch(log.log_end_offset().value()), &context).map(|_| ())
}

fn flush(log: &mut Log) -> Result<Offset, LogError> {
    let durable_end = log.flush()?;
    log.advance_high_watermark(durable_end);
    Ok(durable_end)
}

fn check_contents(log: &Log) {
    let reader = log.reader();
    let (mut next, mut found) = (reader.log_start_offset(), BTreeMap::new());
    while next < reader.log_end_offset() {
        let outcome = reader.read(next, ReadLimit { max_bytes: 5_000, end: Offset::MAX }).unwrap();
        for record in outcome.batches.iter().flat_map(|batch| batch.records().unwrap()) {
            let record = record.unwrap();
            found.insert(record.offset.value(), record.value.unwrap().to_vec());
        }
        next = outcome.next_offset;
    }
    let expected: BTreeMap<u64, Vec<u8>> = (log.log_start_offset().value()..log.log_end_offset().value())
        .map(|offset| (offset, value(offset)))
        .collect();
    let visible: BTreeMap<u64, Vec<u8>> =
        found.into_iter().filter(|(offset, _)| expected.contains_key(offset)).collect();
    assert_eq!(visible.len(), expected.len());
    assert_eq!(visible, expected);
}

/// Opens what a crash left; all that was reported durable must be there.
fn check_reopened(vfs: &MemoryVfs, durable_end: Offset) {
    for policy in [CrashPolicy::LoseAll, CrashPolicy::KeepAll, CrashPolicy::Seeded(durable_end.value())] {
        let shared: Arc<dyn Vfs> = Arc::new(vfs.crash(policy));
        let (log, report) =
            Log::open(shared, Path::new(DIR), PARTITION, config(), OpenHint::default(), NOW).unwrap();
        assert!(report.damaged.is_empty(), "{policy:?}, durable to {durable_end}: {report:?}");
        assert_eq!(report.producers, ProducerRecovery::Full);
        assert!(log.log_end_offset() >= durable_end, "{} of {durable_end}", log.log_end_offset());
        check_contents(&log);
    }
}

/// Appends, rolls, flushes, truncates and applies retention until the first error or the end; the durable end.
fn work(log: &mut Log) -> (Offset, bool) {
    let mut durable_end = Offset::ZERO;
    for round in 0..60 {
        if append(log).is_err() {
            return (durable_end, true);
        }
        let result = match round % 10 {
            4 | 8 => flush(log).map(|offset| durable_end = offset),
            6 => {
                let end = log.log_end_offset();
                log.truncate_to(Offset::new(end.value() - 1)).map(|_| ())
            }
            9 => log.apply_retention(NOW, Offset::MAX).map(|_| ()),
            _ => Ok(()),
        };
        if result.is_err() {
            return (durable_end, true);
        }
    }
    (durable_end, false)
}

#[test]
fn any_write_or_sync_may_fail() {
    for kind in 0..3 {
        let mut nth = 1;
        loop {
            let vfs = MemoryVfs::new();
            let mut log = create(&vfs);
            vfs.inject(match kind {
                0 => Fault::SyncError { nth },
                1 => Fault::WriteError { nth, written_bytes: 0 },
                _ => Fault::WriteError { nth, written_bytes: 500 },
            });
            let (durable_end, failed) = work(&mut log);
            if !failed {
                break;
            }
            assert!(log.is_poisoned(), "fault {nth} of kind {kind}");
            assert!(append(&mut log).is_err() && log.flush().is_err());
            assert!(log.close().is_err(), "no clean stop after an IO error");
            check_reopened(&vfs, durable_end);
            nth += 1;
        }
        assert!(nth > 40, "only {nth} faults of kind {kind}");
    }
}

#[test]
fn the_disk_may_be_full_at_any_byte() {
    for bytes in (0..40_000).step_by(211) {
        let vfs = MemoryVfs::new();
        let mut log = create(&vfs);
        vfs.inject(Fault::Space { bytes });
        let mut was_full = false;
        let mut durable_end = Offset::ZERO;
        for round in 0..60 {
            let end = log.log_end_offset();
            match append(&mut log) {
                Ok(()) => {}
                Err(AppendError::StorageFull { .. }) => {
                    assert_eq!(log.log_end_offset(), end);
                    check_contents(&log);
                    if was_full {
                        vfs.clear_faults();
                    }
                    was_full = true;
                }
                Err(error) => panic!("with {bytes} bytes: {error}"),
            }
            if round % 7 == 3 {
                durable_end = flush(&mut log).unwrap();
            }
            if round % 9 == 8 {
                match log.apply_retention(NOW, Offset::MAX) {
                    Ok(_) | Err(LogError::StorageFull { .. }) => check_contents(&log),
                    Err(error) => panic!("with {bytes} bytes: {error}"),
                }
            }
            if round % 20 == 19 {
                check_reopened(&vfs, durable_end);
            }
        }
        assert!(!log.is_poisoned());
        durable_end = flush(&mut log).unwrap();
        check_contents(&log);
        check_reopened(&vfs, durable_end);
    }
}

/// A clean marker speaks for the log as it was left: a last segment that was cut since is damage, not a shorter log.
#[test]
fn a_segment_cut_after_a_clean_stop_is_told() {
    // In quarters of a batch: the last one is cut within, at its start, with others before it, and all are gone.
    for quarters in [1, 4, 5, 8, 16] {
        let vfs = MemoryVfs::new();
        let mut log = create(&vfs);
        for _ in 0..4 {
            append(&mut log).unwrap();
        }
        flush(&mut log).unwrap();
        let checkpoint = log.close().unwrap();
        let segment = Path::new(DIR).join("00000000000000000000.log");
        let file = vfs.open(&segment, wharf_log::vfs::OpenMode::ReadWrite).unwrap();
        let length = file.len().unwrap();
        let cut = length / 16 * quarters;
        file.set_len(length - cut).unwrap();
        file.sync_data().unwrap();
        let hint = OpenHint { clean: true, checkpoint: Some(checkpoint) };
        let vfs: Arc<dyn Vfs> = Arc::new(vfs);
        let (log, report) = Log::open(vfs, Path::new(DIR), PARTITION, config(), hint, NOW).unwrap();
        assert_eq!(log.log_end_offset(), checkpoint.durable_end, "cut by {cut}");
        assert!(!report.damaged.is_empty(), "cut by {cut}");
    }
}
