//! Record batches: the unit that is built once, checked by CRC, appended, replicated, stored and served as it is.
//!
//! A batch is built by [`BatchBuilder`] into an [`UnsealedBatch`] (gateway or coordinator), crosses the wire in that
//! form, and becomes a [`SealedBatch`] when a leader gives it its place in a log. All numbers are little-endian; the
//! header is fixed and has no varints, so that it can be read without the payload.
//!
//! # Header, 112 bytes
//! | position | bytes | field | set by |
//! |---:|---:|---|---|
//! | 0 | 4 | magic `57 52 42 01` (`WRB`, version 1) | builder |
//! | 4 | 4 | `batch_bytes`: length of the batch, header included | builder |
//! | 8 | 16 | topic id | leader |
//! | 24 | 4 | partition | leader |
//! | 28 | 4 | leader epoch | leader |
//! | 32 | 8 | base offset | leader |
//! | 40 | 8 | hint of the high watermark: the leader's at the append (R17) | leader |
//! | 48 | 8 | append time, milliseconds since 1970 | leader |
//! | 56 | 8 | delete horizon: when compaction may drop the batch's tombstones, ms since 1970; 0 if not known | compaction |
//! | 64 | 2 | leader attributes: bit 0 `ack` mode, bit 1 control batch, bit 2 compacted; others 0 | leader |
//! | 66 | 2 | builder attributes: bits 0-2 codec (0 none, 1 LZ4 block, 2 Zstandard), bit 3 transactional, bit 4 has keys; others 0 | builder |
//! | 68 | 4 | last offset delta: offsets that the batch covers, less one | builder |
//! | 72 | 4 | record count: below the last offset delta + 1 only after compaction | builder |
//! | 76 | 4 | length of the records section as stored | builder |
//! | 80 | 4 | length of the records section before compression | builder |
//! | 84 | 4 | entry count | builder |
//! | 88 | 8 | base timestamp: that of the first record pushed, ms since 1970 | builder |
//! | 96 | 8 | largest timestamp of a record, ms since 1970 | builder |
//! | 104 | 4 | payload CRC32C: positions 66 to 104 of the header, then the payload | builder |
//! | 108 | 4 | header CRC32C: positions 0 to 108 | leader |
//!
//! # Payload
//! The records section, compressed as a whole by the codec, then the request entries, never compressed, so that a
//! leader checks sequences without decompressing. An entry has 28 bytes: producer id u64, sequence u64, producer
//! epoch u32, record count u32, attributes u16 (bit 0: a gateway's own producer id), u16 of zero.
//!
//! A record is `length` (of what follows), `flags` u8 (bit 0 key, bit 1 value, bit 2 headers), `offset delta`,
//! `timestamp delta` to the base timestamp (zigzag), then as flagged `key length` and key, `value length` and value,
//! `header count` and headers. A header is `name length`, name, `value length + 1` (0: no value), value. Numbers
//! written like `this` are LEB128 varints, flags excepted. Without bit 1 the record is a tombstone.
//!
//! # Invariants
//! - A value of [`UnsealedBatch`] or [`SealedBatch`] has passed its CRCs and the checks of its header. Bytes of peers
//!   and disks lead to a [`BatchError`], never to a panic; what is allocated is bounded by [`BATCH_BYTES_MAX`] and
//!   [`RECORDS_RAW_BYTES_MAX`] before it is allocated.
//! - The record counts of the entries add up to the offsets that the batch covers, or there are no entries at all
//!   (records that no producer numbers: control batches and internal logs).
//! - Offsets of records rise strictly and lie in the covered range. Compaction leaves holes, it renumbers nothing
//!   (R16) and copies the bytes of a record as they are.
//! - An unsealed batch has zeros for all that the leader sets, the header CRC included.

mod builder;
mod codec;
mod control;
mod entry;
mod error;
mod header;
mod record;
mod sealed;
#[cfg(test)]
mod tests;
mod unsealed;
mod varint;

pub use builder::BatchBuilder;
pub use control::{ControlError, ControlRecord};
pub use entry::{EntrySource, REQUEST_ENTRY_BYTES, RequestEntry};
pub use error::BatchError;
pub use header::{BATCH_HEADER_BYTES, BatchHeader, BatchKind};
pub use record::{HeaderView, Record, RecordHeaders, RecordIter, RecordView};
pub use sealed::SealedBatch;
pub use unsealed::{Seal, UnsealedBatch};

pub(crate) use codec::{compress, decompress};
pub(crate) use record::RawRecords;
pub(crate) use sealed::assemble_compacted;

/// Largest batch, header included: 5 MiB, so that a batch of one record of the largest size (2.5 MiB) fits with room.
pub const BATCH_BYTES_MAX: usize = 5 << 20;
/// Largest records section before compression: 16 MiB. Checked before the memory for it is taken.
pub const RECORDS_RAW_BYTES_MAX: usize = 16 << 20;
