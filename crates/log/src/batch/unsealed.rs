//! A batch before it has its place in a log: what gateways send to leaders.

use bytes::{Bytes, BytesMut};
use wharf_types::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

use super::entry::{REQUEST_ENTRY_BYTES, decode_entries};
use super::header::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, check_length, check_payload_crc};
use super::record::RecordIter;
use super::{BatchError, RequestEntry, SealedBatch, decompress};

/// What a leader gives a batch at the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The partition.
    pub partition: TopicPartition,
    /// The log end offset before the append.
    pub base_offset: Offset,
    /// The leader's epoch.
    pub leader_epoch: LeaderEpoch,
    /// The leader's high watermark (R17).
    pub hw_hint: Offset,
    /// Whether the partition is in `ack` mode (R17).
    pub ack_mode: bool,
    /// When, in the log's own time, which never goes back (R16).
    pub append_time: TimestampMs,
    /// What the records are for.
    pub kind: BatchKind,
}

/// A batch that was built here, or that came over the wire and was verified: payload CRC, lengths, counts, entries.
///
/// Its records are not walked before they are read: the leader does not decompress what it appends (D2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsealedBatch {
    header: BatchHeader,
    bytes: Bytes,
    entries: Vec<RequestEntry>,
}

impl UnsealedBatch {
    pub(super) fn from_parts(header: BatchHeader, bytes: Bytes, entries: Vec<RequestEntry>) -> Self {
        UnsealedBatch { header, bytes, entries }
    }

    /// Verifies a batch that came over the wire; `bytes` are exactly one batch.
    ///
    /// # Errors
    /// A [`BatchError`] that says what is wrong. [`BatchError::AlreadySealed`] if a leader's fields are set.
    pub fn decode(bytes: Bytes) -> Result<Self, BatchError> {
        let header = BatchHeader::decode_unsealed(&bytes)?;
        check_length(&bytes, &header)?;
        check_payload_crc(&bytes, &header)?;
        let entries = decode_entries(entries_section(&bytes, &header), header.offset_count())?;
        Ok(UnsealedBatch { header, bytes, entries })
    }

    /// The request entries, in the order of their records; none for records that no producer numbers.
    #[must_use]
    pub fn entries(&self) -> &[RequestEntry] {
        &self.entries
    }

    /// Records in it; at least 1.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.header.record_count
    }

    /// Largest timestamp of its records.
    #[must_use]
    pub const fn max_timestamp(&self) -> TimestampMs {
        self.header.max_timestamp
    }

    /// Whether it belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.header.transactional
    }

    /// Length of its encoding, header included.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its encoding for the wire, sharing memory. While a copy lives, [`Self::seal`] has to copy.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Its records, at offsets from 0.
    ///
    /// # Errors
    /// [`BatchError::Decompression`].
    pub fn records(&self) -> Result<RecordIter, BatchError> {
        records_of(&self.bytes, &self.header)
    }

    /// Gives the batch its place: writes the leader's part and the header CRC, in place unless the bytes are shared.
    ///
    /// # Errors
    /// [`BatchError::OffsetOverflow`] at the end of all offsets.
    pub fn seal(self, seal: &Seal) -> Result<SealedBatch, BatchError> {
        let header = BatchHeader {
            partition: seal.partition,
            base_offset: seal.base_offset,
            leader_epoch: seal.leader_epoch,
            hw_hint: seal.hw_hint,
            ack_mode: seal.ack_mode,
            append_time: seal.append_time,
            kind: seal.kind,
            ..self.header
        };
        if seal.base_offset.value() + u64::from(header.last_offset_delta) >= Offset::MAX.value() {
            return Err(BatchError::OffsetOverflow {
                base_offset: seal.base_offset,
                records: header.offset_count(),
            });
        }
        let mut bytes = self.bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()));
        bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode_sealed());
        Ok(SealedBatch::from_parts(header, bytes.freeze()))
    }
}

/// The entries of the whole batch in `bytes`, whose length was checked.
pub(super) fn entries_section<'a>(bytes: &'a [u8], header: &BatchHeader) -> &'a [u8] {
    &bytes[bytes.len() - header.entry_count as usize * REQUEST_ENTRY_BYTES..]
}

/// The records section before compression of the whole batch in `bytes`, whose length was checked.
pub(super) fn records_section(bytes: &Bytes, header: &BatchHeader) -> Result<Bytes, BatchError> {
    let end = BATCH_HEADER_BYTES + header.records_bytes as usize;
    let stored = bytes.slice(BATCH_HEADER_BYTES..end);
    decompress(header.compression, stored, header.records_raw_bytes as usize)
}

pub(super) fn records_of(bytes: &Bytes, header: &BatchHeader) -> Result<RecordIter, BatchError> {
    Ok(RecordIter::new(records_section(bytes, header)?, header))
}
