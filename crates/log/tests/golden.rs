//! The formats, byte by byte: files that version 1 wrote must be read for ever.
//!
//! The files under `golden/` are hexadecimal with comments. Where writing is deterministic they are also compared with
//! what this version writes; what a codec compresses to may change with its library, what it decompresses to may not.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use bytes::Bytes;
use wharf_log::batch::{
    BatchBuilder, BatchKind, ControlRecord, EntrySource, HeaderView, RecordView, RequestEntry, Seal,
    SealedBatch, UnsealedBatch,
};
use wharf_log::epochs::EpochCache;
use wharf_log::producer::ProducerStates;
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition,
};

/// The bytes of a file: hexadecimal digits, blanks, and comments from `#` to the end of a line.
fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let digits: String = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().chars())
        .filter(|c| !c.is_whitespace())
        .collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn partition() -> TopicPartition {
    TopicPartition {
        topic_id: TopicId::parse("000102030405060708090a0b0c0d0e0f").unwrap(),
        partition: PartitionIndex::new(5),
    }
}

fn seal(kind: BatchKind) -> Seal {
    Seal {
        partition: partition(),
        base_offset: Offset::new(1_000),
        leader_epoch: LeaderEpoch::new(4),
        hw_hint: Offset::new(990),
        ack_mode: true,
        append_time: TimestampMs::new(1_700_000_000_500),
        kind,
    }
}

fn entries() -> [RequestEntry; 2] {
    let client = RequestEntry {
        producer_id: ProducerId::new(77),
        producer_epoch: ProducerEpoch::new(3),
        sequence: Sequence::new(12),
        record_count: 1,
        source: EntrySource::Client,
    };
    let gateway = RequestEntry {
        producer_id: ProducerId::new(900),
        producer_epoch: ProducerEpoch::new(0),
        sequence: Sequence::new(41),
        record_count: 2,
        source: EntrySource::Gateway,
    };
    [client, gateway]
}

/// A record with all parts, a tombstone, and a record of a value that compresses.
fn build(compression: Compression) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(compression);
    let headers =
        [HeaderView { name: "trace", value: Some(b"ab") }, HeaderView { name: "flag", value: None }];
    let time = TimestampMs::new;
    let full = RecordView {
        key: Some(b"key-1"),
        value: Some(b"value"),
        headers: &headers,
        timestamp: time(1_700_000_000_000),
    };
    let tombstone =
        RecordView { key: Some(b"key-2"), value: None, headers: &[], timestamp: time(1_700_000_000_300) };
    let long =
        RecordView { key: None, value: Some(&[b'w'; 40]), headers: &[], timestamp: time(1_699_999_999_999) };
    for record in [full, tombstone, long] {
        builder.push_record(&record).unwrap();
    }
    for entry in entries() {
        builder.push_entry(entry).unwrap();
    }
    builder.finish().unwrap()
}

fn check_batch(bytes: Vec<u8>, compression: Compression) {
    let batch = SealedBatch::verify(Bytes::from(bytes), Some(partition())).unwrap();
    let expected = build(Compression::None).seal(&seal(BatchKind::Data)).unwrap();
    assert_eq!(batch.header().compression, compression);
    assert_eq!(batch.header().records_raw_bytes, expected.header().records_raw_bytes);
    assert_eq!(batch.base_offset(), Offset::new(1_000));
    assert_eq!(batch.last_offset(), Offset::new(1_002));
    assert_eq!(batch.leader_epoch(), LeaderEpoch::new(4));
    assert_eq!(batch.hw_hint(), Offset::new(990));
    assert_eq!(batch.append_time(), TimestampMs::new(1_700_000_000_500));
    assert_eq!(batch.max_timestamp(), TimestampMs::new(1_700_000_000_300));
    assert!(batch.header().ack_mode && batch.header().keyed && !batch.header().transactional);
    assert_eq!(batch.entries().unwrap(), entries());
    let records: Vec<_> = batch.records().unwrap().map(Result::unwrap).collect();
    let expected: Vec<_> = expected.records().unwrap().map(Result::unwrap).collect();
    assert_eq!(records, expected);
    assert_eq!(records[0].headers.iter().map(|header| header.name).collect::<Vec<_>>(), ["trace", "flag"]);
}

#[test]
fn an_uncompressed_batch_has_these_bytes() {
    let bytes = golden("batch-v1-none.hex");
    assert_eq!(build(Compression::None).seal(&seal(BatchKind::Data)).unwrap().bytes().as_ref(), bytes);
    check_batch(bytes, Compression::None);
}

#[test]
fn an_lz4_batch_of_these_bytes_is_read() {
    check_batch(golden("batch-v1-lz4.hex"), Compression::Lz4);
}

#[test]
fn a_zstd_batch_of_these_bytes_is_read() {
    check_batch(golden("batch-v1-zstd.hex"), Compression::Zstd);
}

#[test]
fn an_unsealed_batch_has_zeros_for_the_leaders_part() {
    let unsealed = build(Compression::None).to_bytes();
    let mut expected = golden("batch-v1-none.hex");
    expected[8..66].fill(0);
    expected[108..112].fill(0);
    assert_eq!(unsealed.as_ref(), expected);
}

fn expiry() -> SealedBatch {
    let record =
        ControlRecord::ProducerExpiry { producer_ids: vec![ProducerId::new(77), ProducerId::new(900)] };
    record.to_batch(TimestampMs::new(1_700_000_000_000)).unwrap().seal(&seal(BatchKind::Control)).unwrap()
}

#[test]
fn a_producer_expiry_has_these_bytes() {
    let bytes = golden("control-producer-expiry-v1.hex");
    assert_eq!(expiry().bytes().as_ref(), bytes);
    let batch = SealedBatch::verify(Bytes::from(bytes), None).unwrap();
    let ControlRecord::ProducerExpiry { producer_ids } = ControlRecord::from_batch(&batch).unwrap() else {
        panic!("not an expiry")
    };
    assert_eq!(producer_ids, [ProducerId::new(77), ProducerId::new(900)]);
}

fn states() -> ProducerStates {
    let mut states = ProducerStates::new(Offset::new(1_000));
    states.apply(&build(Compression::None).seal(&seal(BatchKind::Data)).unwrap()).unwrap();
    states
}

#[test]
fn a_producer_snapshot_has_these_bytes() {
    let bytes = golden("producer-snapshot-v1.hex");
    assert_eq!(states().encode_snapshot(), bytes);
    let read = ProducerStates::decode_snapshot(Path::new("golden"), &bytes).unwrap();
    assert_eq!(read.end_offset(), Offset::new(1_003));
    let request = read.window(ProducerId::new(900)).next().unwrap();
    assert_eq!((request.base_offset, request.last_offset()), (Offset::new(1_001), Offset::new(1_002)));
}

fn epochs() -> EpochCache {
    let mut epochs = EpochCache::new();
    epochs.assign(LeaderEpoch::new(1), Offset::ZERO).unwrap();
    epochs.assign(LeaderEpoch::new(4), Offset::new(1_000)).unwrap();
    epochs
}

#[test]
fn an_epoch_file_has_these_bytes() {
    let bytes = golden("epochs-v1.hex");
    assert_eq!(epochs().encode(), bytes);
    assert_eq!(EpochCache::decode(Path::new("golden"), &bytes).unwrap(), epochs());
}
