#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use wharf_types::{
    CleanupPolicy, Compression, FlushPolicy, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId,
    Sequence, TimestampMs, TopicId, TopicPartition,
};

use super::*;
use crate::batch::{BatchBuilder, EntrySource, RecordView, RequestEntry, UnsealedBatch};
use crate::producer::EntryVerdict;
use crate::vfs::{CrashPolicy, Fault, MemoryVfs, OpenMode, Vfs};

const DIR: &str = "/p";
const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8 << 10, flush_policy: FlushPolicy::Ack, ..LogConfig::default() }
}

fn batch(values: &[&str]) -> UnsealedBatch {
    batch_of(values, None)
}

fn batch_of(values: &[&str], sequence: Option<u64>) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    for value in values {
        let view = RecordView {
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
            timestamp: TimestampMs::new(5),
        };
        builder.push_record(&view).unwrap();
    }
    if let Some(sequence) = sequence {
        let entry = RequestEntry {
            producer_id: ProducerId::new(77),
            producer_epoch: ProducerEpoch::new(0),
            sequence: Sequence::new(sequence),
            record_count: u32::try_from(values.len()).unwrap(),
            source: EntrySource::Client,
        };
        builder.push_entry(entry).unwrap();
    }
    builder.finish().unwrap()
}

fn context(log: &Log) -> LeaderAppend {
    LeaderAppend {
        leader_epoch: LeaderEpoch::new(1),
        high_watermark: log.high_watermark(),
        now: TimestampMs::new(1000),
    }
}

fn append(log: &mut Log, batch: UnsealedBatch) -> (Offset, Offset) {
    let context = context(log);
    match log.append_leader(batch, &context).unwrap() {
        LeaderAppendOutcome::Appended { base_offset, last_offset, .. } => (base_offset, last_offset),
        LeaderAppendOutcome::Refused { verdicts, .. } => panic!("refused: {verdicts:?}"),
    }
}

fn create(vfs: &MemoryVfs) -> Log {
    Log::create(Arc::new(vfs.clone()), Path::new(DIR), PARTITION, config(), b"meta").unwrap()
}

fn open(vfs: &MemoryVfs, hint: OpenHint) -> (Log, RecoveryReport) {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    Log::open(vfs, Path::new(DIR), PARTITION, config(), hint, TimestampMs::new(1000)).unwrap()
}

/// All values of the log, in order, with their offsets; reads as a consumer does.
fn values(log: &Log) -> Vec<(u64, String)> {
    let reader = log.reader();
    let mut found = Vec::new();
    let mut next = reader.log_start_offset();
    while next < reader.log_end_offset() {
        let limit = ReadLimit { max_bytes: 700, end: Offset::MAX };
        let outcome = reader.read(next, limit).unwrap();
        assert!(outcome.next_offset > next);
        for batch in &outcome.batches {
            for record in batch.records().unwrap() {
                let record = record.unwrap();
                if record.offset >= next {
                    let value = record.value.unwrap_or_default();
                    found.push((record.offset.value(), String::from_utf8_lossy(&value).into_owned()));
                }
            }
        }
        next = outcome.next_offset;
    }
    found
}

fn expected(range: std::ops::Range<u64>) -> Vec<(u64, String)> {
    range.map(|n| (n, value(n))).collect()
}

fn value(n: u64) -> String {
    format!("{n:0200}")
}

/// Appends records `range`, three to a batch, so that value `n` has offset `n`.
fn fill(log: &mut Log, range: std::ops::Range<u64>) {
    let mut n = range.start;
    while n < range.end {
        let texts: Vec<String> = (n..range.end.min(n + 3)).map(value).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(append(log, batch(&texts)).0.value(), n);
        n += texts.len() as u64;
    }
}

