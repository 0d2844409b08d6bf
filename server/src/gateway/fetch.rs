//! Fetch: from batches as they are stored to records of the public API.

use std::sync::Arc;
use std::time::Duration;

use wharf_log::batch::{BatchKind, Record, SealedBatch};
use wharf_proto::error::ApiError;
use wharf_types::{LeaderEpoch, Offset, TimestampMs, limits};

use super::{Gateway, errors};
use crate::proto::{
    FetchRequest, FetchResponse, FetchedRecord, Header, IsolationLevel, StartPosition, fetch_request,
};
use crate::storage_api::{FetchPosition, FetchQuery, FetchReply, StorageError};

/// A long poll answers this much before the call's deadline.
const DEADLINE_MARGIN: Duration = Duration::from_millis(100);
/// What a record takes in the answer beyond its key, value and headers: a bound for its other fields.
const RECORD_WIRE_OVERHEAD: usize = 80;
/// Room in an answer for everything but records.
const RESPONSE_MARGIN: usize = 1 << 10;

/// Checked limits of one fetch.
struct Bounds {
    max_bytes: usize,
    max_records: usize,
    text: bool,
}

/// Serves one fetch.
///
/// # Errors
/// Those of api.md.
pub(super) async fn fetch(
    gateway: &Arc<Gateway>,
    request: FetchRequest,
    limit: Duration,
) -> Result<FetchResponse, ApiError> {
    let position = check_position(&request)?;
    let bounds = check_bounds(&request)?;
    let isolation = IsolationLevel::try_from(request.isolation)
        .map_err(|_| ApiError::invalid("isolation", "is not a known isolation level"))?;
    let route = gateway.routing.resolve(&request.topic)?;
    let partition = route.check_partition(request.partition)?;
    let max_wait = Duration::from_millis(u64::from(
        non_negative("max_wait_ms", request.max_wait_ms)?.min(limits::MAX_WAIT_MS),
    ))
    .min(limit.saturating_sub(DEADLINE_MARGIN));
    let min_bytes = match non_negative("min_bytes", request.min_bytes)? {
        0 => 1,
        bytes => (bytes as usize).min(bounds.max_bytes),
    };
    let query = FetchQuery {
        partition: route.partition_id(partition),
        position,
        max_bytes: bounds.max_bytes,
        min_bytes,
        max_wait,
        last_epoch: check_epoch(request.leader_epoch)?,
    };
    // Without transactions the last stable offset is the high watermark for every isolation level.
    let _ = isolation;
    let checked_from = query.last_epoch.and(match query.position {
        FetchPosition::Offset(offset) => Some(offset),
        _ => None,
    });
    let mut response =
        read(gateway, query, &bounds).await.map_err(|error| errors::storage_error(&route.name, &error))?;
    if let Some(offset) = checked_from
        && response.records.is_empty()
    {
        // A reader that names its last epoch stays where that epoch belongs until there is a record of a newer one:
        // past control batches the epoch would be taken for that of lost records.
        response.next_offset = Some(offset.to_wire());
    }
    gateway.metrics.fetched(response.records.len());
    Ok(response)
}

/// Reads on until there is a record, the end is reached or the time is up: batches without records are passed.
async fn read(
    gateway: &Arc<Gateway>,
    mut query: FetchQuery,
    bounds: &Bounds,
) -> Result<FetchResponse, StorageError> {
    loop {
        let fetched =
            super::retry::until_available(gateway, query.partition, || gateway.storage.fetch(query.clone()));
        let reply = tokio::select! {
            reply = fetched => reply?,
            // A long poll must not hold up a stop.
            () = gateway.drain.cancelled() => {
                let now = FetchQuery { max_wait: Duration::ZERO, ..query.clone() };
                gateway.storage.fetch(now).await?
            }
        };
        let (next, end) = (reply.next_offset, reply.high_watermark);
        let response = decode(reply, bounds)?;
        let passed = response.records.is_empty() && end.is_some_and(|end| next < end);
        if !passed || query.position == FetchPosition::Offset(next) {
            return Ok(response);
        }
        query.position = FetchPosition::Offset(next);
        // What was passed has an epoch of its own, which the reader has not seen.
        query.last_epoch = None;
    }
}

fn check_position(request: &FetchRequest) -> Result<FetchPosition, ApiError> {
    match request.position {
        None => Err(ApiError::invalid("position", "is not set; set offset, from_append_time_ms or start")),
        Some(fetch_request::Position::Offset(offset)) => {
            Offset::from_wire(offset).map(FetchPosition::Offset).ok_or_else(|| {
                ApiError::invalid("offset", format!("{offset} is negative; offsets count from 0"))
            })
        }
        Some(fetch_request::Position::FromAppendTimeMs(time)) => TimestampMs::from_wire(time)
            .map(FetchPosition::AppendTime)
            .ok_or_else(|| ApiError::invalid("from_append_time_ms", format!("{time} is negative"))),
        Some(fetch_request::Position::Start(start)) => match StartPosition::try_from(start) {
            Ok(StartPosition::Earliest) => Ok(FetchPosition::Earliest),
            Ok(StartPosition::Latest) => Ok(FetchPosition::Latest),
            _ => Err(ApiError::invalid("start", "must be START_POSITION_EARLIEST or START_POSITION_LATEST")),
        },
    }
}

