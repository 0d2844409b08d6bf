//! Keys and values of `__offsets` records as bytes.
//!
//! | bytes | key | value |
//! |---|---|---|
//! | 0 | format version, 1 | format version, 1 |
//! | 1.. | `wharf.persisted.v1.OffsetsRecordKey` | `wharf.persisted.v1.OffsetsRecordValue` of the same kind |
//!
//! A record without a value is a tombstone. A version or kind that is not known is an error, never skipped: it was written
//! by a newer Wharf, and a reader that went on would lose it at the next re-append (R15). The version rises with every
//! field that an older reader must not drop.
//!
//! Decoding checks whatever the state machine relies on (names, lengths, signs), so that bytes of disks and peers cannot
//! bring it into a state that its own records could not.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use wharf_proto::persisted::v1 as pb;
use wharf_types::limits::COMMIT_METADATA_BYTES_MAX;
use wharf_types::{
    GroupName, InvalidName, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition,
};

use crate::ids::{CommitSequence, GroupEpoch, MemberEpoch};
use crate::record::{CommitKey, CommitValue, GroupValue, Position, Record};

/// Version of keys and values that is written, and the only one that is read.
pub const FORMAT_VERSION: u8 = 1;

/// A record's key and value as they stand in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRecord {
    /// The key.
    pub key: Bytes,
    /// The value; `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// Why bytes are not an `__offsets` record that this version understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record has no key.
    #[error("a record of __offsets has no key")]
    KeyMissing,
    /// A key or value without its version byte.
    #[error("a {0} of __offsets is empty")]
    Empty(&'static str),
    /// A version that this reader does not know.
    #[error(
        "a {part} of __offsets has format version {actual}; this version of Wharf reads {FORMAT_VERSION}"
    )]
    UnknownVersion {
        /// `key` or `value`.
        part: &'static str,
        /// The version found.
        actual: u8,
    },
    /// Not the protobuf message that it should be.
    #[error("a {part} of __offsets cannot be decoded: {source}")]
    Malformed {
        /// `key` or `value`.
        part: &'static str,
        /// What the decoder says.
        source: prost::DecodeError,
    },
    /// A kind of key that this reader does not know.
    #[error("a key of __offsets is of a kind that this version of Wharf does not know")]
    UnknownKind,
    /// The value is not of the kind that the key says.
    #[error("a value of __offsets is not of the kind of its key ({expected})")]
    KindMismatch {
        /// The key's kind.
        expected: &'static str,
    },
    /// A group's name breaks the rules of names.
    #[error("a key of __offsets names no group: {0}")]
    Group(#[from] InvalidName),
    /// A topic id is not 16 bytes long.
    #[error("a topic id in __offsets has {actual} bytes instead of 16")]
    TopicIdLength {
        /// The length found.
        actual: usize,
    },
    /// A number that may not be negative is.
    #[error("{field} in __offsets is {actual}, below 0")]
    Negative {
        /// The field's name.
        field: &'static str,
        /// The number found.
        actual: i64,
    },
    /// Metadata above the limit of commits.
    #[error(
        "the metadata of a position in __offsets has {actual} bytes, more than {COMMIT_METADATA_BYTES_MAX}"
    )]
    MetadataTooLong {
        /// The length found.
        actual: usize,
    },
}

/// The bytes of a record.
#[must_use]
pub fn encode(record: &Record) -> EncodedRecord {
    match record {
        Record::Commit { key, value } => {
            EncodedRecord { key: encode_commit_key(key), value: Some(encode_commit_value(value)) }
        }
        Record::CommitTombstone(key) => EncodedRecord { key: encode_commit_key(key), value: None },
        Record::Group { group, value } => {
            EncodedRecord { key: encode_group_key(group), value: Some(encode_group_value(value)) }
        }
        Record::GroupTombstone(group) => EncodedRecord { key: encode_group_key(group), value: None },
    }
}

/// The record of these bytes, which come from a batch whose checksum was verified.
///
/// # Errors
/// [`DecodeError`]: the log was written by a newer version, or by something else than a coordinator. The partition must
/// stop.
pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Record, DecodeError> {
    use pb::offsets_record_key::Key;
    let key = versioned("key", key.ok_or(DecodeError::KeyMissing)?)?;
    let key = pb::OffsetsRecordKey::decode(key).map_err(|source| malformed("key", source))?;
    match (key.key.ok_or(DecodeError::UnknownKind)?, value) {
        (Key::Commit(key), Some(value)) => {
            Ok(Record::Commit { key: commit_key(&key)?, value: decode_commit_value(value)? })
        }
        (Key::Commit(key), None) => Ok(Record::CommitTombstone(commit_key(&key)?)),
        (Key::Group(key), Some(value)) => {
            Ok(Record::Group { group: GroupName::new(&key.group)?, value: decode_group_value(value)? })
        }
        (Key::Group(key), None) => Ok(Record::GroupTombstone(GroupName::new(&key.group)?)),
    }
}

