//! Keys and values of the store's rows. Numbers are big-endian, so that keys sort by partition, kind and group.
//!
//! | row | key | value |
//! |---|---|---|
//! | meta | partition u32, 0 | see [`super::meta`] |
//! | group | partition u32, 1, group name | record offset u64, value of the group record |
//! | position | partition u32, 2, group name, 0, topic id (16), partition u32 | record offset u64, value of the commit record |
//!
//! Group names have no byte 0, so the rows of one group are exactly those that begin with its name and a 0. The record
//! offset is that of the key's last record; a position's value always holds its origin.

use wharf_coordinator::{CommitKey, Record, codec};
use wharf_types::{GroupName, Offset, PartitionIndex, TopicId, TopicPartition};

use super::error::RowError;

const META: u8 = 0;
const GROUP: u8 = 1;
const POSITION: u8 = 2;
const PREFIX_BYTES: usize = 4;
const OFFSET_BYTES: usize = 8;
const TOPIC_PARTITION_BYTES: usize = 16 + 4;

/// The key of a partition's meta row: the first of its rows.
pub(super) fn meta_key(partition: PartitionIndex) -> Vec<u8> {
    prefix(partition, META)
}

/// The key before which all rows of a partition lie; none only for the last partition there could be.
pub(super) fn end_key(partition: PartitionIndex) -> Vec<u8> {
    match partition.value().checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xff; PREFIX_BYTES + 1],
    }
}

/// The key of a group's own row.
pub(super) fn group_key(partition: PartitionIndex, group: &GroupName) -> Vec<u8> {
    let mut key = prefix(partition, GROUP);
    key.extend_from_slice(group.as_str().as_bytes());
    key
}

/// What the keys of all positions of a group begin with, and no others.
pub(super) fn positions_prefix(partition: PartitionIndex, group: &GroupName) -> Vec<u8> {
    let mut key = prefix(partition, POSITION);
    key.extend_from_slice(group.as_str().as_bytes());
    key.push(0);
    key
}

/// The key of a position.
pub(super) fn position_key(partition: PartitionIndex, key: &CommitKey) -> Vec<u8> {
    let mut bytes = positions_prefix(partition, &key.group);
    bytes.extend_from_slice(key.topic_partition.topic_id.as_bytes());
    bytes.extend_from_slice(&key.topic_partition.partition.value().to_be_bytes());
    bytes
}

/// The value of a row: where the record stands, then its own value.
pub(super) fn value(record_offset: Offset, record_value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(OFFSET_BYTES + record_value.len());
    bytes.extend_from_slice(&record_offset.value().to_be_bytes());
    bytes.extend_from_slice(record_value);
    bytes
}

/// The partition that a key names; 0 for one that is too short.
pub(super) fn partition_of(key: &[u8]) -> PartitionIndex {
    PartitionIndex::new(key.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)))
}

/// Whether a key is of a meta row.
pub(super) fn is_meta(key: &[u8]) -> bool {
    key.get(PREFIX_BYTES..) == Some(&[META])
}

/// The record that a group or position row was made of, and where it stands.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<(Offset, Record), RowError> {
    let (offset, value) =
        value.split_first_chunk::<OFFSET_BYTES>().ok_or(RowError::Short { actual: value.len() })?;
    let offset = Offset::new(u64::from_be_bytes(*offset));
    let (kind, name) = key.get(PREFIX_BYTES..).and_then(<[u8]>::split_first).ok_or(RowError::Key)?;
    let record = match *kind {
        GROUP => Record::Group { group: group_name(name)?, value: codec::decode_group_value(value)? },
        POSITION => Record::Commit { key: commit_key(name)?, value: codec::decode_commit_value(value)? },
        _ => return Err(RowError::Key),
    };
    Ok((offset, record))
}

fn prefix(partition: PartitionIndex, kind: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX_BYTES + 1);
    key.extend_from_slice(&partition.value().to_be_bytes());
    key.push(kind);
    key
}

fn commit_key(bytes: &[u8]) -> Result<CommitKey, RowError> {
    let split = bytes.len().checked_sub(TOPIC_PARTITION_BYTES).ok_or(RowError::Key)?;
    let (name, topic_partition) = bytes.split_at(split);
    let name = name.strip_suffix(&[0]).ok_or(RowError::Key)?;
    let (topic_id, partition) = topic_partition.split_first_chunk::<16>().ok_or(RowError::Key)?;
    let partition = partition.try_into().map_err(|_| RowError::Key)?;
    Ok(CommitKey {
        group: group_name(name)?,
        topic_partition: TopicPartition {
            topic_id: TopicId::from_bytes(*topic_id),
            partition: PartitionIndex::new(u32::from_be_bytes(partition)),
        },
    })
}

fn group_name(bytes: &[u8]) -> Result<GroupName, RowError> {
    std::str::from_utf8(bytes).ok().and_then(|name| GroupName::new(name).ok()).ok_or(RowError::Key)
}
