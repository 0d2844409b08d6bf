//! Control records: what the log writes for itself, in batches of their own kind that no reader of records sees.
//!
//! A control batch has one record. Its key is the type, u16, and the version, u16; its value depends on the type:
//!
//! | type | record | value of version 1 |
//! |---:|---|---|
//! | 0 | no-op, which lets a leader prove that it still leads (R2) | empty |
//! | 1, 2 | reserved for commit and abort markers (R13) | |
//! | 3 | producer expiry (R10) | the producer ids, u64 each, rising |

use wharf_types::{Compression, ProducerId, TimestampMs, limits};

use super::{BatchBuilder, BatchError, RecordView, SealedBatch, UnsealedBatch};

const VERSION: u16 = 1;
const TYPE_NO_OP: u16 = 0;
const TYPE_PRODUCER_EXPIRY: u16 = 3;

/// The record of a control batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// Says nothing; that it was replicated is what counts.
    NoOp,
    /// These producers are forgotten by every replica.
    ProducerExpiry {
        /// The producers, rising.
        producer_ids: Vec<ProducerId>,
    },
}

/// Why a control batch cannot be followed. It must not be passed over: what it says would be missing in the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The batch itself is malformed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Not exactly one record with a key of four bytes.
    #[error("control batch has no control record")]
    Malformed,
    /// Written by a newer version.
    #[error("unknown control record of type {record_type}, version {version}")]
    Unknown {
        /// The type.
        record_type: u16,
        /// Its version.
        version: u16,
    },
    /// The value of a producer expiry is not a rising list of producer ids.
    #[error("producer expiry of {value_bytes} bytes is malformed")]
    MalformedExpiry {
        /// Length of the value.
        value_bytes: usize,
    },
}

impl ControlRecord {
    /// The batch of this record, to be sealed as [`BatchKind::Control`](super::BatchKind::Control).
    ///
    /// # Errors
    /// [`BatchError::TooLarge`] for a list of producers that no partition can have.
    pub fn to_batch(&self, now: TimestampMs) -> Result<UnsealedBatch, BatchError> {
        let (record_type, value) = match self {
            ControlRecord::NoOp => (TYPE_NO_OP, Vec::new()),
            ControlRecord::ProducerExpiry { producer_ids } => {
                (TYPE_PRODUCER_EXPIRY, producer_ids.iter().flat_map(|id| id.value().to_le_bytes()).collect())
            }
        };
        let [t0, t1] = record_type.to_le_bytes();
        let [v0, v1] = VERSION.to_le_bytes();
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push_record(&RecordView {
            key: Some(&[t0, t1, v0, v1]),
            value: Some(&value),
            headers: &[],
            timestamp: now,
        })?;
        builder.finish()
    }

    /// The record of a control batch.
    ///
    /// # Errors
    /// A [`ControlError`] that says why it cannot be followed.
    pub fn from_batch(batch: &SealedBatch) -> Result<Self, ControlError> {
        let mut records = batch.records()?;
        let record = records.next().ok_or(ControlError::Malformed)??;
        if records.next().is_some() {
            return Err(ControlError::Malformed);
        }
        let (Some(key), Some(value)) = (record.key, record.value) else {
            return Err(ControlError::Malformed);
        };
        let &[t0, t1, v0, v1] = key.as_ref() else {
            return Err(ControlError::Malformed);
        };
        match (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([v0, v1])) {
            (TYPE_NO_OP, VERSION) => Ok(ControlRecord::NoOp),
            (TYPE_PRODUCER_EXPIRY, VERSION) => {
                let producer_ids = decode_producer_ids(&value)
                    .ok_or(ControlError::MalformedExpiry { value_bytes: value.len() })?;
                Ok(ControlRecord::ProducerExpiry { producer_ids })
            }
            (record_type, version) => Err(ControlError::Unknown { record_type, version }),
        }
    }
}

fn decode_producer_ids(value: &[u8]) -> Option<Vec<ProducerId>> {
    let (chunks, rest) = value.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let ids: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    let valid = ids.iter().all(|id| *id > 0 && *id < limits::PRODUCER_ID_END);
    let rising = ids.windows(2).all(|pair| pair[0] < pair[1]);
    (valid && rising).then(|| ids.into_iter().map(ProducerId::new).collect())
}
