//! Batches on their way: open, closed, sent.

use tokio::sync::oneshot;
use wharf_log::batch::{
    BatchBuilder, BatchError, EntrySource, HeaderView, RecordView, RequestEntry, UnsealedBatch,
};
use wharf_types::{Compression, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use std::sync::Arc;

use super::super::fence::StreamFence;
use super::super::record::{header_value, record_key, record_value};
use super::{Part, PartResult, SequenceKey};
use crate::proto::Record;

/// One request in a batch.
pub(super) struct BatchedRequest {
    /// The request's entry in the batch.
    pub(super) entry: usize,
    /// Its first record, counted within the entry.
    pub(super) first_in_entry: u32,
    pub(super) producer: Option<SequenceKey>,
    pub(super) fence: Option<Arc<StreamFence>>,
    /// Whether it is to be written though nobody waits for its answer.
    pub(super) fire_and_forget: bool,
    pub(super) answer: oneshot::Sender<PartResult>,
}

/// A batch that still takes requests.
pub(super) struct OpenBatch {
    builder: BatchBuilder,
    requests: Vec<BatchedRequest>,
    /// Entries in the order of their records; the gateway's own has no key.
    entries: Vec<(Option<SequenceKey>, u32)>,
    gateway_entry: Option<usize>,
    hashed_over: Option<u32>,
    bytes: usize,
}

/// A batch that waits for its place.
pub(super) struct ClosedBatch {
    pub(super) batch: UnsealedBatch,
    pub(super) requests: BatchRequests,
}

/// Who waits for a batch, kept while its answer is awaited.
pub(super) struct BatchRequests {
    pub(super) requests: Vec<BatchedRequest>,
    /// Records of each entry, in order.
    pub(super) entry_records: Vec<u32>,
    pub(super) hashed_over: Option<u32>,
    /// What the batch holds of the gateway's buffer budget.
    pub(super) bytes: usize,
}

/// Requests of one batch; a bound on the work and the answers of one append.
const REQUESTS_PER_BATCH_MAX: usize = 4_096;

/// Why building a batch cannot fail here: records, entries and sizes were checked with the request, whose limits
/// (4 MiB, 65,536 records) keep every batch below the format's.
const CHECKED: &str = "the request's records were checked against limits below those of a batch";

impl OpenBatch {
    pub(super) fn new(compression: Compression, hashed_over: Option<u32>, room_bytes: usize) -> Self {
        OpenBatch {
            builder: BatchBuilder::with_capacity(compression, room_bytes),
            requests: Vec::new(),
            entries: Vec::new(),
            gateway_entry: None,
            hashed_over,
            bytes: 0,
        }
    }

    /// Whether the part can join. All producer-less records of a batch are one entry, so they must be neighbours;
    /// keys hashed over different partition counts do not mix.
    pub(super) fn accepts(&self, part: &Part<'_>) -> bool {
        let neighbours =
            part.producer.is_some() || self.gateway_entry.is_none_or(|entry| entry + 1 == self.entries.len());
        let same_count =
            part.hashed_over.is_none() || self.hashed_over.is_none() || self.hashed_over == part.hashed_over;
        let room = self.builder.payload_bytes() + part.bytes
            <= super::BATCH_BYTES_TARGET.max(part.bytes).max(self.builder.payload_bytes() + 1);
        neighbours && same_count && room && self.requests.len() < REQUESTS_PER_BATCH_MAX
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.builder.payload_bytes()
    }

    pub(super) fn push(&mut self, part: &Part<'_>, answer: oneshot::Sender<PartResult>) {
        let record_count = match part.selection {
            None => {
                part.records.iter().for_each(|record| self.push_record(record, part.arrival_ms));
                part.records.len()
            }
            Some(selection) => {
                selection
                    .iter()
                    .filter_map(|&index| part.records.get(index as usize))
                    .for_each(|record| self.push_record(record, part.arrival_ms));
                selection.len()
            }
        };
        // A request is at most 4 MiB, so its records fit.
        let record_count = u32::try_from(record_count).unwrap_or(u32::MAX);
        let (entry, first_in_entry) = self.entry_for(part.producer, record_count);
        self.hashed_over = self.hashed_over.or(part.hashed_over);
        self.bytes += part.bytes;
        self.requests.push(BatchedRequest {
            entry,
            first_in_entry,
            producer: part.producer,
            fence: part.fence.cloned(),
            fire_and_forget: part.fire_and_forget,
            answer,
        });
    }

    fn entry_for(&mut self, producer: Option<SequenceKey>, records: u32) -> (usize, u32) {
        if producer.is_none()
            && let Some(entry) = self.gateway_entry
        {
            let before = self.entries[entry].1;
            self.entries[entry].1 += records;
            return (entry, before);
        }
        let entry = self.entries.len();
        self.entries.push((producer, records));
        if producer.is_none() {
            self.gateway_entry = Some(entry);
        }
        (entry, 0)
    }

    fn push_record(&mut self, record: &Record, arrival_ms: i64) {
        let timestamp = TimestampMs::from_wire(record.timestamp_ms.unwrap_or(arrival_ms)).unwrap_or_default();
        let (key, value) = (record_key(record), record_value(record));
        if record.headers.is_empty() {
            let view = RecordView { key, value, headers: &[], timestamp };
            self.builder.push_record(&view).expect(CHECKED);
        } else {
            let headers: Vec<HeaderView<'_>> = record
                .headers
                .iter()
                .map(|header| HeaderView { name: &header.name, value: header_value(header) })
                .collect();
            let view = RecordView { key, value, headers: &headers, timestamp };
            self.builder.push_record(&view).expect(CHECKED);
        }
    }

    pub(super) fn close(mut self, gateway: ProducerId, gateway_sequence: Sequence) -> ClosedBatch {
        let entry_records = self.entries.iter().map(|(_, records)| *records).collect();
        for (producer, record_count) in self.entries {
            let entry = match producer {
                Some(key) => RequestEntry {
                    producer_id: key.producer_id,
                    producer_epoch: key.epoch,
                    sequence: key.sequence,
                    record_count,
                    source: EntrySource::Client,
                },
                None => RequestEntry {
                    producer_id: gateway,
                    producer_epoch: ProducerEpoch::default(),
                    sequence: gateway_sequence,
                    record_count,
                    source: EntrySource::Gateway,
                },
            };
            self.builder.push_entry(entry).expect(CHECKED);
        }
        ClosedBatch {
            batch: self.builder.finish().expect(CHECKED),
            requests: BatchRequests {
                requests: self.requests,
                entry_records,
                hashed_over: self.hashed_over,
                bytes: self.bytes,
            },
        }
    }
}

/// A batch of only those entries that `keep` names, with the requests that belong to them.
///
/// # Errors
/// [`BatchError`], which cannot be for a batch that this gateway built.
pub(super) fn keep_entries(
    batch: &UnsealedBatch,
    keep: &[bool],
    compression: Compression,
    requests: BatchRequests,
) -> Result<ClosedBatch, (BatchError, BatchRequests)> {
    let kept = |entry: usize| keep.get(entry).copied().unwrap_or(false);
    let mut builder = BatchBuilder::with_capacity(compression, batch.encoded_bytes());
    let mut records = match batch.records() {
        Ok(records) => records,
        Err(error) => return Err((error, requests)),
    };
    let mut new_index = Vec::new();
    let mut entry_records = Vec::new();
    for (index, entry) in batch.entries().iter().enumerate() {
        new_index.push(entry_records.len());
        for _ in 0..entry.record_count {
            let Some(record) = records.next() else { break };
            let copied = match record {
                Ok(record) if kept(index) => copy_record(&mut builder, &record),
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = copied {
                return Err((error, requests));
            }
        }
        if kept(index) {
            if let Err(error) = builder.push_entry(*entry) {
                return Err((error, requests));
            }
            entry_records.push(entry.record_count);
        }
    }
    let batch = match builder.finish() {
        Ok(batch) => batch,
        Err(error) => return Err((error, requests)),
    };
    let BatchRequests { requests, hashed_over, bytes, .. } = requests;
    let requests = requests
        .into_iter()
        .filter(|request| kept(request.entry))
        .map(|request| BatchedRequest { entry: new_index[request.entry], ..request })
        .collect();
    let requests = BatchRequests { requests, entry_records, hashed_over, bytes };
    Ok(ClosedBatch { batch, requests })
}

fn copy_record(builder: &mut BatchBuilder, record: &wharf_log::batch::Record) -> Result<(), BatchError> {
    let headers: Vec<HeaderView<'_>> = record.headers.iter().collect();
    builder.push_record(&RecordView {
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers,
        timestamp: record.timestamp,
    })
}
