//! Request entries: which request of which producer wrote which records of a batch (R10).

use wharf_types::{ProducerEpoch, ProducerId, Sequence, limits};

use super::BatchError;

/// Length of an encoded entry.
pub const REQUEST_ENTRY_BYTES: usize = 28;

const ATTRIBUTE_GATEWAY: u16 = 1;

/// Whose sequence an entry carries; decides how many requests a partition remembers of it (R10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySource {
    /// A client's own producer: a window of 128 requests.
    Client,
    /// The gateway's producer id for records whose client has none: a window of 16.
    Gateway,
}

/// One request's share of a batch: it covers the next `record_count` records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// The request's number; at most `i64::MAX`.
    pub sequence: Sequence,
    /// Offsets that the request covers; at least 1. Compaction does not lower it.
    pub record_count: u32,
    /// Whose sequence it is.
    pub source: EntrySource,
}

impl RequestEntry {
    pub(super) fn encode(&self) -> [u8; REQUEST_ENTRY_BYTES] {
        let mut bytes = [0; REQUEST_ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.producer_id.value().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.value().to_le_bytes());
        bytes[16..20].copy_from_slice(&self.producer_epoch.value().to_le_bytes());
        bytes[20..24].copy_from_slice(&self.record_count.to_le_bytes());
        let attributes = match self.source {
            EntrySource::Client => 0,
            EntrySource::Gateway => ATTRIBUTE_GATEWAY,
        };
        bytes[24..26].copy_from_slice(&attributes.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; REQUEST_ENTRY_BYTES], index: usize) -> Result<Self, BatchError> {
        let bad = |field, value| BatchError::BadEntry { field, value, index };
        let [p0, p1, p2, p3, p4, p5, p6, p7, s0, s1, s2, s3, s4, s5, s6, s7, rest @ ..] = *bytes;
        let [e0, e1, e2, e3, c0, c1, c2, c3, a0, a1, z0, z1] = rest;
        let producer_id = u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
        let sequence = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let record_count = u32::from_le_bytes([c0, c1, c2, c3]);
        let attributes = u16::from_le_bytes([a0, a1]);
        if producer_id == 0 || producer_id >= limits::PRODUCER_ID_END {
            return Err(bad("producer id", producer_id));
        }
        if sequence > i64::MAX.cast_unsigned() {
            return Err(bad("sequence", sequence));
        }
        if record_count == 0 {
            return Err(bad("record count", 0));
        }
        if attributes & !ATTRIBUTE_GATEWAY != 0 {
            return Err(bad("attributes", u64::from(attributes)));
        }
        if z0 != 0 || z1 != 0 {
            return Err(bad("padding", u64::from(u16::from_le_bytes([z0, z1]))));
        }
        Ok(RequestEntry {
            producer_id: ProducerId::new(producer_id),
            producer_epoch: ProducerEpoch::new(u32::from_le_bytes([e0, e1, e2, e3])),
            sequence: Sequence::new(sequence),
            record_count,
            source: if attributes & ATTRIBUTE_GATEWAY == 0 {
                EntrySource::Client
            } else {
                EntrySource::Gateway
            },
        })
    }

    /// Whether the encoded form would be read back: the checks of decoding.
    pub(super) fn check(&self, index: usize) -> Result<(), BatchError> {
        RequestEntry::decode(&self.encode(), index).map(|_| ())
    }
}

/// Decodes the entries section and checks that the entries cover `offsets` offsets, or that there are none.
pub(super) fn decode_entries(section: &[u8], offsets: u64) -> Result<Vec<RequestEntry>, BatchError> {
    let (chunks, _) = section.as_chunks::<REQUEST_ENTRY_BYTES>();
    let mut entries = Vec::with_capacity(chunks.len());
    let mut covered = 0u64;
    for (index, chunk) in chunks.iter().enumerate() {
        let entry = RequestEntry::decode(chunk, index)?;
        covered += u64::from(entry.record_count);
        entries.push(entry);
    }
    if !entries.is_empty() && covered != offsets {
        return Err(BatchError::Mismatch {
            field: "records covered by entries",
            expected: offsets,
            actual: covered,
        });
    }
    Ok(entries)
}
