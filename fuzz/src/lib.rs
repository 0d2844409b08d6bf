//! What the fuzz targets and their seeds share.

use bytes::Bytes;
use wharf_log::batch::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchKind, EntrySource, HeaderView, RecordIter, RecordView,
    RequestEntry, Seal, UnsealedBatch,
};
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition,
};

/// Where the builder's part of a batch header starts, which the payload CRC covers.
const BUILDER_PART: usize = 66;
const PAYLOAD_CRC: usize = 104;
const HEADER_CRC: usize = 108;

/// The partition of every batch here.
pub fn partition() -> TopicPartition {
    TopicPartition { topic_id: TopicId::from_bytes([7; 16]), partition: PartitionIndex::new(5) }
}

/// A place for a batch.
pub fn seal(base_offset: u64, kind: BatchKind) -> Seal {
    Seal {
        partition: partition(),
        base_offset: Offset::new(base_offset),
        leader_epoch: LeaderEpoch::new(4),
        hw_hint: Offset::new(base_offset),
        ack_mode: true,
        append_time: TimestampMs::new(1_700_000_000_000),
        kind,
    }
}

/// A batch of three records of two requests, both of this sequence.
pub fn sample_batch(compression: Compression, sequence: u64) -> UnsealedBatch {
    sample_batch_of(compression, sequence, 40)
}

/// The same with values of about so many bytes.
pub fn sample_batch_of(compression: Compression, sequence: u64, value_bytes: usize) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(compression);
    let headers =
        [HeaderView { name: "trace", value: Some(b"ab") }, HeaderView { name: "flag", value: None }];
    let timestamp = TimestampMs::new(1_700_000_000_000 + sequence);
    let value = format!("{sequence:04}").repeat(value_bytes / 4);
    let value = Some(value.as_bytes());
    let records = [
        RecordView { key: Some(b"key"), value, headers: &headers, timestamp },
        RecordView { key: Some(b"gone"), value: None, headers: &[], timestamp },
        RecordView { key: None, value, headers: &[], timestamp: TimestampMs::new(1) },
    ];
    for record in records {
        builder.push_record(&record).expect("a small record fits");
    }
    let entry = RequestEntry {
        producer_id: ProducerId::new(77),
        producer_epoch: ProducerEpoch::new(1),
        sequence: Sequence::new(sequence),
        record_count: 1,
        source: EntrySource::Client,
    };
    let gateway = RequestEntry {
        producer_id: ProducerId::new(900),
        record_count: 2,
        source: EntrySource::Gateway,
        ..entry
    };
    for entry in [entry, gateway] {
        builder.push_entry(entry).expect("a small entry fits");
    }
    builder.finish().expect("entries cover the records")
}

/// Puts a batch's length and payload CRC right, so that the checks behind them are reached.
pub fn fix_payload_crc(bytes: &mut [u8]) {
    if bytes.len() < BATCH_HEADER_BYTES {
        return;
    }
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    let header = crc32c::crc32c(&bytes[BUILDER_PART..PAYLOAD_CRC]);
    let crc = crc32c::crc32c_append(header, &bytes[BATCH_HEADER_BYTES..]);
    bytes[PAYLOAD_CRC..HEADER_CRC].copy_from_slice(&crc.to_le_bytes());
}

/// Puts both CRCs of a batch right.
pub fn fix_crcs(bytes: &mut [u8]) {
    fix_payload_crc(bytes);
    if bytes.len() < BATCH_HEADER_BYTES {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..HEADER_CRC]);
    bytes[HEADER_CRC..BATCH_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Walks over records: at most as many as the header claims, offsets rising, nothing after an error.
pub fn walk_records(records: RecordIter, record_count: u32) {
    let mut last = None;
    let mut good = 0u64;
    let mut failed = false;
    for record in records {
        assert!(!failed, "a record after an error");
        let Ok(record) = record else {
            failed = true;
            continue;
        };
        good += 1;
        assert!(last.is_none_or(|last| last < record.offset), "offsets do not rise");
        last = Some(record.offset);
        assert_eq!(record.headers.iter().count(), record.headers.len());
    }
    assert!(good <= u64::from(record_count), "more records than the header claims");
    assert!(failed || good == u64::from(record_count), "fewer records than the header claims, and no error");
}

/// A payload in the frame of a small file, as this version would write it.
pub fn framed(magic: &[u8; 4], version: u16, payload: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(16 + payload.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), payload);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(payload);
    Bytes::from(bytes)
}
