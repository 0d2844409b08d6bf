//! The fixed header of a batch: its fields, their places and the checks that need nothing but the header.

use wharf_types::{Compression, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

use super::entry::REQUEST_ENTRY_BYTES;
use super::{BATCH_BYTES_MAX, BatchError, RECORDS_RAW_BYTES_MAX};

/// Length of the header.
pub const BATCH_HEADER_BYTES: usize = 112;

/// `WRB` and the version, read as a little-endian number.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"WRB\x01");
/// Where the part starts that the payload CRC covers.
pub(super) const BUILDER_PART: usize = 66;
/// Where the payload CRC stands.
pub(super) const PAYLOAD_CRC: usize = 104;
/// Where the header CRC stands.
pub(super) const HEADER_CRC: usize = 108;
/// The smallest record: length, flags, offset delta, timestamp delta.
const RECORD_BYTES_MIN: u64 = 4;

const LEADER_ACK_MODE: u16 = 1;
const LEADER_CONTROL: u16 = 1 << 1;
const LEADER_COMPACTED: u16 = 1 << 2;
const LEADER_KNOWN: u16 = LEADER_ACK_MODE | LEADER_CONTROL | LEADER_COMPACTED;
const BUILDER_CODEC: u16 = 0b111;
const BUILDER_TRANSACTIONAL: u16 = 1 << 3;
const BUILDER_KEYED: u16 = 1 << 4;
const BUILDER_KNOWN: u16 = BUILDER_CODEC | BUILDER_TRANSACTIONAL | BUILDER_KEYED;

/// What the records of a batch are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Records of users or of an internal log.
    Data,
    /// Control records, which only the log itself reads.
    Control,
}

/// A batch's header, decoded. Positions of the fields: see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Length of the batch in bytes, header included.
    pub batch_bytes: u32,
    /// The partition that the batch was written to.
    pub partition: TopicPartition,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The leader's high watermark at the append: exclusive, never beyond the true one (R17).
    pub hw_hint: Offset,
    /// When the leader appended it; never goes back inside a log (R16).
    pub append_time: TimestampMs,
    /// From when compaction may drop the tombstones in it; set when compaction first kept them.
    pub delete_horizon: Option<TimestampMs>,
    /// Whether the partition was in `ack` mode, so that all below `hw_hint` was durable.
    pub ack_mode: bool,
    /// What its records are for.
    pub kind: BatchKind,
    /// Whether compaction has removed records of it.
    pub compacted: bool,
    /// How its records section is compressed.
    pub compression: Compression,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// Whether at least one of its records had a key when it was built.
    pub keyed: bool,
    /// Offsets that it covers, less one.
    pub last_offset_delta: u32,
    /// Records in it.
    pub record_count: u32,
    /// Length of the records section as stored.
    pub records_bytes: u32,
    /// Length of the records section before compression.
    pub records_raw_bytes: u32,
    /// Request entries in it.
    pub entry_count: u32,
    /// Timestamp of the first record pushed.
    pub base_timestamp: TimestampMs,
    /// Largest timestamp of its records.
    pub max_timestamp: TimestampMs,
    /// CRC of the builder's part of the header and the payload.
    pub payload_crc: u32,
}

