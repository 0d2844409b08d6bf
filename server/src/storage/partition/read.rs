//! Reads of committed records: from the tail cache at once, else from the files on an IO thread.

use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_log::log::{ReadError, ReadLimit};
use wharf_types::{Offset, TimestampMs};

use super::Partition;
use crate::storage_api::{FetchReply, StorageError};

/// A read with its bounds settled: `[from, end)`, where `end` is not above the high watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPlan {
    pub(crate) from: Offset,
    pub(crate) end: Offset,
    pub(crate) max_bytes: usize,
}

impl Partition {
    /// Reads from memory, if the tail cache has the records.
    pub(crate) fn read_cached(&self, plan: ReadPlan) -> Option<FetchReply> {
        if plan.from < self.reader.log_start_offset() {
            return None;
        }
        let read = self.tail.read(plan.from, plan.end, plan.max_bytes)?;
        Some(self.reply(plan, read.batches, read.next_offset))
    }

    /// Reads from the files, on an IO thread.
    pub(crate) fn read_stored(
        self: &Arc<Self>,
        plan: ReadPlan,
    ) -> oneshot::Receiver<Result<FetchReply, StorageError>> {
        let partition = Arc::clone(self);
        self.node.io.run(move || {
            let limit = ReadLimit { max_bytes: plan.max_bytes, end: plan.end };
            match partition.reader.read(plan.from, limit) {
                Ok(outcome) => Ok(partition.reply(plan, outcome.batches, outcome.next_offset)),
                Err(error) => Err(partition.read_failed(plan, &error)),
            }
        })
    }

    /// The first record whose append time is this or later, and that time.
    pub(crate) fn offset_for_time(
        self: &Arc<Self>,
        time: TimestampMs,
    ) -> oneshot::Receiver<Result<Option<(Offset, TimestampMs)>, StorageError>> {
        let partition = Arc::clone(self);
        self.node.io.run(move || {
            partition.reader.offset_for_time(time).map_err(|error| {
                let from = partition.reader.log_start_offset();
                partition.read_failed(ReadPlan { from, end: from, max_bytes: 0 }, &error)
            })
        })
    }

    fn reply(
        &self,
        plan: ReadPlan,
        batches: Vec<wharf_log::batch::SealedBatch>,
        next_offset: Offset,
    ) -> FetchReply {
        FetchReply {
            start: plan.from,
            batches,
            next_offset: next_offset.max(plan.from),
            log_start: self.reader.log_start_offset(),
            high_watermark: self.high_watermark(),
        }
    }

    fn read_failed(&self, plan: ReadPlan, error: &ReadError) -> StorageError {
        match error {
            ReadError::OutOfRange { .. } => self.out_of_range(plan.from),
            ReadError::Corrupted { from, next_good, .. } => {
                tracing::error!(
                    partition = %self.id, from = %from, next_good = %next_good,
                    "records do not match their checksums; all outside of this range is served"
                );
                self.node.metrics.corruption_found();
                StorageError::DataCorrupted { from: *from, next_good: *next_good }
            }
            ReadError::Io { .. } => {
                tracing::error!(partition = %self.id, error = %error, "a read failed");
                StorageError::DiskFailed
            }
        }
    }

    pub(crate) fn out_of_range(&self, requested: Offset) -> StorageError {
        StorageError::OffsetOutOfRange {
            requested,
            log_start: self.reader.log_start_offset(),
            high_watermark: self.high_watermark().unwrap_or_default(),
        }
    }
}
