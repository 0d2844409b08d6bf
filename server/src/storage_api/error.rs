//! Why storage could not do what a gateway asked.

use wharf_types::{LeaderEpoch, Offset, TopicPartition};

/// A refusal or failure of a storage node. Gateways map it to the public error model in one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StorageError {
    /// This node does not lead the partition, or not yet; ask again.
    #[error("partition {0} has no leader here yet")]
    LeaderNotAvailable(TopicPartition),
    /// The gateway's leader epoch is not the partition's.
    #[error("partition {partition} is in leader epoch {current}, the request in {sent}")]
    FencedLeaderEpoch {
        /// The partition.
        partition: TopicPartition,
        /// The epoch of the request.
        sent: LeaderEpoch,
        /// The epoch in force.
        current: LeaderEpoch,
    },
    /// An earlier batch of the pipeline's generation was refused.
    #[error("an earlier batch of this pipeline was refused")]
    PipelineBroken,
    /// The batch was hashed under another partition count.
    #[error("the topic has {current} partitions, the request was hashed over {sent}")]
    StalePartitionCount {
        /// The partition count of the request.
        sent: u32,
        /// The partition count in force.
        current: u32,
    },
    /// The offset is outside the log.
    #[error("offset {requested} is outside of [{log_start}, {high_watermark}]")]
    OffsetOutOfRange {
        /// The offset asked for.
        requested: Offset,
        /// The log start offset.
        log_start: Offset,
        /// The high watermark.
        high_watermark: Offset,
    },
    /// Records that the reader has seen are gone, and others may stand in their place.
    #[error("records from offset {from} up to {to} that were read before are gone")]
    Truncated {
        /// First offset that is gone.
        from: Offset,
        /// The offset that the reader had come to.
        to: Offset,
    },
    /// The records at the offset do not match their checksums and no replica has them.
    #[error("the records from offset {from} up to {next_good} are damaged")]
    DataCorrupted {
        /// First offset of the damage.
        from: Offset,
        /// First offset behind it that can be read.
        next_good: Offset,
    },
    /// The range given to skip is not a damaged range of the partition.
    #[error("[{from}, {to}) is not a damaged range of the partition")]
    NotDamaged {
        /// First offset of the range given.
        from: Offset,
        /// Its exclusive end.
        to: Offset,
    },
    /// The disk reserve is reached.
    #[error("the disk has {available_bytes} bytes left, of which {reserve_bytes} are reserved")]
    StorageFull {
        /// What is left.
        available_bytes: u64,
        /// What is kept back.
        reserve_bytes: u64,
    },
    /// More producers than a partition remembers.
    #[error("the partition remembers {0} producers, all active")]
    TooManyProducers(usize),
    /// More work waits than the node admits.
    #[error("the storage node has too much work waiting")]
    Overloaded,
    /// The topic was deleted.
    #[error("the topic of partition {0} was deleted")]
    TopicDeleted(TopicPartition),
    /// The group's coordinator is still reading its log.
    #[error("the coordinator is loading its state")]
    CoordinatorLoading,
    /// The node is going down.
    #[error("the storage node is shutting down")]
    ShuttingDown,
    /// The disk failed; what was not acknowledged is in doubt.
    #[error("the disk failed")]
    DiskFailed,
}

impl StorageError {
    /// Whether an append that ended with this error is certain to have left nothing behind.
    #[must_use]
    pub(crate) fn is_certain_refusal(&self) -> bool {
        matches!(self, StorageError::StorageFull { .. } | StorageError::TooManyProducers(_))
    }

    /// Whether the same request may succeed a little later without anybody's help.
    #[must_use]
    pub(crate) fn is_retriable(&self) -> bool {
        if let StorageError::StalePartitionCount { sent, current } = self {
            // The leader has not learned of the growth yet; the other way round the keys must be placed anew.
            return sent > current;
        }
        matches!(
            self,
            StorageError::LeaderNotAvailable(_)
                | StorageError::FencedLeaderEpoch { .. }
                | StorageError::PipelineBroken
                | StorageError::CoordinatorLoading
        )
    }
}