#[test]
fn what_was_appended_is_read_across_segments() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..200);
    assert!(log.segments().len() > 3);
    assert_eq!(values(&log), expected(0..200));
    let reader = log.reader();
    for from in [0, 1, 2, 3, 77, 198, 199] {
        let limit = ReadLimit { max_bytes: 1, end: Offset::MAX };
        let outcome = reader.read(Offset::new(from), limit).unwrap();
        assert_eq!(outcome.batches.len(), 1);
        assert!(outcome.batches[0].base_offset() <= Offset::new(from));
        assert!(outcome.batches[0].last_offset() >= Offset::new(from));
    }
    let error = reader.read(Offset::new(201), ReadLimit { max_bytes: 1, end: Offset::MAX }).unwrap_err();
    assert!(matches!(error, ReadError::OutOfRange { .. }));
    let at_end = reader.read(Offset::new(200), ReadLimit { max_bytes: 1, end: Offset::MAX }).unwrap();
    assert!(at_end.batches.is_empty());
    let bounded = reader.read(Offset::ZERO, ReadLimit { max_bytes: 1 << 20, end: Offset::new(10) }).unwrap();
    assert_eq!(bounded.next_offset, Offset::new(9), "no batch reaches beyond the limit's end");
}

#[test]
fn a_clean_close_needs_no_scan() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..100);
    let checkpoint = log.close().unwrap();
    assert_eq!(checkpoint.durable_end, Offset::new(100));
    let vfs = vfs.crash(CrashPolicy::LoseAll);
    let (mut log, report) = open(&vfs, OpenHint { clean: true, checkpoint: Some(checkpoint) });
    assert_eq!(report, RecoveryReport::default());
    assert_eq!(values(&log), expected(0..100));
    assert_eq!(log.durable_end_offset(), Offset::new(100));
    fill(&mut log, 100..150);
    assert_eq!(values(&log), expected(0..150));
}

#[test]
fn after_a_crash_all_that_was_flushed_is_there() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..99);
    log.flush().unwrap();
    let checkpoint = log.checkpoint_entry();
    fill(&mut log, 99..150);
    for seed in 0..200 {
        let crashed = vfs.crash(CrashPolicy::Seeded(seed));
        let (mut log, report) = open(&crashed, OpenHint { clean: false, checkpoint: Some(checkpoint) });
        assert!(report.damaged.is_empty(), "{report:?}");
        let end = log.log_end_offset().value();
        assert!(end >= 99);
        assert_eq!(values(&log), expected(0..end));
        fill(&mut log, end..end + 20);
        assert_eq!(values(&log), expected(0..end + 20));
    }
}

#[test]
fn a_duplicate_gets_its_first_offsets_also_after_a_restart() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    append(&mut log, batch_of(&["a", "b"], Some(1)));
    append(&mut log, batch_of(&["c"], Some(2)));
    log.flush().unwrap();
    for clean in [false, true] {
        let (mut log, report) = if clean {
            let (log, _) = open(&vfs, OpenHint::default());
            let checkpoint = log.close().unwrap();
            open(&vfs, OpenHint { clean: true, checkpoint: Some(checkpoint) })
        } else {
            open(&vfs.crash(CrashPolicy::LoseAll), OpenHint::default())
        };
        assert_eq!(report.producers, ProducerRecovery::Full);
        let context = context(&log);
        let outcome = log.append_leader(batch_of(&["a", "b"], Some(1)), &context).unwrap();
        let LeaderAppendOutcome::Refused { verdicts, .. } = outcome else {
            panic!("the duplicate was appended");
        };
        let first = EntryVerdict::Duplicate { base_offset: Offset::ZERO, last_offset: Offset::new(1) };
        assert_eq!(verdicts, [first]);
    }
}

#[test]
fn an_idle_log_has_no_segment_file() {
    let vfs = MemoryVfs::new();
    let log = create(&vfs);
    let names: Vec<String> =
        vfs.read_dir(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["manifest", "partition.meta"]);
    assert_eq!(read_partition_meta(&vfs, Path::new(DIR)).unwrap().as_deref(), Some(&b"meta"[..]));
    assert!(log.segments().is_empty());
    let again = Log::create(Arc::new(vfs.clone()), Path::new(DIR), PARTITION, config(), b"");
    assert!(matches!(again, Err(LogError::Exists { .. })));
}

