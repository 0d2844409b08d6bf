//! The format as a whole: round trips, and what happens to damaged bytes.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition,
};

use super::*;

#[derive(Clone, Debug)]
struct OwnedRecord {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp: u64,
}

fn record_strategy() -> impl Strategy<Value = OwnedRecord> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200));
    let timestamp = prop_oneof![0..2_000_000_000_000u64, Just(0), Just(i64::MAX as u64)];
    let headers = proptest::collection::vec(("[a-zé]{1,20}", bytes()), 0..4);
    (bytes(), bytes(), headers, timestamp).prop_map(|(key, value, headers, timestamp)| OwnedRecord {
        key,
        value,
        headers,
        timestamp,
    })
}

fn compression_strategy() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)]
}

fn entry(record_count: u32) -> RequestEntry {
    RequestEntry {
        producer_id: ProducerId::new(77),
        producer_epoch: ProducerEpoch::new(3),
        sequence: Sequence::new(12),
        record_count,
        source: EntrySource::Gateway,
    }
}

fn build(compression: Compression, records: &[OwnedRecord]) -> UnsealedBatch {
    let mut builder = BatchBuilder::new(compression);
    for record in records {
        let headers: Vec<_> =
            record.headers.iter().map(|(name, value)| HeaderView { name, value: value.as_deref() }).collect();
        builder
            .push_record(&RecordView {
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
                timestamp: TimestampMs::new(record.timestamp),
            })
            .unwrap();
    }
    builder.push_entry(entry(builder.record_count())).unwrap();
    builder.finish().unwrap()
}

fn partition() -> TopicPartition {
    TopicPartition { topic_id: TopicId::from_bytes([7; 16]), partition: PartitionIndex::new(5) }
}

fn seal() -> Seal {
    Seal {
        partition: partition(),
        base_offset: Offset::new(1_000),
        leader_epoch: LeaderEpoch::new(4),
        hw_hint: Offset::new(990),
        ack_mode: true,
        append_time: TimestampMs::new(1_700_000_000_000),
        kind: BatchKind::Data,
    }
}

fn small_batch(compression: Compression) -> SealedBatch {
    let record = OwnedRecord {
        key: Some(b"key".to_vec()),
        value: Some(vec![b'v'; 64]),
        headers: vec![("h".into(), Some(b"x".to_vec()))],
        timestamp: 1_700_000_000_000,
    };
    build(compression, &vec![record; 3]).seal(&seal()).unwrap()
}

fn assert_same(records: RecordIter, expected: &[OwnedRecord], base: u64) {
    let records: Vec<Record> = records.collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len(), expected.len());
    for (index, (record, expected)) in records.iter().zip(expected).enumerate() {
        assert_eq!(record.offset, Offset::new(base + index as u64));
        assert_eq!(record.timestamp, TimestampMs::new(expected.timestamp));
        assert_eq!(record.key.as_deref(), expected.key.as_deref());
        assert_eq!(record.value.as_deref(), expected.value.as_deref());
        assert_eq!(record.headers.len(), expected.headers.len());
        for (header, (name, value)) in record.headers.iter().zip(&expected.headers) {
            assert_eq!(header.name, name);
            assert_eq!(header.value, value.as_deref());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_built_is_read_back(
        records in proptest::collection::vec(record_strategy(), 1..40),
        compression in compression_strategy(),
    ) {
        let built = build(compression, &records);
        let decoded = UnsealedBatch::decode(built.to_bytes()).unwrap();
        prop_assert_eq!(&decoded, &built);
        assert_same(decoded.records().unwrap(), &records, 0);

        let sealed = decoded.seal(&seal()).unwrap();
        let verified = SealedBatch::verify(sealed.bytes().clone(), Some(partition())).unwrap();
        prop_assert_eq!(&verified, &sealed);
        prop_assert_eq!(verified.entries().unwrap(), vec![entry(records.len() as u32)]);
        prop_assert_eq!(verified.next_offset(), Offset::new(1_000 + records.len() as u64));
        assert_same(verified.records().unwrap(), &records, 1_000);
    }

    /// Beyond the CRCs, whatever a header claims: no panic, and no allocation beyond the limits.
    #[test]
    fn forged_batches_are_refused_or_read_within_bounds(
        field in 64..104usize,
        value: u8,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = small_batch(Compression::Lz4).bytes().to_vec();
        bytes[field] = value;
        let length = payload.len().min(bytes.len() - BATCH_HEADER_BYTES);
        bytes[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + length].copy_from_slice(&payload[..length]);
        forge_crcs(&mut bytes);
        if let Ok(batch) = SealedBatch::verify(Bytes::from(bytes), None) {
            let _ = batch.entries();
            if let Ok(records) = batch.records() {
                prop_assert!(records.count() <= batch.header().record_count as usize + 1);
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(SealedBatch::verify(Bytes::from(bytes.clone()), None).is_err());
        prop_assert!(UnsealedBatch::decode(Bytes::from(bytes)).is_err());
    }
}

fn forge_crcs(bytes: &mut [u8]) {
    let payload = header::payload_crc(bytes, &bytes[BATCH_HEADER_BYTES..]);
    bytes[header::PAYLOAD_CRC..header::HEADER_CRC].copy_from_slice(&payload.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..header::HEADER_CRC]);
    bytes[header::HEADER_CRC..BATCH_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn every_flipped_bit_of_a_sealed_batch_is_noticed() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bytes = small_batch(compression).bytes().clone();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SealedBatch::verify(Bytes::from(flipped), None).is_err(), "{compression:?} bit {bit}");
        }
    }
}

