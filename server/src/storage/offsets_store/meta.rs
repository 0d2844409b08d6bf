//! The meta row of a partition: how far its rows have come, and of what log.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | format, 1 |
//! | 1..17 | topic id of `__offsets` |
//! | 17..25 | applied, exclusive, u64 |
//! | 25..29 | leader epoch of the record applied − 1, u32; 0 where applied is 0 |
//! | 29..33 | loss generation, u32 |
//! | 33..41 | number of the partition's other rows, u64 |
//! | 41..49 | sum of the digests of these rows, u64 |
//!
//! Numbers are big-endian. The row is written in the same batch as the rows that it tells of (T53). RocksDB's checksums
//! find flipped bytes, but not that a whole flushed file or log went missing from its manifest; count and sum do.

use wharf_types::{LeaderEpoch, Offset, TopicId};

use super::error::RowError;

const FORMAT: u8 = 1;
const META_BYTES: usize = 49;

/// Counts the unclean elections of a partition (R9). While it stays, what was below a high watermark stays in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LossGeneration(pub(crate) u32);

/// How far a partition's rows have come, and of what log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionMeta {
    /// The topic id of `__offsets` whose log was applied.
    pub(crate) topic_id: TopicId,
    /// Exclusive end of the applied records.
    pub(crate) applied: Offset,
    /// Leader epoch of the record `applied` − 1; 0 where `applied` is 0.
    pub(crate) leader_epoch: LeaderEpoch,
    /// The partition's loss generation when they were applied.
    pub(crate) loss_generation: LossGeneration,
}

/// Number and digest of a partition's rows, which do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowDigest {
    rows: u64,
    sum: u64,
}

impl RowDigest {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash(key, value));
    }

    pub(super) fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash(key, value));
    }
}

pub(super) fn encode(meta: &PartitionMeta, digest: &RowDigest) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(META_BYTES);
    bytes.push(FORMAT);
    bytes.extend_from_slice(meta.topic_id.as_bytes());
    bytes.extend_from_slice(&meta.applied.value().to_be_bytes());
    bytes.extend_from_slice(&meta.leader_epoch.value().to_be_bytes());
    bytes.extend_from_slice(&meta.loss_generation.0.to_be_bytes());
    bytes.extend_from_slice(&digest.rows.to_be_bytes());
    bytes.extend_from_slice(&digest.sum.to_be_bytes());
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Result<(PartitionMeta, RowDigest), RowError> {
    let malformed = || RowError::Meta { format: bytes.first().copied(), actual: bytes.len() };
    let bytes: &[u8; META_BYTES] = bytes.try_into().map_err(|_| malformed())?;
    if bytes[0] != FORMAT {
        return Err(malformed());
    }
    let meta = PartitionMeta {
        topic_id: TopicId::from_bytes(field(bytes, 1)),
        applied: Offset::new(u64::from_be_bytes(field(bytes, 17))),
        leader_epoch: LeaderEpoch::new(u32::from_be_bytes(field(bytes, 25))),
        loss_generation: LossGeneration(u32::from_be_bytes(field(bytes, 29))),
    };
    let rows = u64::from_be_bytes(field(bytes, 33));
    Ok((meta, RowDigest { rows, sum: u64::from_be_bytes(field(bytes, 41)) }))
}

/// `N` bytes from `start`, which the table above keeps inside of the row.
fn field<const N: usize>(bytes: &[u8; META_BYTES], start: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[start..start + N]);
    field
}

/// FNV-1a over key length, key and value, then mixed so that sums of similar rows do not meet. On disk: never changes
/// within a format.
fn hash(key: &[u8], value: &[u8]) -> u64 {
    let length = (key.len() as u64).to_be_bytes();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in length.iter().chain(key).chain(value) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