#[test]
fn a_full_disk_costs_the_batch_and_not_the_log() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..10);
    vfs.inject(Fault::Space { bytes: 300 });
    let context = context(&log);
    let text = value(10);
    for _ in 0..3 {
        let error = log.append_leader(batch(&[&text, &text]), &context).unwrap_err();
        assert!(matches!(error, AppendError::StorageFull { .. }), "{error}");
    }
    assert_eq!(values(&log), expected(0..10));
    vfs.clear_faults();
    fill(&mut log, 10..30);
    log.flush().unwrap();
    let (log, report) = open(&vfs.crash(CrashPolicy::LoseAll), OpenHint::default());
    assert_eq!(report.truncated_bytes, 0);
    assert_eq!(values(&log), expected(0..30));
}

#[test]
fn the_first_io_error_ends_all_writing() {
    for fault in [Fault::WriteError { nth: 1, written_bytes: 50 }, Fault::SyncError { nth: 1 }] {
        let vfs = MemoryVfs::new();
        let mut log = create(&vfs);
        fill(&mut log, 0..10);
        vfs.inject(fault);
        let context = context(&log);
        let text = value(10);
        let appended = log.append_leader(batch(&[&text]), &context).is_ok();
        let flushed = log.flush().is_ok();
        assert!(!appended || !flushed);
        assert!(log.is_poisoned());
        let error = log.append_leader(batch(&[&text]), &context).unwrap_err();
        assert!(matches!(error, AppendError::Poisoned { .. }));
        assert!(matches!(log.flush(), Err(LogError::Poisoned { .. })));
        assert!(log.close().is_err());
    }
}

#[test]
fn a_flush_that_began_before_a_truncation_makes_nothing_durable() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..30);
    let job = log.begin_flush().unwrap().unwrap();
    assert_eq!(log.truncate_to(Offset::new(12)).unwrap(), Offset::new(12));
    fill(&mut log, 12..40);
    job.run().unwrap();
    assert_eq!(log.complete_flush(job).unwrap(), Offset::new(12));
    assert_eq!(log.flush().unwrap(), Offset::new(40));
}

#[test]
fn a_truncation_survives_a_crash_and_so_does_what_comes_after() {
    for cut in [0, 3, 30, 33, 99, 150] {
        let vfs = MemoryVfs::new();
        let mut log = create(&vfs);
        fill(&mut log, 0..150);
        log.flush().unwrap();
        let checkpoint = Some(log.checkpoint_entry());
        log.truncate_to(Offset::new(cut)).unwrap();
        let crashed = vfs.crash(CrashPolicy::LoseAll);
        let (reopened, report) = open(&crashed, OpenHint { clean: false, checkpoint });
        assert!(report.damaged.is_empty(), "{report:?}");
        assert_eq!(values(&reopened), expected(0..cut));
        fill(&mut log, cut..cut + 50);
        log.flush().unwrap();
        let crashed = vfs.crash(CrashPolicy::LoseAll);
        let (reopened, report) = open(&crashed, OpenHint { clean: false, checkpoint });
        assert!(report.damaged.is_empty(), "{report:?}");
        assert_eq!(values(&reopened), expected(0..cut + 50));
    }
}

#[test]
fn a_reset_log_starts_at_its_offset() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..60);
    log.flush().unwrap();
    log.reset_to(Offset::new(500)).unwrap();
    let all = |log: &Log| {
        let ends =
            [log.log_start_offset(), log.log_end_offset(), log.durable_end_offset(), log.high_watermark()];
        ends.map(Offset::value)
    };
    assert_eq!(all(&log), [500; 4]);
    let (log, _) = open(&vfs.crash(CrashPolicy::LoseAll), OpenHint::default());
    assert_eq!(all(&log), [500; 4]);
}