/// The bytes of a position, as a record's value.
#[must_use]
pub fn encode_commit_value(value: &CommitValue) -> Bytes {
    let position = &value.position;
    let value = pb::CommitValue {
        offset: position.offset.to_wire(),
        leader_epoch: position.leader_epoch.map(|epoch| epoch.value().cast_signed()),
        metadata: position.metadata.as_deref().map(str::to_owned),
        commit_time_ms: position.commit_time.to_wire(),
        member_epoch: position.member_epoch.map(|epoch| epoch.value().cast_signed()),
        commit_sequence: position.commit_sequence.map(|sequence| sequence.value().cast_signed()),
        origin: value.origin.map(Offset::to_wire),
    };
    with_version(&value_of(pb::offsets_record_value::Value::Commit(value)))
}

/// The position in the value of a commit record.
///
/// # Errors
/// [`DecodeError`] as for [`decode`].
pub fn decode_commit_value(bytes: &[u8]) -> Result<CommitValue, DecodeError> {
    let pb::offsets_record_value::Value::Commit(value) = decode_value(bytes, "commit")? else {
        return Err(DecodeError::KindMismatch { expected: "commit" });
    };
    if let Some(actual) =
        value.metadata.as_ref().map(String::len).filter(|len| *len > COMMIT_METADATA_BYTES_MAX)
    {
        return Err(DecodeError::MetadataTooLong { actual });
    }
    let position = Position {
        offset: offset("offset", value.offset)?,
        leader_epoch: value.leader_epoch.map(|epoch| LeaderEpoch::new(epoch.cast_unsigned())),
        metadata: value.metadata.map(Into::into),
        commit_time: TimestampMs::from_wire(value.commit_time_ms)
            .ok_or(DecodeError::Negative { field: "commit_time_ms", actual: value.commit_time_ms })?,
        member_epoch: value.member_epoch.map(|epoch| MemberEpoch::new(epoch.cast_unsigned())),
        commit_sequence: value.commit_sequence.map(|number| CommitSequence::new(number.cast_unsigned())),
    };
    Ok(CommitValue { position, origin: value.origin.map(|origin| offset("origin", origin)).transpose()? })
}

/// The bytes of a group, as a record's value.
#[must_use]
pub fn encode_group_value(value: &GroupValue) -> Bytes {
    let value = pb::GroupValue {
        group_epoch: value.group_epoch.value().cast_signed(),
        created_time_ms: value.created_time.to_wire(),
    };
    with_version(&value_of(pb::offsets_record_value::Value::Group(value)))
}

/// The group in the value of a group record.
///
/// # Errors
/// [`DecodeError`] as for [`decode`].
pub fn decode_group_value(bytes: &[u8]) -> Result<GroupValue, DecodeError> {
    let pb::offsets_record_value::Value::Group(value) = decode_value(bytes, "group")? else {
        return Err(DecodeError::KindMismatch { expected: "group" });
    };
    Ok(GroupValue {
        group_epoch: GroupEpoch::new(value.group_epoch.cast_unsigned()),
        created_time: TimestampMs::from_wire(value.created_time_ms)
            .ok_or(DecodeError::Negative { field: "created_time_ms", actual: value.created_time_ms })?,
    })
}

fn encode_commit_key(key: &CommitKey) -> Bytes {
    with_version(&pb::OffsetsRecordKey {
        key: Some(pb::offsets_record_key::Key::Commit(pb::CommitKey {
            group: key.group.as_str().to_owned(),
            topic_id: Bytes::copy_from_slice(key.topic_partition.topic_id.as_bytes()),
            partition: key.topic_partition.partition.to_wire(),
        })),
    })
}

fn encode_group_key(group: &GroupName) -> Bytes {
    with_version(&pb::OffsetsRecordKey {
        key: Some(pb::offsets_record_key::Key::Group(pb::GroupKey { group: group.as_str().to_owned() })),
    })
}

fn commit_key(key: &pb::CommitKey) -> Result<CommitKey, DecodeError> {
    let topic_id = TopicId::from_slice(&key.topic_id)
        .ok_or(DecodeError::TopicIdLength { actual: key.topic_id.len() })?;
    let partition = PartitionIndex::new(key.partition.cast_unsigned());
    Ok(CommitKey {
        group: GroupName::new(&key.group)?,
        topic_partition: TopicPartition { topic_id, partition },
    })
}

fn value_of(value: pb::offsets_record_value::Value) -> pb::OffsetsRecordValue {
    pb::OffsetsRecordValue { value: Some(value) }
}

fn decode_value(
    bytes: &[u8],
    expected: &'static str,
) -> Result<pb::offsets_record_value::Value, DecodeError> {
    pb::OffsetsRecordValue::decode(versioned("value", bytes)?)
        .map_err(|source| malformed("value", source))?
        .value
        .ok_or(DecodeError::KindMismatch { expected })
}

fn with_version(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + message.encoded_len());
    bytes.put_u8(FORMAT_VERSION);
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

fn versioned<'a>(part: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    match bytes.split_first() {
        Some((&FORMAT_VERSION, rest)) => Ok(rest),
        Some((&actual, _)) => Err(DecodeError::UnknownVersion { part, actual }),
        None => Err(DecodeError::Empty(part)),
    }
}

fn malformed(part: &'static str, source: prost::DecodeError) -> DecodeError {
    DecodeError::Malformed { part, source }
}

fn offset(field: &'static str, value: i64) -> Result<Offset, DecodeError> {
    Offset::from_wire(value).ok_or(DecodeError::Negative { field, actual: value })
}