impl BatchHeader {
    /// Offset of the last record that the batch covers, whether compaction has kept it or not.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.plus(self.last_offset_delta as u64)
    }

    /// The offset after the last that it covers.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.last_offset().next()
    }

    /// Offsets that it covers.
    #[must_use]
    pub const fn offset_count(&self) -> u64 {
        self.last_offset_delta as u64 + 1
    }

    pub(super) fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.batch_bytes.to_le_bytes());
        bytes[8..24].copy_from_slice(self.partition.topic_id.as_bytes());
        bytes[24..28].copy_from_slice(&self.partition.partition.value().to_le_bytes());
        bytes[28..32].copy_from_slice(&self.leader_epoch.value().to_le_bytes());
        bytes[32..40].copy_from_slice(&self.base_offset.value().to_le_bytes());
        bytes[40..48].copy_from_slice(&self.hw_hint.value().to_le_bytes());
        bytes[48..56].copy_from_slice(&self.append_time.value().to_le_bytes());
        let horizon = self.delete_horizon.map_or(0, TimestampMs::value);
        bytes[56..64].copy_from_slice(&horizon.to_le_bytes());
        let leader = bit(self.ack_mode, LEADER_ACK_MODE)
            | bit(self.kind == BatchKind::Control, LEADER_CONTROL)
            | bit(self.compacted, LEADER_COMPACTED);
        bytes[64..66].copy_from_slice(&leader.to_le_bytes());
        let builder = codec_bits(self.compression)
            | bit(self.transactional, BUILDER_TRANSACTIONAL)
            | bit(self.keyed, BUILDER_KEYED);
        bytes[66..68].copy_from_slice(&builder.to_le_bytes());
        bytes[68..72].copy_from_slice(&self.last_offset_delta.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.record_count.to_le_bytes());
        bytes[76..80].copy_from_slice(&self.records_bytes.to_le_bytes());
        bytes[80..84].copy_from_slice(&self.records_raw_bytes.to_le_bytes());
        bytes[84..88].copy_from_slice(&self.entry_count.to_le_bytes());
        bytes[88..96].copy_from_slice(&self.base_timestamp.value().to_le_bytes());
        bytes[96..104].copy_from_slice(&self.max_timestamp.value().to_le_bytes());
        bytes[PAYLOAD_CRC..HEADER_CRC].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes
    }

    /// Encodes with the header CRC, which makes the header sealed.
    pub(super) fn encode_sealed(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = self.encode();
        let crc = crc32c::crc32c(&bytes[..HEADER_CRC]);
        bytes[HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the header at the front of `bytes`: header CRC, then every check that needs no payload.
    pub(super) fn decode_sealed(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        let raw = header_bytes(bytes)?;
        check_magic(raw)?;
        let expected = u32_at(raw, HEADER_CRC);
        let actual = crc32c::crc32c(&raw[..HEADER_CRC]);
        if expected != actual {
            return Err(BatchError::BadCrc { part: "header", expected, actual });
        }
        BatchHeader::parse(raw)
    }

    /// Decodes the header of an unsealed batch: all that a leader sets must be zero.
    pub(super) fn decode_unsealed(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        let raw = header_bytes(bytes)?;
        check_magic(raw)?;
        let clear = |range: std::ops::Range<usize>| raw[range].iter().all(|byte| *byte == 0);
        if !clear(8..BUILDER_PART) {
            return Err(BatchError::AlreadySealed("leader's part"));
        }
        if !clear(HEADER_CRC..BATCH_HEADER_BYTES) {
            return Err(BatchError::AlreadySealed("header CRC"));
        }
        BatchHeader::parse(raw)
    }

    fn parse(raw: &[u8; BATCH_HEADER_BYTES]) -> Result<BatchHeader, BatchError> {
        let leader = u16_at(raw, 64);
        let builder = u16_at(raw, BUILDER_PART);
        known_bits("leader attributes", leader, LEADER_KNOWN)?;
        known_bits("builder attributes", builder, BUILDER_KNOWN)?;
        let mut topic_id = [0; 16];
        topic_id.copy_from_slice(&raw[8..24]);
        let horizon = time_at(raw, 56, "delete horizon")?;
        let header = BatchHeader {
            batch_bytes: u32_at(raw, 4),
            partition: TopicPartition {
                topic_id: TopicId::from_bytes(topic_id),
                partition: PartitionIndex::new(u32_at(raw, 24)),
            },
            leader_epoch: LeaderEpoch::new(u32_at(raw, 28)),
            base_offset: offset_at(raw, 32, "base offset")?,
            hw_hint: offset_at(raw, 40, "high watermark hint")?,
            append_time: time_at(raw, 48, "append time")?,
            delete_horizon: (horizon != TimestampMs::EPOCH).then_some(horizon),
            ack_mode: leader & LEADER_ACK_MODE != 0,
            kind: if leader & LEADER_CONTROL == 0 { BatchKind::Data } else { BatchKind::Control },
            compacted: leader & LEADER_COMPACTED != 0,
            compression: codec_of(builder & BUILDER_CODEC)?,
            transactional: builder & BUILDER_TRANSACTIONAL != 0,
            keyed: builder & BUILDER_KEYED != 0,
            last_offset_delta: u32_at(raw, 68),
            record_count: u32_at(raw, 72),
            records_bytes: u32_at(raw, 76),
            records_raw_bytes: u32_at(raw, 80),
            entry_count: u32_at(raw, 84),
            base_timestamp: time_at(raw, 88, "base timestamp")?,
            max_timestamp: time_at(raw, 96, "max timestamp")?,
            payload_crc: u32_at(raw, PAYLOAD_CRC),
        };
        header.check()?;
        Ok(header)
    }

    /// Lengths, counts and offsets against each other and against the limits.
    fn check(&self) -> Result<(), BatchError> {
        at_most("batch length", u64::from(self.batch_bytes), BATCH_BYTES_MAX as u64)?;
        at_most("records length", u64::from(self.records_raw_bytes), RECORDS_RAW_BYTES_MAX as u64)?;
        let length = BATCH_HEADER_BYTES as u64
            + u64::from(self.records_bytes)
            + u64::from(self.entry_count) * REQUEST_ENTRY_BYTES as u64;
        equal("batch length", length, u64::from(self.batch_bytes))?;
        if self.compression == Compression::None {
            equal("records length", u64::from(self.records_bytes), u64::from(self.records_raw_bytes))?;
        }
        let smallest = u64::from(self.record_count) * RECORD_BYTES_MIN;
        if u64::from(self.records_raw_bytes) < smallest {
            let actual = u64::from(self.records_raw_bytes);
            return Err(BatchError::Mismatch { field: "records length", expected: smallest, actual });
        }
        if self.compacted {
            at_most("record count", u64::from(self.record_count), self.offset_count())?;
        } else {
            equal("record count", self.offset_count(), u64::from(self.record_count))?;
        }
        at_most("entry count", u64::from(self.entry_count), self.offset_count())?;
        let last = self.base_offset.value() + u64::from(self.last_offset_delta);
        if last >= Offset::MAX.value() {
            return Err(BatchError::OffsetOverflow {
                base_offset: self.base_offset,
                records: self.offset_count(),
            });
        }
        Ok(())
    }
}

/// CRC32C over the builder's part of the header and the payload.
pub(super) fn payload_crc(header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[BUILDER_PART..PAYLOAD_CRC]), payload)
}