#[test]
fn the_log_start_is_durable_before_segments_go() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..120);
    log.flush().unwrap();
    assert!(log.advance_log_start(Offset::new(70)).is_err(), "above the high watermark");
    log.advance_high_watermark(Offset::new(120));
    let count = log.segments().len();
    log.advance_log_start(Offset::new(70)).unwrap();
    assert!(log.segments().len() < count);
    assert_eq!(values(&log), expected(70..120));
    let (log, report) = open(&vfs.crash(CrashPolicy::LoseAll), OpenHint::default());
    assert_eq!(report.producers, ProducerRecovery::Full);
    assert_eq!(log.log_start_offset(), Offset::new(70));
    assert_eq!(values(&log), expected(70..120));
}

#[test]
fn times_lead_to_the_first_record_appended_since() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    for n in 0..100 {
        let mut context = context(&log);
        context.now = TimestampMs::new(n / 2 * 10);
        log.append_leader(batch(&[&value(n)]), &context).unwrap();
    }
    let reader = log.reader();
    let at = |time| reader.offset_for_time(TimestampMs::new(time)).unwrap().map(|(offset, _)| offset.value());
    assert_eq!(at(0), Some(0));
    assert_eq!(at(1), Some(2));
    assert_eq!(at(10), Some(2));
    assert_eq!(at(485), Some(98));
    assert_eq!(at(490), Some(98));
    assert_eq!(at(491), None);
}

#[test]
fn a_follower_takes_only_what_follows() {
    let leader_vfs = MemoryVfs::new();
    let mut leader = create(&leader_vfs);
    fill(&mut leader, 0..30);
    let limit = ReadLimit { max_bytes: 1 << 20, end: Offset::MAX };
    let batches = leader.reader().read(Offset::ZERO, limit).unwrap().batches;
    let vfs = MemoryVfs::new();
    let mut follower = create(&vfs);
    let epoch = LeaderEpoch::new(1);
    for batch in &batches {
        follower.append_follower(batch.bytes().clone(), epoch).unwrap();
    }
    assert_eq!(values(&follower), expected(0..follower.log_end_offset().value()));
    let again = follower.append_follower(batches[0].bytes().clone(), epoch).unwrap_err();
    assert!(matches!(again, AppendError::NotAtEnd { .. }));
    let mut torn = batches[0].bytes().to_vec();
    torn.truncate(100);
    assert!(matches!(follower.append_follower(torn.into(), epoch), Err(AppendError::Batch(_))));
    let old_epoch = follower.append_follower(batches[0].bytes().clone(), LeaderEpoch::new(0)).unwrap_err();
    assert!(matches!(old_epoch, AppendError::WrongEpoch { .. }));
    let _ = CleanupPolicy::Delete;
}

#[test]
fn retention_removes_what_is_old_or_too_much_below_the_bound() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    let limits = LogConfig { retention_ms: Some(1000), retention_bytes: None, ..config() };
    log.set_config(limits).unwrap();
    fill(&mut log, 0..120);
    log.flush().unwrap();
    log.advance_high_watermark(Offset::new(120));
    let now = TimestampMs::new(2001);
    let report = log.apply_retention(TimestampMs::new(2000), Offset::MAX).unwrap();
    assert_eq!(report.segments, 0);
    let second_base = log.segments()[1].base_offset;
    let report = log.apply_retention(now, second_base.next()).unwrap();
    assert_eq!((report.segments, report.log_start), (1, second_base));
    let report = log.apply_retention(now, Offset::MAX).unwrap();
    assert_eq!(report.log_start, Offset::new(120), "also the active segment, once it was closed");
    assert_eq!(log.log_start_offset(), Offset::new(120));
    fill(&mut log, 120..240);
    log.advance_high_watermark(Offset::new(240));
    let limits = LogConfig { retention_ms: None, retention_bytes: Some(10_000), ..config() };
    log.set_config(limits).unwrap();
    log.apply_retention(now, Offset::MAX).unwrap();
    assert!((10_000..20_000).contains(&log.size_bytes()), "{}", log.size_bytes());
    let start = log.log_start_offset().value();
    assert_eq!(values(&log), expected(start..240));
}

