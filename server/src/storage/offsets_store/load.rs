//! Reading a partition's rows at start, and whether they may be used.

use rocksdb::{Direction, IteratorMode};
use wharf_coordinator::{GroupShard, Record, ShardRestore};
use wharf_types::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use super::error::OffsetsStoreError;
use super::meta::{self, LossGeneration, PartitionMeta, RowDigest};
use super::{OffsetsStore, Progress, read_options, row};

/// What the log of a partition says, against which its rows are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogView {
    /// The topic id of `__offsets`.
    pub(crate) topic_id: TopicId,
    /// The partition's loss generation.
    pub(crate) loss_generation: LossGeneration,
    /// LSTART.
    pub(crate) log_start_offset: Offset,
    /// LEO, after recovery.
    pub(crate) log_end_offset: Offset,
}

/// Why the rows of a partition were wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WipeReason {
    /// There are rows, but no meta row.
    #[error("its rows have no meta row")]
    MetaMissing,
    /// Rows are missing, or are there that should not be.
    #[error("its rows are not those that the meta row tells of")]
    Digest,
    /// The rows are of another incarnation of the topic.
    #[error("its rows are of topic {stored}")]
    TopicId {
        /// The topic id stored.
        stored: TopicId,
    },
    /// An unclean election lay between.
    #[error("its rows are of loss generation {}", .stored.0)]
    LossGeneration {
        /// The generation stored.
        stored: LossGeneration,
    },
    /// The log begins above the rows' end.
    #[error("its rows end at {applied}, below the log start offset")]
    BelowLogStart {
        /// Their end.
        applied: Offset,
    },
    /// The log ends below the rows' end.
    #[error("its rows end at {applied}, above the log end offset")]
    AboveLogEnd {
        /// Their end.
        applied: Offset,
    },
    /// The last record applied is of another epoch than the log has at its offset.
    #[error("the last record applied has leader epoch {stored}, the log has {log:?} there")]
    LeaderEpoch {
        /// The epoch stored.
        stored: LeaderEpoch,
        /// The epoch in the log, if it knows one.
        log: Option<LeaderEpoch>,
    },
}

/// A partition's state at start.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The groups, with `applied` where the replay goes on: after the rows, or at the log start offset.
    pub(crate) shard: GroupShard,
    /// How far the rows have come: the replica's high watermark is at least `applied` (R15). `None` without rows.
    pub(crate) meta: Option<PartitionMeta>,
    /// Why all rows were wiped, if they were.
    pub(crate) wiped: Option<WipeReason>,
}

impl OffsetsStore {
    /// Reads the rows of a partition, or wipes them where they do not belong to the log (R15). `epoch_at` gives the leader
    /// epoch that the log's epoch cache has for an offset.
    ///
    /// # Errors
    /// [`OffsetsStoreError`]; where [`OffsetsStoreError::is_damage`], the store must be opened anew by
    /// [`OffsetsStore::open_or_rebuild`].
    pub(crate) fn load(
        &self,
        partition: PartitionIndex,
        log: &LogView,
        epoch_at: impl FnOnce(Offset) -> Option<LeaderEpoch>,
    ) -> Result<Loaded, OffsetsStoreError> {
        let meta = self.meta(partition);
        let applied = meta.map_or(log.log_start_offset, |meta| meta.applied);
        let mut restore = ShardRestore::new(applied);
        let mut found = RowDigest::default();
        self.for_each_row(Some(partition), |key, value| {
            if !row::is_meta(key) {
                found.add(key, value);
                let (offset, record) = decode_row(key, value)?;
                restore.put(offset, record);
            }
            Ok(())
        })?;
        let reason = match meta {
            Some(_) if found != self.progress(partition).digest => Some(WipeReason::Digest),
            Some(meta) => mismatch(&meta, log, epoch_at),
            None if found != RowDigest::default() => Some(WipeReason::MetaMissing),
            None => None,
        };
        let Some(reason) = reason else {
            return Ok(Loaded { shard: restore.finish(), meta, wiped: None });
        };
        tracing::warn!(partition = partition.value(), %reason, "offsets are wiped and replayed from the log");
        self.wipe(partition)?;
        Ok(Loaded { shard: GroupShard::new(log.log_start_offset), meta: None, wiped: Some(reason) })
    }

    /// Reads every row once and takes over the meta rows. RocksDB has synced all of it when the store was opened.
    pub(super) fn read_all(&self) -> Result<(), OffsetsStoreError> {
        let mut metas = Vec::new();
        self.for_each_row(None, |key, value| {
            if row::is_meta(key) {
                let partition = row::partition_of(key);
                let decoded =
                    meta::decode(value).map_err(|source| OffsetsStoreError::Row { partition, source })?;
                metas.push((partition, decoded));
            } else {
                decode_row(key, value)?;
            }
            Ok(())
        })?;
        let mut partitions = self.partitions();
        for (partition, (meta, digest)) in metas {
            let durable_applied = Some(meta.applied);
            partitions.insert(partition, Progress { meta: Some(meta), digest, durable_applied, wipes: 0 });
        }
        Ok(())
    }

    /// Calls `visit` for every row of a partition, or of all.
    fn for_each_row(
        &self,
        partition: Option<PartitionIndex>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), OffsetsStoreError>,
    ) -> Result<(), OffsetsStoreError> {
        let mut options = read_options();
        let start = partition.map_or(Vec::new(), row::meta_key);
        if let Some(partition) = partition {
            options.set_iterate_upper_bound(row::end_key(partition));
        }
        let mode = IteratorMode::From(&start, Direction::Forward);
        for row in self.db.iterator_cf_opt(self.family()?, options, mode) {
            let (key, value) = row.map_err(OffsetsStoreError::Read)?;
            visit(&key, &value)?;
        }
        Ok(())
    }
}

fn decode_row(key: &[u8], value: &[u8]) -> Result<(Offset, Record), OffsetsStoreError> {
    let partition = row::partition_of(key);
    row::decode(key, value).map_err(|source| OffsetsStoreError::Row { partition, source })
}

/// The rule of R15: topic id and loss generation equal, LSTART ≤ applied ≤ LEO, and the last record's epoch as in the log.
fn mismatch(
    meta: &PartitionMeta,
    log: &LogView,
    epoch_at: impl FnOnce(Offset) -> Option<LeaderEpoch>,
) -> Option<WipeReason> {
    let applied = meta.applied;
    if meta.topic_id != log.topic_id {
        return Some(WipeReason::TopicId { stored: meta.topic_id });
    }
    if meta.loss_generation != log.loss_generation {
        return Some(WipeReason::LossGeneration { stored: meta.loss_generation });
    }
    if applied < log.log_start_offset {
        return Some(WipeReason::BelowLogStart { applied });
    }
    if applied > log.log_end_offset {
        return Some(WipeReason::AboveLogEnd { applied });
    }
    let last = applied.previous()?;
    let epoch = epoch_at(last);
    (epoch != Some(meta.leader_epoch))
        .then_some(WipeReason::LeaderEpoch { stored: meta.leader_epoch, log: epoch })
}
