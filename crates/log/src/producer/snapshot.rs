//! Snapshots of producer state: the fold up to an offset, so that a log need not be replayed from its start, and so
//! that state outlives the records it came from (T39).
//!
//! The file is framed with magic `WPSN`, version 1. Payload, little-endian:
//!
//! | position | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | offset: the fold of the log below it |
//! | 8 | 4 | producer count |
//! | 12 | | producers, rising by id |
//!
//! | in a producer | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | producer id |
//! | 8 | 4 | producer epoch |
//! | 12 | 1 | source: 0 client, 1 gateway |
//! | 13 | 1 | 1 with an open transaction, else 0 |
//! | 14 | 2 | requests in the window |
//! | 16 | 8 | first offset of the open transaction, else 0 |
//! | 24 | 4 | coordinator epoch of the open transaction, else 0 |
//! | 28 | 20 each | requests, rising: sequence u64, base offset u64, record count u32 |

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use wharf_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, limits};

use super::state::{AcceptedRequest, OpenTransaction, ProducerState, window_limit};
use super::states::ProducerStates;
use crate::batch::EntrySource;
use crate::framed::{self, FrameError, FrameKind};

const KIND: FrameKind = FrameKind { magic: *b"WPSN", version: 1 };
const PRODUCER_BYTES: usize = 28;
const REQUEST_BYTES: usize = 20;

/// Why bytes are not a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ProducerSnapshotError {
    /// The frame is damaged or of a newer version.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame is whole, its payload is not what this version writes.
    #[error("producer snapshot has a bad {field}")]
    Malformed {
        /// What is wrong.
        field: &'static str,
    },
}

impl ProducerStates {
    /// The snapshot file's bytes. Equal states give equal bytes on every replica.
    #[must_use]
    pub fn encode_snapshot(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(12 + self.producers.len() * (PRODUCER_BYTES + REQUEST_BYTES));
        payload.extend_from_slice(&self.end_offset.value().to_le_bytes());
        let count = u32::try_from(self.producers.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&count.to_le_bytes());
        for (id, producer) in &self.producers {
            encode_producer(&mut payload, *id, producer);
        }
        framed::encode(KIND, &payload)
    }

    /// The states of a snapshot, from a file or from the leader; `origin` is for error texts.
    ///
    /// # Errors
    /// [`ProducerSnapshotError`]; an older snapshot or a replay must take its place (T40).
    pub fn decode_snapshot(origin: &Path, bytes: &[u8]) -> Result<Self, ProducerSnapshotError> {
        let malformed = |field| ProducerSnapshotError::Malformed { field };
        let mut input = framed::decode(origin, KIND, bytes)?;
        let end_offset = take_offset(&mut input).ok_or(malformed("offset"))?;
        let count = u32::from_le_bytes(take(&mut input).ok_or(malformed("producer count"))?);
        let mut producers = BTreeMap::new();
        for _ in 0..count {
            let (id, producer) = decode_producer(&mut input, end_offset).map_err(malformed)?;
            if producers.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(malformed("producer order"));
            }
            producers.insert(id, producer);
        }
        if !input.is_empty() {
            return Err(malformed("length"));
        }
        Ok(ProducerStates { end_offset, producers, ..ProducerStates::default() })
    }
}

fn encode_producer(payload: &mut Vec<u8>, id: ProducerId, producer: &ProducerState) {
    payload.extend_from_slice(&id.value().to_le_bytes());
    payload.extend_from_slice(&producer.epoch.value().to_le_bytes());
    payload.push(match producer.source {
        EntrySource::Client => 0,
        EntrySource::Gateway => 1,
    });
    payload.push(u8::from(producer.transaction.is_some()));
    let requests = u16::try_from(producer.window.len()).unwrap_or(u16::MAX);
    payload.extend_from_slice(&requests.to_le_bytes());
    let (first_offset, coordinator_epoch) = producer
        .transaction
        .map_or((0, 0), |open| (open.first_offset.value(), open.coordinator_epoch.value()));
    payload.extend_from_slice(&first_offset.to_le_bytes());
    payload.extend_from_slice(&coordinator_epoch.to_le_bytes());
    for request in &producer.window {
        payload.extend_from_slice(&request.sequence.value().to_le_bytes());
        payload.extend_from_slice(&request.base_offset.value().to_le_bytes());
        payload.extend_from_slice(&request.record_count.to_le_bytes());
    }
}

fn decode_producer(
    input: &mut &[u8],
    end_offset: Offset,
) -> Result<(ProducerId, ProducerState), &'static str> {
    let id = u64::from_le_bytes(take(input).ok_or("length")?);
    if id == 0 || id >= limits::PRODUCER_ID_END {
        return Err("producer id");
    }
    let epoch = ProducerEpoch::new(u32::from_le_bytes(take(input).ok_or("length")?));
    let [source, open] = take(input).ok_or("length")?;
    let source = match source {
        0 => EntrySource::Client,
        1 => EntrySource::Gateway,
        _ => return Err("source"),
    };
    let requests = usize::from(u16::from_le_bytes(take(input).ok_or("length")?));
    if requests == 0 || requests > window_limit(source) {
        return Err("window length");
    }
    let first_offset = take_offset(input).ok_or("transaction")?;
    let coordinator_epoch = u32::from_le_bytes(take(input).ok_or("length")?);
    let transaction = match (open, first_offset.value(), coordinator_epoch) {
        (0, 0, 0) => None,
        (1, ..) if first_offset < end_offset => {
            Some(OpenTransaction { first_offset, coordinator_epoch: LeaderEpoch::new(coordinator_epoch) })
        }
        _ => return Err("transaction"),
    };
    let mut window = VecDeque::with_capacity(requests);
    for _ in 0..requests {
        let request = decode_request(input, end_offset)?;
        if window.back().is_some_and(|last: &AcceptedRequest| last.sequence >= request.sequence) {
            return Err("window order");
        }
        window.push_back(request);
    }
    Ok((
        ProducerId::new(id),
        ProducerState { epoch, source, window, transaction, last_seen: Default::default() },
    ))
}

fn decode_request(input: &mut &[u8], end_offset: Offset) -> Result<AcceptedRequest, &'static str> {
    let sequence = u64::from_le_bytes(take(input).ok_or("length")?);
    if sequence > i64::MAX.cast_unsigned() {
        return Err("sequence");
    }
    let base_offset = take_offset(input).ok_or("base offset")?;
    let record_count = u32::from_le_bytes(take(input).ok_or("length")?);
    let request = AcceptedRequest { sequence: Sequence::new(sequence), base_offset, record_count };
    if record_count == 0 || request.last_offset() >= end_offset {
        return Err("record count");
    }
    Ok(request)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*head)
}

fn take_offset(input: &mut &[u8]) -> Option<Offset> {
    let value = u64::from_le_bytes(take(input)?);
    (value <= Offset::MAX.value()).then(|| Offset::new(value))
}