fn keyed(key: u64, text: &str) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    let key = key.to_string();
    let view = RecordView {
        key: Some(key.as_bytes()),
        value: Some(text.as_bytes()),
        headers: &[],
        timestamp: TimestampMs::new(5),
    };
    builder.push_record(&view).unwrap();
    builder.finish().unwrap()
}

#[test]
fn compaction_keeps_the_latest_of_each_key_also_after_a_crash() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    let compacting = LogConfig { cleanup: CleanupPolicy::Compact, min_compaction_lag_ms: 0, ..config() };
    log.set_config(compacting.clone()).unwrap();
    for n in 0..120 {
        append(&mut log, keyed(n % 7, &value(n)));
    }
    log.flush().unwrap();
    log.advance_high_watermark(Offset::new(120));
    let closed_end = log.segments().last().unwrap().base_offset.value();
    let before = log.reader();
    let stats = log.compact(TimestampMs::new(5000), Offset::MAX).unwrap().unwrap();
    assert!(stats.records_after < stats.records_before);
    let kept = values(&log);
    assert!(kept.len() < 60);
    for n in 0..120 {
        let is_latest = !(n + 1..closed_end).any(|later| later % 7 == n % 7);
        if is_latest || n >= closed_end {
            assert!(kept.contains(&(n, value(n))), "{n}");
        }
    }
    assert_eq!(values(&log), kept);
    drop(before);
    let checkpoint = Some(log.checkpoint_entry());
    for clean in [false, true] {
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.crash(CrashPolicy::LoseAll));
        let hint = OpenHint { clean, checkpoint };
        let now = TimestampMs::new(6000);
        let (log, report) = Log::open(vfs, Path::new(DIR), PARTITION, compacting.clone(), hint, now).unwrap();
        assert!(report.damaged.is_empty() && report.rebuilt.is_empty(), "{report:?}");
        assert_eq!(values(&log), kept);
    }
}

#[test]
fn damage_below_the_committed_end_is_quarantined_and_the_rest_served() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..120);
    log.flush().unwrap();
    let checkpoint = Some(log.checkpoint_entry());
    let active = log.segments().last().unwrap().base_offset;
    drop(log);
    // In the middle of a closed segment, of the active one, and at its very end.
    for (segment, position) in [(0u64, 3000u64), (active.value(), 50), (active.value(), 700)] {
        let vfs = vfs.crash(CrashPolicy::LoseAll);
        vfs.flip_bit(&Path::new(DIR).join(format!("{segment:020}.log")), position * 8 + 3).unwrap();
        let hint = OpenHint { clean: false, checkpoint };
        let (mut log, report) = open(&vfs, hint);
        assert_eq!(report.truncated_bytes, 0);
        assert_eq!(log.log_end_offset(), Offset::new(120));
        fill(&mut log, 120..140);
        check_damage(&mut log);
        log.flush().unwrap();
        let vfs = vfs.crash(CrashPolicy::LoseAll);
        let (mut log, _) = open(&vfs, hint);
        assert_eq!(log.log_end_offset(), Offset::new(140));
        assert_eq!(check_damage(&mut log).len(), 1);
        let range = log.damaged_ranges()[0];
        log.skip_damaged(range.from, range.next_good).unwrap();
        let kept: Vec<_> = expected(0..140)
            .into_iter()
            .filter(|(n, _)| !(range.from.value()..range.next_good.value()).contains(n))
            .collect();
        assert_eq!(values(&log), kept);
        let (log, _) = open(&vfs.crash(CrashPolicy::LoseAll), hint);
        assert_eq!(values(&log), kept);
    }
}