/// Compares the payload CRC of the whole batch in `bytes`.
pub(super) fn check_payload_crc(bytes: &[u8], header: &BatchHeader) -> Result<(), BatchError> {
    let actual = payload_crc(bytes, &bytes[BATCH_HEADER_BYTES..]);
    if actual == header.payload_crc {
        return Ok(());
    }
    Err(BatchError::BadCrc { part: "payload", expected: header.payload_crc, actual })
}

/// Requires exactly the bytes that the header claims.
pub(super) fn check_length(bytes: &[u8], header: &BatchHeader) -> Result<(), BatchError> {
    let expected = header.batch_bytes as usize;
    let actual = bytes.len();
    match actual.cmp(&expected) {
        std::cmp::Ordering::Less => Err(BatchError::Truncated { expected, actual }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(BatchError::TrailingBytes { expected, actual }),
    }
}

fn header_bytes(bytes: &[u8]) -> Result<&[u8; BATCH_HEADER_BYTES], BatchError> {
    bytes
        .first_chunk::<BATCH_HEADER_BYTES>()
        .ok_or(BatchError::Truncated { expected: BATCH_HEADER_BYTES, actual: bytes.len() })
}

fn check_magic(raw: &[u8; BATCH_HEADER_BYTES]) -> Result<(), BatchError> {
    let actual = u32_at(raw, 0);
    if actual == MAGIC { Ok(()) } else { Err(BatchError::BadMagic { expected: MAGIC, actual }) }
}

const fn bit(set: bool, mask: u16) -> u16 {
    if set { mask } else { 0 }
}

fn known_bits(field: &'static str, value: u16, known: u16) -> Result<(), BatchError> {
    if value & !known == 0 { Ok(()) } else { Err(BatchError::UnknownBits { field, bits: value & !known }) }
}

const fn codec_bits(compression: Compression) -> u16 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
    }
}

fn codec_of(bits: u16) -> Result<Compression, BatchError> {
    match bits {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Lz4),
        2 => Ok(Compression::Zstd),
        _ => Err(BatchError::UnknownCodec(bits)),
    }
}

pub(super) fn at_most(field: &'static str, actual: u64, maximum: u64) -> Result<(), BatchError> {
    if actual <= maximum { Ok(()) } else { Err(BatchError::TooLarge { field, maximum, actual }) }
}

fn equal(field: &'static str, expected: u64, actual: u64) -> Result<(), BatchError> {
    if actual == expected { Ok(()) } else { Err(BatchError::Mismatch { field, expected, actual }) }
}

fn u16_at(raw: &[u8; BATCH_HEADER_BYTES], position: usize) -> u16 {
    u16::from_le_bytes([raw[position], raw[position + 1]])
}

fn u32_at(raw: &[u8; BATCH_HEADER_BYTES], position: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&raw[position..position + 4]);
    u32::from_le_bytes(bytes)
}

fn u63_at(raw: &[u8; BATCH_HEADER_BYTES], position: usize, field: &'static str) -> Result<u64, BatchError> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&raw[position..position + 8]);
    let value = u64::from_le_bytes(bytes);
    at_most(field, value, i64::MAX.cast_unsigned())?;
    Ok(value)
}

fn offset_at(
    raw: &[u8; BATCH_HEADER_BYTES],
    position: usize,
    field: &'static str,
) -> Result<Offset, BatchError> {
    u63_at(raw, position, field).map(Offset::new)
}

fn time_at(
    raw: &[u8; BATCH_HEADER_BYTES],
    position: usize,
    field: &'static str,
) -> Result<TimestampMs, BatchError> {
    u63_at(raw, position, field).map(TimestampMs::new)
}
