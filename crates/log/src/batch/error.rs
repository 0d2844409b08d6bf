//! Why bytes are not a batch, or a batch cannot be built.

use wharf_types::{Offset, TopicPartition};

/// A refusal by the batch format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("batch is cut short: {actual} bytes of {expected}")]
    Truncated {
        /// Bytes that the batch claims, or the header's length.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// More bytes than the batch has.
    #[error("batch of {expected} bytes is followed by others: {actual} bytes in all")]
    TrailingBytes {
        /// Bytes that the batch claims.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// The first four bytes are not those of a batch of this version.
    #[error("batch magic is {actual:#010x}, expected {expected:#010x}")]
    BadMagic {
        /// The magic of this version.
        expected: u32,
        /// What is there.
        actual: u32,
    },
    /// A CRC32C does not match.
    #[error("{part} CRC is {actual:#010x}, expected {expected:#010x}")]
    BadCrc {
        /// `header` or `payload`.
        part: &'static str,
        /// What the batch says.
        expected: u32,
        /// What its bytes give.
        actual: u32,
    },
    /// Bits are set that this version does not know.
    #[error("unknown bits {bits:#06x} in {field}")]
    UnknownBits {
        /// The field.
        field: &'static str,
        /// The unknown bits.
        bits: u16,
    },
    /// The codec is not one of this version.
    #[error("unknown codec {0}")]
    UnknownCodec(u16),
    /// Beyond a limit of the format.
    #[error("{field} is {actual}, at most {maximum} is allowed")]
    TooLarge {
        /// What is too large.
        field: &'static str,
        /// The limit.
        maximum: u64,
        /// The value.
        actual: u64,
    },
    /// Two fields contradict each other.
    #[error("{field} is {actual}, expected {expected}")]
    Mismatch {
        /// The field that is wrong.
        field: &'static str,
        /// What the others say.
        expected: u64,
        /// The value.
        actual: u64,
    },
    /// A field of an unsealed batch that only a leader may set is set.
    #[error("an unsealed batch has its {0} set")]
    AlreadySealed(&'static str),
    /// A valid batch of another partition, or of this one at a wrong place (T30).
    #[error("batch belongs to {actual}, expected {expected}")]
    WrongPartition {
        /// The partition whose log was read.
        expected: TopicPartition,
        /// The partition in the batch.
        actual: TopicPartition,
    },
    /// The records section does not decompress to the length that the header gives.
    #[error("records do not decompress to {expected} bytes")]
    Decompression {
        /// The length in the header.
        expected: usize,
    },
    /// The codec could not compress.
    #[error("compressing {bytes} bytes of records failed")]
    Compression {
        /// Length of the records section.
        bytes: usize,
    },
    /// A record is malformed.
    #[error("bad {field} of a record at position {position} of the records section")]
    BadRecord {
        /// What is malformed.
        field: &'static str,
        /// Where the record starts.
        position: usize,
    },
    /// A request entry is malformed.
    #[error("bad {field} {value} of request entry {index}")]
    BadEntry {
        /// What is malformed.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The entry's place.
        index: usize,
    },
    /// A batch of no records, which only compaction makes.
    #[error("batch has no records")]
    Empty,
    /// The batch would reach beyond the last offset that there is.
    #[error("batch of {records} records does not fit behind offset {base_offset}")]
    OffsetOverflow {
        /// Its base offset.
        base_offset: Offset,
        /// Offsets that it covers.
        records: u64,
    },
}
