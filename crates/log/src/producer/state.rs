//! One producer's state on one partition.

use std::collections::VecDeque;
use std::time::Duration;

use wharf_types::{LeaderEpoch, Offset, ProducerEpoch, Sequence, limits};

use super::EntryVerdict;
use crate::batch::{EntrySource, RequestEntry};

/// A request that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedRequest {
    /// Its sequence.
    pub sequence: Sequence,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Records that it had; at least 1.
    pub record_count: u32,
}

impl AcceptedRequest {
    /// Offset of its last record.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.plus(self.record_count as u64 - 1)
    }
}

/// Requests remembered of a producer of this kind (R10).
pub(super) const fn window_limit(source: EntrySource) -> usize {
    match source {
        EntrySource::Client => limits::PRODUCER_WINDOW,
        EntrySource::Gateway => limits::GATEWAY_PRODUCER_WINDOW,
    }
}

/// Invariant: the window is sorted by sequence without repetition and holds the largest sequences accepted in this
/// epoch, at most [`window_limit`] of them.
#[derive(Clone, Debug)]
pub(super) struct ProducerState {
    pub(super) epoch: ProducerEpoch,
    pub(super) source: EntrySource,
    pub(super) window: VecDeque<AcceptedRequest>,
    /// First offset of the producer's open transaction, and the coordinator's epoch that opened it (R12). Nothing
    /// sets it yet; it is in the snapshot format so that transactions need no new one.
    pub(super) transaction: Option<OpenTransaction>,
    /// When the newest entry was applied, on the clock that the owner hands in. Not part of the fold.
    pub(super) last_seen: Duration,
}

/// A transaction without its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenTransaction {
    pub(super) first_offset: Offset,
    pub(super) coordinator_epoch: LeaderEpoch,
}

impl ProducerState {
    pub(super) fn new(entry: &RequestEntry, last_seen: Duration) -> Self {
        ProducerState {
            epoch: entry.producer_epoch,
            source: entry.source,
            window: VecDeque::new(),
            transaction: None,
            last_seen,
        }
    }

    /// What R10 says of the entry.
    pub(super) fn judge(&self, entry: &RequestEntry) -> EntryVerdict {
        if entry.producer_epoch < self.epoch {
            return EntryVerdict::Fenced { current: self.epoch };
        }
        if entry.producer_epoch > self.epoch {
            return EntryVerdict::Append;
        }
        match self.window.binary_search_by_key(&entry.sequence, |request| request.sequence) {
            Ok(index) => EntryVerdict::Duplicate {
                base_offset: self.window[index].base_offset,
                last_offset: self.window[index].last_offset(),
            },
            Err(0) if self.window.len() >= window_limit(self.source) => {
                let smallest = self.window.front().map_or(entry.sequence, |request| request.sequence);
                EntryVerdict::OutOfOrder { smallest }
            }
            Err(_) => EntryVerdict::Append,
        }
    }

    /// Takes an entry that was judged to be appended.
    pub(super) fn accept(&mut self, entry: &RequestEntry, base_offset: Offset, seen: Duration) {
        if entry.producer_epoch > self.epoch {
            self.window.clear();
            self.epoch = entry.producer_epoch;
            self.source = entry.source;
        }
        let request =
            AcceptedRequest { sequence: entry.sequence, base_offset, record_count: entry.record_count };
        let place = self.window.partition_point(|other| other.sequence < entry.sequence);
        self.window.insert(place, request);
        if self.window.len() > window_limit(self.source) {
            self.window.pop_front();
        }
        self.last_seen = self.last_seen.max(seen);
    }
}
