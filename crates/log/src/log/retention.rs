//! Retention by time and size: whole segments go, oldest first (R16).

use std::sync::Arc;
use std::time::Duration;

use wharf_types::{Offset, ProducerId, TimestampMs, limits};

use super::Log;
use super::append::{LeaderAppend, LeaderAppendOutcome};
use super::error::{AppendError, LogError};
use crate::batch::ControlRecord;
use crate::segment::Segment;

/// How long a client's producer is remembered without a request (R10).
const CLIENT_IDLE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The same where the partition remembers as many producers as it can (R10).
const CROWDED_IDLE_MAX: Duration = Duration::from_secs(3_600);
/// How long a gateway's own producer id is remembered without a batch (R10).
const GATEWAY_IDLE_MAX: Duration = Duration::from_secs(3_600);

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Longest time by append time, in milliseconds; `None` without bound.
    pub age_ms: Option<u64>,
    /// Most bytes; `None` without bound.
    pub bytes: Option<u64>,
}

/// What retention removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// Segments removed.
    pub segments: usize,
    /// Their length.
    pub bytes: u64,
    /// The log start afterwards.
    pub log_start: Offset,
}

impl Log {
    /// Removes the segments that are too old or too much, by the append time of their last batch and from the oldest
    /// on, as far as `bound` allows: the smallest of the high watermark, the last stable offset and, for internal
    /// logs, what is applied durably (R16). Closes the active segment if its time is over.
    ///
    /// Whether the wall clock can be believed is the caller's to decide (R16).
    ///
    /// # Errors
    /// [`LogError`].
    pub fn apply_retention(&mut self, now: TimestampMs, bound: Offset) -> Result<RetentionReport, LogError> {
        let limits = RetentionLimits { age_ms: self.config.retention_ms, bytes: self.config.retention_bytes };
        self.apply_retention_limits(now, bound, limits)
    }

    /// As [`Log::apply_retention`], with other limits than the topic's: for what is kept for groups that have not read
    /// it.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn apply_retention_limits(
        &mut self,
        now: TimestampMs,
        bound: Offset,
        limits: RetentionLimits,
    ) -> Result<RetentionReport, LogError> {
        self.roll_if_due(now)?;
        if !self.config.cleanup.deletes() {
            return Ok(RetentionReport { log_start: self.log_start_offset(), ..RetentionReport::default() });
        }
        let bound = bound.min(self.high_watermark());
        self.roll_if_expired(now, bound, limits)?;
        let segments = self.shared.view().segments.clone();
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        let mut kept_bytes: u64 = segments.iter().map(|segment| segment.bytes()).sum();
        let mut report = RetentionReport { log_start: self.log_start_offset(), ..RetentionReport::default() };
        for (at, segment) in closed.iter().enumerate() {
            let next_base = segments[at + 1].base_offset();
            let left = kept_bytes - segment.bytes();
            let is_too_much = limits.bytes.is_some_and(|limit| left >= limit);
            if next_base > bound || !(limits.is_expired(segment, now) || is_too_much) {
                break;
            }
            kept_bytes = left;
            report.segments += 1;
            report.bytes += segment.bytes();
            report.log_start = report.log_start.max(next_base);
        }
        self.advance_log_start(report.log_start)?;
        Ok(report)
    }

    /// Appends the record by which every replica forgets these producers (R10). Nothing for none.
    ///
    /// # Errors
    /// As [`Log::append_leader`].
    pub fn expire_producers(
        &mut self,
        producer_ids: Vec<ProducerId>,
        context: &LeaderAppend,
    ) -> Result<Option<LeaderAppendOutcome>, AppendError> {
        if producer_ids.is_empty() {
            return Ok(None);
        }
        let record = ControlRecord::ProducerExpiry { producer_ids };
        let batch = record.to_batch(context.now)?;
        self.append_control(batch, context).map(Some)
    }

    /// Makes every replica forget the producers that have been idle too long: clients' for 7 days, gateways' for 1 h
    /// (R10). `clock` never goes back within a process and counts from its start.
    ///
    /// # Errors
    /// As [`Log::append_leader`].
    pub fn expire_idle_producers(
        &mut self,
        clock: Duration,
        context: &LeaderAppend,
    ) -> Result<Option<LeaderAppendOutcome>, AppendError> {
        self.producers.advance_clock(clock);
        let crowded = self.producers.len() >= limits::PRODUCERS_PER_PARTITION_MAX;
        let client_idle_max = if crowded { CROWDED_IDLE_MAX } else { CLIENT_IDLE_MAX };
        let idle = self.producers.idle_since(client_idle_max, GATEWAY_IDLE_MAX);
        self.expire_producers(idle, context)
    }

    /// An active segment whose last record is expired is closed, so that it can go too.
    fn roll_if_expired(
        &mut self,
        now: TimestampMs,
        bound: Offset,
        limits: RetentionLimits,
    ) -> Result<(), LogError> {
        let is_expired = |active: &Arc<Segment>| {
            active.bytes() > 0 && active.next_offset() <= bound && limits.is_expired(active, now)
        };
        if self.active().as_ref().is_some_and(is_expired) {
            self.roll(self.log_end_offset())?;
        }
        Ok(())
    }
}

impl RetentionLimits {
    fn is_expired(self, segment: &Segment, now: TimestampMs) -> bool {
        self.age_ms.is_some_and(|limit| now.since(segment.last_append_time()) > limit)
    }
}
