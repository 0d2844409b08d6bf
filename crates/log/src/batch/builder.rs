//! Building a batch: records are copied once, behind room for the header.

use bytes::{BufMut, BytesMut};
use wharf_types::{Compression, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

use super::entry::REQUEST_ENTRY_BYTES;
use super::header::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, PAYLOAD_CRC, at_most, payload_crc};
use super::record::RecordView;
use super::{BATCH_BYTES_MAX, BatchError, RequestEntry, UnsealedBatch, compress};

/// Room that a builder starts with when nothing is known of what comes.
const CAPACITY_DEFAULT: usize = 4 << 10;

/// Collects records and request entries for one batch.
///
/// Invariant: what it holds always fits a batch, because pushes that would not are refused and change nothing.
#[derive(Debug)]
pub struct BatchBuilder {
    compression: Compression,
    /// Room for the header, then the records.
    buffer: BytesMut,
    entries: Vec<RequestEntry>,
    record_count: u32,
    covered: u64,
    base_timestamp: TimestampMs,
    max_timestamp: TimestampMs,
    keyed: bool,
    transactional: bool,
}

impl BatchBuilder {
    /// An empty batch whose records section will be compressed like this where that makes it smaller.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        BatchBuilder::with_capacity(compression, CAPACITY_DEFAULT)
    }

    /// Like [`Self::new`], with room for this many payload bytes.
    #[must_use]
    pub fn with_capacity(compression: Compression, payload_bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(BATCH_HEADER_BYTES + payload_bytes.min(BATCH_BYTES_MAX));
        buffer.put_bytes(0, BATCH_HEADER_BYTES);
        BatchBuilder {
            compression,
            buffer,
            entries: Vec::new(),
            record_count: 0,
            covered: 0,
            base_timestamp: TimestampMs::EPOCH,
            max_timestamp: TimestampMs::EPOCH,
            keyed: false,
            transactional: false,
        }
    }

    /// Marks the batch as part of a transaction (R12).
    pub fn set_transactional(&mut self) {
        self.transactional = true;
    }

    /// Appends a record; copies its bytes once.
    ///
    /// # Errors
    /// [`BatchError::TooLarge`] if the batch would exceed [`BATCH_BYTES_MAX`] before compression, or the record has
    /// too many or too long headers; [`BatchError::Mismatch`] for an empty header name. Nothing is changed then.
    pub fn push_record(&mut self, record: &RecordView<'_>) -> Result<(), BatchError> {
        record.check()?;
        self.check_room(record.encoded_bytes_max())?;
        if self.record_count == 0 {
            self.base_timestamp = record.timestamp;
        }
        record.encode(&mut self.buffer, self.record_count, self.base_timestamp);
        self.record_count += 1;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.keyed |= record.key.is_some();
        Ok(())
    }

    /// Says which request wrote the next `record_count` records that no earlier entry covers. Records and entries
    /// may be pushed in any mix; at the end they must match.
    ///
    /// # Errors
    /// [`BatchError::BadEntry`] for values that no entry can have, [`BatchError::TooLarge`] if the batch would
    /// exceed [`BATCH_BYTES_MAX`].
    pub fn push_entry(&mut self, entry: RequestEntry) -> Result<(), BatchError> {
        entry.check(self.entries.len())?;
        self.check_room(REQUEST_ENTRY_BYTES)?;
        self.covered += u64::from(entry.record_count);
        self.entries.push(entry);
        Ok(())
    }

    /// Records so far.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Length of the payload so far, before compression.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.buffer.len() - BATCH_HEADER_BYTES + self.entries.len() * REQUEST_ENTRY_BYTES
    }

    /// Whether it has no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Compresses the records, appends the entries and computes the payload CRC.
    ///
    /// # Errors
    /// [`BatchError::Empty`] without records; [`BatchError::Mismatch`] if there are entries and they do not cover
    /// exactly the records; [`BatchError::Compression`] from the codec.
    pub fn finish(mut self) -> Result<UnsealedBatch, BatchError> {
        let Some(last_offset_delta) = self.record_count.checked_sub(1) else {
            return Err(BatchError::Empty);
        };
        if !self.entries.is_empty() && self.covered != u64::from(self.record_count) {
            return Err(BatchError::Mismatch {
                field: "records covered by entries",
                expected: u64::from(self.record_count),
                actual: self.covered,
            });
        }
        let raw_bytes = self.buffer.len() - BATCH_HEADER_BYTES;
        let compression = self.compress_records()?;
        let records_bytes = self.buffer.len() - BATCH_HEADER_BYTES;
        self.buffer.reserve(self.entries.len() * REQUEST_ENTRY_BYTES);
        for entry in &self.entries {
            self.buffer.put_slice(&entry.encode());
        }
        let mut header = BatchHeader {
            batch_bytes: fits_u32(self.buffer.len()),
            partition: TopicPartition {
                topic_id: TopicId::from_bytes([0; 16]),
                partition: PartitionIndex::new(0),
            },
            leader_epoch: LeaderEpoch::new(0),
            base_offset: Offset::ZERO,
            hw_hint: Offset::ZERO,
            append_time: TimestampMs::EPOCH,
            delete_horizon: None,
            ack_mode: false,
            kind: BatchKind::Data,
            compacted: false,
            compression,
            transactional: self.transactional,
            keyed: self.keyed,
            last_offset_delta,
            record_count: self.record_count,
            records_bytes: fits_u32(records_bytes),
            records_raw_bytes: fits_u32(raw_bytes),
            entry_count: fits_u32(self.entries.len()),
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            payload_crc: 0,
        };
        let encoded = header.encode();
        header.payload_crc = payload_crc(&encoded, &self.buffer[BATCH_HEADER_BYTES..]);
        self.buffer[..BATCH_HEADER_BYTES].copy_from_slice(&encoded);
        self.buffer[PAYLOAD_CRC..PAYLOAD_CRC + 4].copy_from_slice(&header.payload_crc.to_le_bytes());
        Ok(UnsealedBatch::from_parts(header, self.buffer.freeze(), self.entries))
    }

    /// Replaces the records by their compressed form if that is smaller; gives the codec that the batch has then.
    fn compress_records(&mut self) -> Result<Compression, BatchError> {
        if self.compression == Compression::None {
            return Ok(Compression::None);
        }
        let mut compressed = BytesMut::with_capacity(self.buffer.len());
        compressed.put_bytes(0, BATCH_HEADER_BYTES);
        if compress(self.compression, &self.buffer[BATCH_HEADER_BYTES..], &mut compressed)? {
            self.buffer = compressed;
            return Ok(self.compression);
        }
        Ok(Compression::None)
    }

    fn check_room(&self, more: usize) -> Result<(), BatchError> {
        let length = BATCH_HEADER_BYTES + self.payload_bytes() + more;
        at_most("batch length", length as u64, BATCH_BYTES_MAX as u64)
    }
}

fn fits_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a batch is at most 5 MiB")
}
