//! A batch that has its place in a log: what is stored, replicated and served.

use bytes::{BufMut, Bytes, BytesMut};
use wharf_types::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

use super::entry::decode_entries;
use super::header::{
    BATCH_HEADER_BYTES, BatchHeader, PAYLOAD_CRC, check_length, check_payload_crc, payload_crc,
};
use super::record::RecordIter;
use super::unsealed::{entries_section, records_of, records_section};
use super::{BatchError, RequestEntry, compress};

/// A whole batch as stored. Invariant: both CRCs were checked, or the batch was sealed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl SealedBatch {
    pub(super) fn from_parts(header: BatchHeader, bytes: Bytes) -> Self {
        SealedBatch { header, bytes }
    }

    /// Decodes the header at the front of `bytes`, which may end anywhere behind it: header CRC, limits and
    /// consistency. Says nothing about the payload.
    ///
    /// # Errors
    /// A [`BatchError`] that says what is wrong.
    pub fn decode_header(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        BatchHeader::decode_sealed(bytes)
    }

    /// Checks both CRCs of exactly one batch, and that it belongs to `expect` where that is known (T30).
    ///
    /// # Errors
    /// A [`BatchError`] that says what is wrong.
    pub fn verify(bytes: Bytes, expect: Option<TopicPartition>) -> Result<SealedBatch, BatchError> {
        let header = BatchHeader::decode_sealed(&bytes)?;
        check_length(&bytes, &header)?;
        if let Some(expected) = expect.filter(|expected| *expected != header.partition) {
            return Err(BatchError::WrongPartition { expected, actual: header.partition });
        }
        check_payload_crc(&bytes, &header)?;
        Ok(SealedBatch { header, bytes })
    }

    /// Takes the first batch off the front of `bytes` and verifies it; nothing when they are empty. On an error
    /// `bytes` stay as they are.
    ///
    /// # Errors
    /// A [`BatchError`] that says what is wrong; [`BatchError::Truncated`] if the batch is not whole.
    pub fn split_first(
        bytes: &mut Bytes,
        expect: Option<TopicPartition>,
    ) -> Result<Option<SealedBatch>, BatchError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let expected = BatchHeader::decode_sealed(bytes)?.batch_bytes as usize;
        if bytes.len() < expected {
            return Err(BatchError::Truncated { expected, actual: bytes.len() });
        }
        let batch = SealedBatch::verify(bytes.slice(..expected), expect)?;
        *bytes = bytes.slice(expected..);
        Ok(Some(batch))
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The batch as stored; clones share memory.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Offset of its first record.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// Offset of the last record that it covers, whether compaction has kept it or not.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// The offset after the last that it covers.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.header.next_offset()
    }

    /// Epoch of the leader that appended it.
    #[must_use]
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.header.leader_epoch
    }

    /// When the leader appended it.
    #[must_use]
    pub const fn append_time(&self) -> TimestampMs {
        self.header.append_time
    }

    /// Largest timestamp of its records.
    #[must_use]
    pub const fn max_timestamp(&self) -> TimestampMs {
        self.header.max_timestamp
    }

    /// The leader's high watermark at the append.
    #[must_use]
    pub const fn hw_hint(&self) -> Offset {
        self.header.hw_hint
    }

    /// The request entries, in the order of their records.
    ///
    /// # Errors
    /// [`BatchError::BadEntry`], or [`BatchError::Mismatch`] if they do not cover the batch: possible only if it was
    /// built wrong, since the payload CRC covers them.
    pub fn entries(&self) -> Result<Vec<RequestEntry>, BatchError> {
        decode_entries(entries_section(&self.bytes, &self.header), self.header.offset_count())
    }

    /// The records; decompresses the section at once, decodes while it is walked, copies no key and no value.
    ///
    /// # Errors
    /// [`BatchError::Decompression`]; each record has a result of its own.
    pub fn records(&self) -> Result<RecordIter, BatchError> {
        records_of(&self.bytes, &self.header)
    }

    /// The records section before compression.
    pub(crate) fn records_section(&self) -> Result<Bytes, BatchError> {
        records_section(&self.bytes, &self.header)
    }

    /// The entries section as stored.
    pub(crate) fn entries_section(&self) -> &[u8] {
        entries_section(&self.bytes, &self.header)
    }
}

/// What compaction leaves of `batch`: the given records, encoded as they were, and all its entries. Offsets, epoch
/// and append time stay; `delete_horizon` is that of the tombstones in it.
pub(crate) fn assemble_compacted(
    batch: &SealedBatch,
    records: &[u8],
    record_count: u32,
    delete_horizon: Option<TimestampMs>,
) -> Result<SealedBatch, BatchError> {
    let mut bytes = BytesMut::with_capacity(batch.bytes.len());
    bytes.put_bytes(0, BATCH_HEADER_BYTES);
    let mut header = *batch.header();
    if !compress(header.compression, records, &mut bytes)? {
        header.compression = wharf_types::Compression::None;
        bytes.put_slice(records);
    }
    let too_large = |_| BatchError::TooLarge {
        field: "records length",
        maximum: super::RECORDS_RAW_BYTES_MAX as u64,
        actual: records.len() as u64,
    };
    header.records_bytes = u32::try_from(bytes.len() - BATCH_HEADER_BYTES).map_err(too_large)?;
    header.records_raw_bytes = u32::try_from(records.len()).map_err(too_large)?;
    header.record_count = record_count;
    header.compacted = true;
    header.delete_horizon = delete_horizon;
    bytes.put_slice(batch.entries_section());
    header.batch_bytes = u32::try_from(bytes.len()).map_err(too_large)?;
    let encoded = header.encode();
    header.payload_crc = payload_crc(&encoded, &bytes[BATCH_HEADER_BYTES..]);
    bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode_sealed());
    debug_assert_eq!(bytes[PAYLOAD_CRC..PAYLOAD_CRC + 4], header.payload_crc.to_le_bytes());
    SealedBatch::verify(bytes.freeze(), None)
}
