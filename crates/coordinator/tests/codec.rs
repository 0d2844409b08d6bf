//! The bytes of `__offsets` records: golden examples, and that whatever is accepted can be read back.
#![allow(clippy::unwrap_used)]

mod common;

use proptest::prelude::*;
use wharf_coordinator::{
    CommitKey, CommitValue, DecodeError, GroupEpoch, GroupValue, Position, Record, codec,
};
use wharf_types::{GroupName, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

fn example() -> Record {
    Record::Commit {
        key: CommitKey {
            group: GroupName::new("g").unwrap(),
            topic_partition: TopicPartition {
                topic_id: TopicId::from_bytes(*b"0123456789abcdef"),
                partition: PartitionIndex::new(3),
            },
        },
        value: CommitValue {
            position: Position {
                offset: Offset::new(5),
                leader_epoch: Some(LeaderEpoch::new(0)),
                metadata: Some("m".into()),
                commit_time: TimestampMs::new(300),
                member_epoch: None,
                commit_sequence: None,
            },
            origin: Some(Offset::new(7)),
        },
    }
}

/// Format 1, which every later version must read.
#[test]
fn a_commit_has_these_bytes() {
    let encoded = codec::encode(&example());
    let key: &[u8] = &[
        1, // format version
        0x0a, 23, // field 1, commit: 23 bytes
        0x0a, 1, b'g', // field 1, group
        0x12, 16, b'0', b'1', b'2', b'3', b'4', b'5', b'6', b'7', b'8', b'9', b'a', b'b', b'c', b'd', b'e',
        b'f', // field 2, topic id
        0x18, 3, // field 3, partition
    ];
    let value: &[u8] = &[
        1, // format version
        0x0a, 12, // field 1, commit: 12 bytes
        0x08, 5, // field 1, offset
        0x10, 0, // field 2, leader epoch, present though 0
        0x1a, 1, b'm', // field 3, metadata
        0x20, 0xac, 2, // field 4, commit time 300
        0x38, 7, // field 7, origin
    ];
    assert_eq!(&encoded.key[..], key);
    assert_eq!(encoded.value.as_deref(), Some(value));
    assert_eq!(codec::decode(Some(key), Some(value)), Ok(example()));
}

#[test]
fn a_group_has_these_bytes() {
    let value = GroupValue { group_epoch: GroupEpoch::new(2), created_time: TimestampMs::new(1) };
    let record = Record::Group { group: GroupName::new("g").unwrap(), value };
    let encoded = codec::encode(&record);
    // Format version; field 2, group: its field 1, name.
    assert_eq!(&encoded.key[..], &[1, 0x12, 3, 0x0a, 1, b'g']);
    // Format version; field 2, group: its field 1, group epoch, and 2, time.
    assert_eq!(encoded.value.as_deref(), Some(&[1, 0x12, 4, 0x08, 2, 0x10, 1][..]));
    assert_eq!(codec::decode(Some(&encoded.key), encoded.value.as_deref()), Ok(record));
}

#[test]
fn what_a_newer_version_wrote_is_an_error() {
    let encoded = codec::encode(&example());
    let mut key = encoded.key.to_vec();
    key[0] = 2;
    let error = codec::decode(Some(&key), None).unwrap_err();
    assert_eq!(error, DecodeError::UnknownVersion { part: "key", actual: 2 });
    // Field 9 of the key: a kind that is not known.
    assert_eq!(codec::decode(Some(&[1, 0x4a, 0]), None), Err(DecodeError::UnknownKind));
    assert_eq!(codec::decode(None, None), Err(DecodeError::KeyMissing));
    assert_eq!(codec::decode(Some(&[]), None), Err(DecodeError::Empty("key")));
}

#[test]
fn a_value_of_another_kind_than_its_key_is_an_error() {
    let commit = codec::encode(&example());
    let error = codec::decode(Some(&[1, 0x12, 3, 0x0a, 1, b'g']), commit.value.as_deref()).unwrap_err();
    assert_eq!(error, DecodeError::KindMismatch { expected: "group" });
}

#[test]
fn names_and_numbers_that_no_coordinator_writes_are_errors() {
    assert!(matches!(codec::decode(Some(&[1, 0x12, 3, 0x0a, 1, b'/']), None), Err(DecodeError::Group(_))));
    // A commit key with an empty topic id.
    let error = codec::decode(Some(&[1, 0x0a, 3, 0x0a, 1, b'g']), None).unwrap_err();
    assert_eq!(error, DecodeError::TopicIdLength { actual: 0 });
    // A commit value with offset -1.
    let mut value = vec![1, 0x0a, 11, 0x08];
    value.extend([0xff; 9]);
    value.push(1);
    let error = codec::decode_commit_value(&value).unwrap_err();
    assert_eq!(error, DecodeError::Negative { field: "offset", actual: -1 });
}

proptest! {
    #[test]
    fn every_record_round_trips(record in common::record()) {
        let encoded = codec::encode(&record);
        prop_assert_eq!(codec::decode(Some(&encoded.key), encoded.value.as_deref()), Ok(record.clone()));
        let bytes = encoded.key.len() + encoded.value.map_or(0, |value| value.len());
        prop_assert!(record.log_bytes_estimate() >= bytes as u64);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        mut key in proptest::collection::vec(any::<u8>(), 0..40),
        mut value in proptest::collection::vec(any::<u8>(), 0..40),
        version in any::<bool>(),
    ) {
        if version {
            key.insert(0, 1);
            value.insert(0, 1);
        }
        let _ = codec::decode(Some(&key), Some(&value));
        let _ = codec::decode_commit_value(&value);
        let _ = codec::decode_group_value(&value);
    }
}
