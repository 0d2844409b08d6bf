//! Why an operation on a log failed.

use std::io;
use std::path::PathBuf;

use wharf_types::{LeaderEpoch, Offset, TopicPartition};

use crate::batch::BatchError;
use crate::compaction::CompactionError;
use crate::epochs::EpochCacheError;
use crate::framed::FrameError;
use crate::producer::ProducerStateError;

/// A failure of an operation that opens, changes or closes a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system failed. While a log is open, a failed write or sync poisons it (T23).
    #[error("{doing} of {partition} failed: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The log.
        partition: TopicPartition,
        /// What the file system said.
        source: io::Error,
    },
    /// A file of the log was not loaded and cannot be rebuilt.
    #[error(transparent)]
    File(#[from] FrameError),
    /// An earlier write or sync failed: nothing may be written any more, and no clean marker either.
    #[error("the log of {partition} was poisoned by an IO error")]
    Poisoned {
        /// The log.
        partition: TopicPartition,
    },
    /// The directory is there already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The disk or a quota is full; the log is as it was before.
    #[error("no space left for the log of {partition}")]
    StorageFull {
        /// The log.
        partition: TopicPartition,
    },
    /// An offset outside of what the operation allows.
    #[error("offset {offset} is outside of [{low}, {high}]")]
    OutOfBounds {
        /// The offset asked for.
        offset: Offset,
        /// The lowest allowed.
        low: Offset,
        /// The highest allowed.
        high: Offset,
    },
    /// No damaged range has these bounds.
    #[error("[{from}, {next_good}) is no damaged range")]
    NotDamaged {
        /// First offset asked for.
        from: Offset,
        /// End of the range asked for.
        next_good: Offset,
    },
    /// A compaction pass gave up; the log is as it was.
    #[error("compacting {partition} failed: {source}")]
    Compaction {
        /// The log.
        partition: TopicPartition,
        /// Why.
        source: CompactionError,
    },
    /// A flush job of another log, or one that was never run.
    #[error("the flush job was not run")]
    FlushNotRun,
}

/// Why an append changed nothing, or ended the log.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// ENOSPC or EDQUOT: cut back to the last good end, synced; the log goes on (R17).
    #[error("no space left for the log of {partition}")]
    StorageFull {
        /// The log.
        partition: TopicPartition,
    },
    /// A write, or the sync after a full disk, failed: the log is poisoned (T23).
    #[error("appending to {partition} failed: {source}")]
    Io {
        /// The log.
        partition: TopicPartition,
        /// What the file system said.
        source: io::Error,
    },
    /// An earlier write or sync failed.
    #[error("the log of {partition} was poisoned by an IO error")]
    Poisoned {
        /// The log.
        partition: TopicPartition,
    },
    /// The leader epoch is older than that of a record in the log (R5, T16).
    #[error("leader epoch {actual} is outside of [{low}, {high}]")]
    WrongEpoch {
        /// The lowest allowed.
        low: LeaderEpoch,
        /// The highest allowed.
        high: LeaderEpoch,
        /// The epoch of the append.
        actual: LeaderEpoch,
    },
    /// A follower's batch does not start at the log end offset (T16).
    #[error("batch starts at offset {actual}, expected {expected}")]
    NotAtEnd {
        /// The log end offset.
        expected: Offset,
        /// The batch's base offset.
        actual: Offset,
    },
    /// Not a batch, or one that cannot be placed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A batch contradicts the leader epochs of the log.
    #[error(transparent)]
    Epochs(#[from] EpochCacheError),
    /// A batch contradicts the producer state: the log is poisoned.
    #[error(transparent)]
    Producers(#[from] ProducerStateError),
    /// The log could not roll to a new segment, or not store its epochs.
    #[error(transparent)]
    Log(LogError),
}

impl From<LogError> for AppendError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::StorageFull { partition } => AppendError::StorageFull { partition },
            LogError::Io { partition, source, .. } => AppendError::Io { partition, source },
            LogError::Poisoned { partition } => AppendError::Poisoned { partition },
            other => AppendError::Log(other),
        }
    }
}

/// Why a read returned nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Below the log start offset or above the log end offset.
    #[error("offset {offset} is outside of [{log_start}, {log_end}]")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The first offset that can be read.
        log_start: Offset,
        /// The next offset to be written.
        log_end: Offset,
    },
    /// The batch at this offset is damaged; what is around it can be read.
    #[error("offsets from {from} up to {next_good} of {partition} are damaged")]
    Corrupted {
        /// The log.
        partition: TopicPartition,
        /// The first damaged offset.
        from: Offset,
        /// The first offset behind the damage.
        next_good: Offset,
    },
    /// The file system failed.
    #[error("reading {partition} failed: {source}")]
    Io {
        /// The log.
        partition: TopicPartition,
        /// What the file system said.
        source: io::Error,
    },
}