fn check_epoch(epoch: Option<i32>) -> Result<Option<LeaderEpoch>, ApiError> {
    epoch
        .map(|epoch| u32::try_from(epoch).map(LeaderEpoch::new))
        .transpose()
        .map_err(|_| ApiError::invalid("leader_epoch", "is negative"))
}

fn check_bounds(request: &FetchRequest) -> Result<Bounds, ApiError> {
    let max_bytes = match non_negative("max_bytes", request.max_bytes)? {
        0 => limits::FETCH_BYTES_DEFAULT as usize,
        bytes => bytes as usize,
    };
    let max_records = match non_negative("max_records", request.max_records)? {
        0 => usize::MAX,
        records => records as usize,
    };
    Ok(Bounds { max_bytes: max_bytes.min(limits::RESPONSE_BYTES_MAX), max_records, text: request.text })
}

fn non_negative(field: &'static str, value: i32) -> Result<u32, ApiError> {
    u32::try_from(value)
        .map_err(|_| ApiError::invalid(field, format!("{value} is negative; 0 means the default")))
}

/// Takes records up to the bounds: at least one, if there is one.
fn decode(reply: FetchReply, bounds: &Bounds) -> Result<FetchResponse, StorageError> {
    // Grown step by step, a full answer's records would be copied several times.
    let available: usize = reply.batches.iter().map(|batch| batch.header().record_count as usize).sum();
    let most = (bounds.max_bytes / limits::RECORD_OVERHEAD_BYTES + 1).min(bounds.max_records);
    let records = Vec::with_capacity(available.min(most));
    let mut taker = Taker { bounds, start: reply.start, counted: 0, wire: RESPONSE_MARGIN, records };
    let mut next_offset = reply.next_offset;
    'batches: for batch in &reply.batches {
        if batch.header().kind == BatchKind::Control {
            continue;
        }
        let corrupted =
            |_| StorageError::DataCorrupted { from: batch.base_offset(), next_good: batch.next_offset() };
        for record in batch.records().map_err(corrupted)? {
            let record = record.map_err(corrupted)?;
            if record.offset < reply.start {
                continue;
            }
            let offset = record.offset;
            if !taker.take(record, batch) {
                next_offset = offset;
                break 'batches;
            }
        }
    }
    let high_watermark = reply.high_watermark.map(Offset::to_wire);
    Ok(FetchResponse {
        records: taker.records,
        next_offset: Some(next_offset.to_wire()),
        log_start_offset: Some(reply.log_start.to_wire()),
        high_watermark,
        last_stable_offset: high_watermark,
    })
}

struct Taker<'a> {
    bounds: &'a Bounds,
    start: Offset,
    /// Bytes as `max_bytes` counts them.
    counted: usize,
    /// Bytes of the encoded answer, at most.
    wire: usize,
    records: Vec<FetchedRecord>,
}

impl Taker<'_> {
    /// Takes the record, unless a bound is reached.
    fn take(&mut self, record: Record, batch: &SealedBatch) -> bool {
        debug_assert!(record.offset >= self.start);
        let (mut headers_bytes, mut headers_wire) = (0, 0);
        for header in record.headers.iter() {
            headers_bytes += header.name.len() + header.value.map_or(0, <[u8]>::len);
            headers_wire += 16;
        }
        let data = record.key.as_ref().map_or(0, |key| key.len())
            + record.value.as_ref().map_or(0, |value| value.len())
            + headers_bytes;
        let counted = self.counted + data + limits::RECORD_OVERHEAD_BYTES;
        let wire = self.wire + data + headers_wire + RECORD_WIRE_OVERHEAD;
        let full = counted > self.bounds.max_bytes
            || wire > limits::RESPONSE_BYTES_MAX
            || self.records.len() >= self.bounds.max_records;
        if full && !self.records.is_empty() {
            return false;
        }
        self.counted = counted;
        self.wire = wire;
        self.records.push(fetched(record, batch, self.bounds.text));
        true
    }
}

fn fetched(record: Record, batch: &SealedBatch, text: bool) -> FetchedRecord {
    let headers = record
        .headers
        .iter()
        .map(|header| {
            let value = header.value.map(|value| record.headers.share(value));
            let (value, value_text) = bytes_or_text(value, text);
            Header { name: header.name.to_owned(), value, value_text }
        })
        .collect();
    let tombstone = record.value.is_none();
    let (key, key_text) = bytes_or_text(record.key, text);
    let (value, value_text) = bytes_or_text(record.value, text);
    FetchedRecord {
        offset: Some(record.offset.to_wire()),
        timestamp_ms: Some(record.timestamp.to_wire()),
        append_time_ms: Some(batch.append_time().to_wire()),
        leader_epoch: Some(batch.leader_epoch().value().cast_signed()),
        key,
        value,
        key_text,
        value_text,
        tombstone,
        headers,
    }
}

/// Text where it is asked for and the bytes are valid UTF-8, else the bytes.
fn bytes_or_text(bytes: Option<bytes::Bytes>, text: bool) -> (Option<bytes::Bytes>, Option<String>) {
    match bytes {
        Some(bytes) if text => match std::str::from_utf8(&bytes) {
            Ok(valid) => (None, Some(valid.to_owned())),
            Err(_) => (Some(bytes), None),
        },
        bytes => (bytes, None),
    }
}
