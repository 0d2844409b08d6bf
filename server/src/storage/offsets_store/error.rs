//! Errors of the offsets store.

use std::io;
use std::path::PathBuf;

use wharf_coordinator::DecodeError;
use wharf_types::{Offset, PartitionIndex, TopicId};

/// Why the offsets store failed.
///
/// `Damaged`, `Row`, `Open` and `Folder` come from opening; [`OffsetsStoreError::is_damage`] tells whether a new store helps.
/// `AppliedBackwards` and `TopicMismatch` are mistakes of the caller, and changed nothing. After any other the process must
/// end, since it is not known what RocksDB holds; nothing is lost by it, for the log is replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OffsetsStoreError {
    /// The files of the store are damaged: it must be moved aside and every partition replayed.
    #[error("the offsets store in {} is damaged: {detail}", .path.display())]
    Damaged {
        /// The store's folder.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A row of the store is not what this version writes: damage that no checksum told, or a newer version.
    #[error("a row of partition {partition} in the offsets store cannot be read: {source}")]
    Row {
        /// The partition of `__offsets` that its key names.
        partition: PartitionIndex,
        /// What is wrong with it.
        source: RowError,
    },
    /// The store could not be opened for a reason other than damage: locked, no permission, no space.
    #[error("the offsets store in {} cannot be opened: {source}", .path.display())]
    Open {
        /// The store's folder.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The file system refused to inspect or move the store's folder.
    #[error("the folder of the offsets store, {}, cannot be prepared: {source}", .path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// RocksDB failed to read.
    #[error("the offsets store cannot be read: {0}")]
    Read(#[source] rocksdb::Error),
    /// RocksDB failed to write.
    #[error("the offsets store cannot be written: {0}")]
    Write(#[source] rocksdb::Error),
    /// RocksDB failed to sync its log of writes.
    #[error("the offsets store cannot be synced: {0}")]
    Sync(#[source] rocksdb::Error),
    /// A flush or compaction in the background failed.
    #[error("the offsets store had {count} errors in the background")]
    Background {
        /// How many, since the store was opened.
        count: u64,
    },
    /// An earlier write or sync failed.
    #[error("the offsets store has stopped after an earlier error")]
    Stopped,
    /// A caller applied records that end below what is applied.
    #[error("partition {partition} of __offsets is applied up to {current}, and {actual} was to follow")]
    AppliedBackwards {
        /// The partition.
        partition: PartitionIndex,
        /// Exclusive end of what is applied.
        current: Offset,
        /// The end that was to be stored.
        actual: Offset,
    },
    /// A caller applied records of another incarnation of the topic over rows that were not wiped.
    #[error("partition {partition} of __offsets holds rows of topic {expected}, not of {actual}")]
    TopicMismatch {
        /// The partition.
        partition: PartitionIndex,
        /// The topic id stored.
        expected: TopicId,
        /// The topic id that was to be stored.
        actual: TopicId,
    },
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    /// The key is not of a form that the store writes.
    #[error("its key is malformed")]
    Key,
    /// The meta row has an unknown format or length.
    #[error("the meta row has format {format:?} and {actual} bytes")]
    Meta {
        /// Its first byte.
        format: Option<u8>,
        /// Its length.
        actual: usize,
    },
    /// The value is shorter than its record offset.
    #[error("its value has {actual} bytes, too few")]
    Short {
        /// Its length.
        actual: usize,
    },
    /// The value is no value of an `__offsets` record.
    #[error(transparent)]
    Value(#[from] DecodeError),
}

impl OffsetsStoreError {
    /// Whether moving the store aside and replaying the log mends it (R15: RocksDB is a cache of the log).
    #[must_use]
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            OffsetsStoreError::Damaged { .. } | OffsetsStoreError::Row { .. } => true,
            OffsetsStoreError::Open { source, .. }
            | OffsetsStoreError::Read(source)
            | OffsetsStoreError::Write(source)
            | OffsetsStoreError::Sync(source) => is_damage(source),
            OffsetsStoreError::Background { .. }
            | OffsetsStoreError::Folder { .. }
            | OffsetsStoreError::Stopped
            | OffsetsStoreError::AppliedBackwards { .. }
            | OffsetsStoreError::TopicMismatch { .. } => false,
        }
    }
}

/// Whether RocksDB's error tells of damaged or missing files, rather than of a lock, permissions, space or a failing disk.
fn is_damage(error: &rocksdb::Error) -> bool {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => true,
        rocksdb::ErrorKind::IOError => {
            let text = error.as_ref();
            text.contains("No such file or directory") || text.contains("file is too short")
        }
        _ => false,
    }
}
