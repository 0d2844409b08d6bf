//! What can be wrong with a raft log, and with writing one.

use std::io;
use std::path::PathBuf;

/// How the raft log is damaged. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// RocksDB refuses its own files.
    #[error("the database is damaged: {0}")]
    Database(#[from] rocksdb::Error),
    /// A file of the folder is missing or not readable.
    #[error("{path} cannot be read: {source}")]
    FloorUnreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither slot of the commit floor is valid.
    #[error("{path} has no valid slot")]
    FloorInvalid {
        /// The file.
        path: PathBuf,
    },
    /// A value is missing that is written with the first.
    #[error("the {key} is missing")]
    Missing {
        /// What is missing.
        key: &'static str,
    },
    /// A value's checksum does not hold.
    #[error("the checksum of key {key:?} does not hold")]
    Checksum {
        /// Its key.
        key: String,
    },
    /// A value is not of its kind.
    #[error("the value of key {key:?} cannot be decoded")]
    Undecodable {
        /// Its key.
        key: String,
    },
    /// A key that no version wrote.
    #[error("unknown key {key:?}")]
    UnknownKey {
        /// The key.
        key: Vec<u8>,
    },
    /// The database was written by a newer version.
    #[error("format {actual} is newer than {expected}, which this version knows; use the newer version")]
    NewerFormat {
        /// The format that was found.
        actual: u64,
        /// The newest that is known.
        expected: u32,
    },
    /// An entry lies under another one's key.
    #[error("entry {entry} lies under the key of entry {key}")]
    Misplaced {
        /// Index in the key.
        key: u64,
        /// Index in the entry.
        entry: u64,
    },
    /// Entries are missing, or their terms fall.
    #[error(
        "the log breaks at index {expected}: found index {actual} of term {term} after term {term_before}"
    )]
    Gap {
        /// Index that should come.
        expected: u64,
        /// Index that comes.
        actual: u64,
        /// Its term.
        term: u64,
        /// Term before it.
        term_before: u64,
    },
    /// Committed entries are missing: the log ends below its commit index.
    #[error("the log ends at index {last}, below its commit index {commit}")]
    CommitAheadOfLog {
        /// The commit index.
        commit: u64,
        /// The last index.
        last: u64,
    },
    /// Committed entries are missing: the log ends below the commit floor.
    #[error(
        "the log ends at index {last} of term {term}, below the commit floor {commit} of term {floor_term}"
    )]
    FloorAheadOfLog {
        /// The commit floor.
        commit: u64,
        /// Its term.
        floor_term: u64,
        /// The last index.
        last: u64,
        /// Term of the hard state.
        term: u64,
    },
    /// The snapshot does not lie between the start of the log and the commit index.
    #[error("the snapshot at index {snapshot} is outside of {truncated} to {commit}")]
    SnapshotOutOfBounds {
        /// Index of the snapshot.
        snapshot: u64,
        /// What the log starts after.
        truncated: u64,
        /// The commit index.
        commit: u64,
    },
    /// The image in the snapshot cannot be read.
    #[error("the cluster image at index {index}: {source}")]
    Image {
        /// Index of the snapshot.
        index: u64,
        /// What is wrong.
        source: wharf_metadata::codec::DecodeError,
    },
    /// The image is not the one of the snapshot's index.
    #[error("the snapshot at index {snapshot} holds the cluster image of index {image}")]
    ImageIndex {
        /// Index of the snapshot.
        snapshot: u64,
        /// Index in the image.
        image: u64,
    },
    /// A record in the log cannot be read.
    #[error("the record at index {index}: {source}")]
    Record {
        /// Its index.
        index: u64,
        /// What is wrong.
        source: wharf_metadata::codec::DecodeError,
    },
}

/// Why something could not be written. The store must be opened again.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// RocksDB failed.
    #[error("cannot write the raft log: {0}")]
    Database(#[from] rocksdb::Error),
    /// A value could not be encoded.
    #[error("cannot encode a value of the raft log: {0}")]
    Encode(#[from] protobuf::ProtobufError),
    /// The commit floor or a folder could not be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// raft handed over entries that leave a gap.
    #[error("entry {actual} does not follow the log, which ends at {last}")]
    Gap {
        /// The first entry.
        actual: u64,
        /// The last index.
        last: u64,
    },
}
