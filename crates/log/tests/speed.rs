//! How fast a log is on the real disk. Ignored by default: `cargo test -p wharf-log --test speed -- --ignored
//! --nocapture`, with `WHARF_SPEED_MIB` for the size of the log (default 1,024).
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use wharf_log::batch::{BatchBuilder, RecordView, UnsealedBatch};
use wharf_log::log::{LeaderAppend, LeaderAppendOutcome, Log, LogConfig, OpenHint, ReadLimit};
use wharf_log::vfs::{RealVfs, Vfs};
use wharf_types::{Compression, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([3; 16]), partition: PartitionIndex::new(0) };

fn batch(bytes: usize) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = vec![7; 1000];
    for _ in 0..bytes / 1000 {
        let timestamp = TimestampMs::new(1);
        builder.push_record(&RecordView { key: None, value: Some(&value), headers: &[], timestamp }).unwrap();
    }
    builder.finish().unwrap()
}

#[test]
#[ignore = "writes gigabytes"]
fn append_read_and_open() {
    let mib: u64 = std::env::var("WHARF_SPEED_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1024);
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("p");
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let config = LogConfig { segment_bytes: 1 << 30, ..LogConfig::default() };
    let mut log = Log::create(Arc::clone(&vfs), &dir, PARTITION, config.clone(), b"").unwrap();
    let wire = batch(64 << 10).to_bytes();
    let count = mib * 16;
    let (mut append, mut checkpoint) = (std::time::Duration::ZERO, None);
    for n in 0..count {
        let batch = UnsealedBatch::decode(bytes::Bytes::copy_from_slice(&wire)).unwrap();
        let context = LeaderAppend {
            leader_epoch: LeaderEpoch::new(1),
            high_watermark: log.high_watermark(),
            now: TimestampMs::new(n),
        };
        let start = Instant::now();
        let outcome = log.append_leader(batch, &context).unwrap();
        append += start.elapsed();
        assert!(matches!(outcome, LeaderAppendOutcome::Appended { .. }));
        if n == count - count / 8 {
            log.flush().unwrap();
            checkpoint = Some(log.checkpoint_entry());
        }
    }
    let start = Instant::now();
    log.flush().unwrap();
    println!(
        "append of a 64 KiB batch: {:?}; last flush {:?}",
        append / u32::try_from(count).unwrap(),
        start.elapsed()
    );
    let reader = log.reader();
    let (start, mut next) = (Instant::now(), Offset::ZERO);
    while next < log.log_end_offset() {
        next = reader.read(next, ReadLimit { max_bytes: 1 << 20, end: Offset::MAX }).unwrap().next_offset;
    }
    println!("reading: {:.0} MiB/s", mib as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    for n in 0..1000 {
        let from = Offset::new(n * 7919 % log.log_end_offset().value());
        reader.read(from, ReadLimit { max_bytes: 1, end: Offset::MAX }).unwrap();
    }
    println!("one batch from anywhere: {:?}", start.elapsed() / 1000);
    let end = log.log_end_offset();
    for (name, hint) in [
        ("after a crash, checkpoint 1/8 before the end", OpenHint { clean: false, checkpoint }),
        ("after a crash, no checkpoint", OpenHint::default()),
    ] {
        let start = Instant::now();
        let (opened, report) =
            Log::open(Arc::clone(&vfs), &dir, PARTITION, config.clone(), hint, TimestampMs::EPOCH).unwrap();
        println!("open {name}: {:?}, {} MiB scanned", start.elapsed(), report.scanned_bytes >> 20);
        assert_eq!(opened.log_end_offset(), end);
    }
    let checkpoint = Some(log.close().unwrap());
    let hint = OpenHint { clean: true, checkpoint };
    let start = Instant::now();
    let (opened, report) = Log::open(vfs, &dir, PARTITION, config, hint, TimestampMs::EPOCH).unwrap();
    println!("open after a clean stop: {:?}, {} bytes scanned", start.elapsed(), report.scanned_bytes);
    assert_eq!(opened.log_end_offset(), end);
}