#[test]
fn every_flipped_bit_of_an_unsealed_batch_is_noticed() {
    let record = OwnedRecord { key: None, value: Some(vec![1; 100]), headers: vec![], timestamp: 5 };
    let bytes = build(Compression::Zstd, &[record]).to_bytes();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(UnsealedBatch::decode(Bytes::from(flipped)).is_err(), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let bytes = small_batch(Compression::None).bytes().clone();
    for length in 0..bytes.len() {
        assert!(SealedBatch::verify(bytes.slice(..length), None).is_err(), "length {length}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    let error = SealedBatch::verify(Bytes::from(longer), None).unwrap_err();
    assert!(matches!(error, BatchError::TrailingBytes { .. }));
}

#[test]
fn a_batch_of_another_partition_is_refused() {
    let other = TopicPartition { partition: PartitionIndex::new(6), ..partition() };
    let error = SealedBatch::verify(small_batch(Compression::None).bytes().clone(), Some(other)).unwrap_err();
    assert_eq!(error, BatchError::WrongPartition { expected: other, actual: partition() });
}

#[test]
fn a_sealed_batch_is_not_taken_for_an_unsealed_one() {
    let error = UnsealedBatch::decode(small_batch(Compression::None).bytes().clone()).unwrap_err();
    assert!(matches!(error, BatchError::AlreadySealed(_)));
}

#[test]
fn sealing_an_unshared_batch_does_not_copy_it() {
    let record = OwnedRecord { key: None, value: Some(vec![1; 10_000]), headers: vec![], timestamp: 5 };
    let batch = build(Compression::None, &[record]);
    let before = batch.to_bytes().as_ptr();
    let sealed = batch.seal(&seal()).unwrap();
    assert_eq!(sealed.bytes().as_ptr(), before);
}

#[test]
fn several_batches_are_split_one_by_one() {
    let first = small_batch(Compression::None);
    let second = small_batch(Compression::Lz4);
    let mut bytes = Bytes::from([first.bytes().as_ref(), second.bytes().as_ref()].concat());
    assert_eq!(SealedBatch::split_first(&mut bytes, None).unwrap(), Some(first));
    let whole = bytes.clone();
    bytes.truncate(whole.len() - 1);
    assert!(matches!(SealedBatch::split_first(&mut bytes, None), Err(BatchError::Truncated { .. })));
    bytes = whole;
    assert_eq!(SealedBatch::split_first(&mut bytes, None).unwrap(), Some(second));
    assert_eq!(SealedBatch::split_first(&mut bytes, None).unwrap(), None);
}

#[test]
fn entries_must_cover_exactly_the_records() {
    let mut builder = BatchBuilder::new(Compression::None);
    let view = RecordView { key: None, value: None, headers: &[], timestamp: TimestampMs::EPOCH };
    builder.push_record(&view).unwrap();
    builder.push_entry(entry(2)).unwrap();
    assert!(matches!(builder.finish(), Err(BatchError::Mismatch { expected: 1, actual: 2, .. })));
    assert_eq!(BatchBuilder::new(Compression::None).finish(), Err(BatchError::Empty));
}

#[test]
fn a_full_batch_refuses_more_and_stays_whole() {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = vec![0; 2 << 20];
    let view = RecordView { key: None, value: Some(&value), headers: &[], timestamp: TimestampMs::EPOCH };
    builder.push_record(&view).unwrap();
    builder.push_record(&view).unwrap();
    assert!(matches!(builder.push_record(&view), Err(BatchError::TooLarge { .. })));
    let batch = builder.finish().unwrap();
    assert_eq!(batch.record_count(), 2);
    assert!(UnsealedBatch::decode(batch.to_bytes()).is_ok());
}

#[test]
fn compaction_keeps_offsets_entries_and_encodings() {
    let batch = small_batch(Compression::Zstd);
    let section = batch.records_section().unwrap();
    let middle = RawRecords::new(&section, batch.header()).nth(1).unwrap().unwrap();
    let horizon = Some(TimestampMs::new(99));
    let compacted = assemble_compacted(&batch, middle.encoded, 1, horizon).unwrap();
    assert_eq!(compacted.base_offset(), batch.base_offset());
    assert_eq!(compacted.last_offset(), batch.last_offset());
    assert_eq!(compacted.entries().unwrap(), batch.entries().unwrap());
    assert_eq!(compacted.header().delete_horizon, horizon);
    let kept: Vec<_> = compacted.records().unwrap().map(Result::unwrap).collect();
    assert_eq!(kept, vec![batch.records().unwrap().nth(1).unwrap().unwrap()]);

    let empty = assemble_compacted(&batch, &[], 0, None).unwrap();
    assert_eq!(empty.records().unwrap().count(), 0);
    assert_eq!(empty.next_offset(), batch.next_offset());
}
