//! Bytes of records and snapshots: `wharf.persisted.v1`.
//!
//! | bytes | content |
//! |---|---|
//! | log entry | `MetadataEntry`, nothing before or after it; empty for an entry that decides nothing |
//! | snapshot | `MetadataSnapshot`, whose first field is the version of the layout |
//!
//! Checksums are the storage's business. Decoding checks every value again and never panics; a record or layout that
//! this version does not know is an error of its own, since skipping it would make another image than the other voters'.

mod entry;
#[cfg(test)]
mod golden;
mod snapshot;
mod value;

pub use entry::{decode_record, encode_record};
pub use snapshot::{SNAPSHOT_FORMAT, decode_snapshot, encode_snapshot};

/// Why bytes are no record or snapshot.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are no protobuf message of the expected kind.
    #[error("not decodable: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The record is of a kind that this version does not know.
    #[error("a record of an unknown kind: written by a newer version")]
    UnknownRecord,
    /// The layout of the snapshot is one that this version does not know.
    #[error("snapshot format {actual} is unknown; this version reads {expected}")]
    UnknownFormat {
        /// The format that was found.
        actual: i32,
        /// The newest format known.
        expected: i32,
    },
    /// A field has a value that it cannot have.
    #[error("field {field} cannot be {value}")]
    InvalidField {
        /// The field.
        field: &'static str,
        /// What was found.
        value: String,
    },
    /// The values do not fit together.
    #[error("not a valid image: {0}")]
    Invariant(#[from] crate::InvariantViolation),
}