/// Reads everything, passing over what is reported as damaged; checks the rest and returns the damaged ranges.
fn check_damage(log: &mut Log) -> Vec<(u64, u64)> {
    let reader = log.reader();
    let mut next = Offset::ZERO;
    let mut damaged = Vec::new();
    while next < reader.log_end_offset() {
        match reader.read(next, ReadLimit { max_bytes: 2000, end: Offset::MAX }) {
            Ok(outcome) => {
                assert!(outcome.next_offset > next);
                for record in outcome.batches.iter().flat_map(|batch| batch.records().unwrap()) {
                    let record = record.unwrap();
                    let text = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                    assert_eq!(text, value(record.offset.value()));
                }
                next = outcome.next_offset;
            }
            Err(ReadError::Corrupted { from, next_good, .. }) => {
                assert_eq!(from, next);
                assert!(next_good > from && next_good.distance_from(from) <= 3, "{from} to {next_good}");
                damaged.push((from.value(), next_good.value()));
                next = next_good;
            }
            Err(error) => panic!("{error}"),
        }
    }
    log.note_damage().unwrap();
    damaged
}

#[test]
fn a_torn_tail_is_cut_where_nothing_was_promised() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..60);
    log.flush().unwrap();
    let checkpoint = Some(log.checkpoint_entry());
    fill(&mut log, 60..90);
    let vfs = vfs.crash(CrashPolicy::KeepAll);
    let segment = log.segments().into_iter().rfind(|segment| segment.base_offset.value() <= 66).unwrap();
    let path = Path::new(DIR).join(format!("{:020}.log", segment.base_offset.value()));
    let batches_in = (66 - segment.base_offset.value()) / 3;
    let batch_bytes = segment.bytes / (segment.next_offset.distance_from(segment.base_offset) / 3);
    vfs.flip_bit(&path, (batches_in * batch_bytes + 300) * 8).unwrap();
    let (mut log, report) = open(&vfs, OpenHint { clean: false, checkpoint });
    assert!(report.damaged.is_empty());
    assert!(report.truncated_bytes > 0);
    assert_eq!(log.log_end_offset(), Offset::new(66));
    fill(&mut log, 66..80);
    assert_eq!(values(&log), expected(0..80));
}

#[test]
fn a_hint_behind_a_bad_batch_tells_rot_from_a_torn_tail() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..12);
    log.flush().unwrap();
    log.advance_high_watermark(Offset::new(12));
    fill(&mut log, 12..15);
    let vfs = vfs.crash(CrashPolicy::KeepAll);
    vfs.flip_bit(&Path::new(DIR).join("00000000000000000000.log"), 900 * 8).unwrap();
    let (log, report) = open(&vfs, OpenHint::default());
    assert_eq!(report.damaged.len(), 1, "the batch of offset 12 carries the high watermark 12");
    assert_eq!(log.log_end_offset(), Offset::new(15));
}

#[test]
fn damaged_caches_are_rebuilt() {
    let vfs = MemoryVfs::new();
    let mut log = create(&vfs);
    fill(&mut log, 0..200);
    append(&mut log, batch_of(&[&value(200)], Some(1)));
    log.flush().unwrap();
    let checkpoint = Some(log.checkpoint_entry());
    log.close().unwrap();
    let names: Vec<String> =
        vfs.read_dir(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
    for name in names.iter().filter(|name| !name.ends_with(".log") && *name != "partition.meta") {
        for clean in [false, true] {
            let vfs = vfs.crash(CrashPolicy::LoseAll);
            let path = Path::new(DIR).join(name);
            let length = vfs.open(&path, OpenMode::Read).unwrap().len().unwrap();
            vfs.flip_bit(&path, (length - 1).min(45) * 8).unwrap();
            let (mut log, report) = open(&vfs, OpenHint { clean, checkpoint });
            assert!(report.damaged.is_empty(), "{name}: {report:?}");
            assert_eq!(report.producers, ProducerRecovery::Full);
            assert_eq!(values(&log), expected(0..201), "{name}");
            assert_eq!(log.leader_epoch(), LeaderEpoch::new(1));
            assert_eq!(log.producer_states().len(), 1);
            fill(&mut log, 201..210);
            assert_eq!(values(&log), expected(0..210), "{name}");
        }
    }
}
