//! What happens to a partition beside appends and reads: settings, retention, the checkpoint, the end.

use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_log::checkpoint::CheckpointEntry;
use wharf_log::log::{LeaderAppend, LogConfig, LogError, RetentionLimits, RetentionReport};
use wharf_types::{FlushPolicy, LeaderEpoch, Offset, TimestampMs};

use super::super::wall_clock_guard::ClockState;
use super::inbox::Job;
use super::{Partition, State, TopicSettings};
use crate::storage_api::StorageError;

impl Partition {
    /// Takes over the topic's settings; the log follows in its turn.
    pub(crate) fn update_settings(self: &Arc<Self>, settings: TopicSettings) {
        if settings == *self.settings() {
            return;
        }
        let config = LogConfig::from(&settings.config);
        let meta = super::super::meta::encode(self.id, &settings, &[self.node.config.node_id]);
        *self.settings.write() = Arc::new(settings);
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            let dir = state.log.dir().to_owned();
            let stored = wharf_log::log::write_partition_meta(&*partition.node.vfs, &dir, &meta);
            if let Err(error) = stored {
                tracing::warn!(partition = %partition.id, error = %error, "partition.meta was not updated");
            }
            if let Err(error) = state.log.set_config(config) {
                partition.log_failed(state, &error);
            }
        })));
    }

    /// The epoch in which this replica leads, as the log knows it.
    pub(crate) fn leader_epoch(&self) -> Option<LeaderEpoch> {
        match self.leader_epoch.load(std::sync::atomic::Ordering::Acquire) {
            super::NOT_LEADING => None,
            epoch => Some(LeaderEpoch::new(epoch)),
        }
    }

    /// What the checkpoint says of this partition.
    pub(crate) fn checkpoint_entry(&self) -> CheckpointEntry {
        self.state.lock().log.checkpoint_entry()
    }

    /// Asks for a flush where the clock decides (`flush.policy=interval`).
    pub(crate) fn flush_by_interval(self: &Arc<Self>) {
        let dirty = self.reader.log_end_offset() > self.reader.durable_end_offset();
        if dirty && self.settings.read().config.flush_policy == FlushPolicy::Interval {
            self.request_flush();
        }
    }

    /// `unread_from` is where the first of the groups stands for which unread records are kept.
    ///
    /// Rolls, expires producers and, while the wall clock can be believed, deletes old segments; in the partition's
    /// turn.
    pub(crate) fn maintain(
        self: &Arc<Self>,
        clock: ClockState,
        unread_from: Option<Offset>,
    ) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            partition.maintain_now(state, clock, unread_from);
            // The housekeeper may have stopped waiting.
            let _ = done.send(());
        })));
        receiver
    }

    fn maintain_now(&self, state: &mut State, clock: ClockState, unread_from: Option<Offset>) {
        if state.closed || state.leading.is_none() || state.log.is_poisoned() {
            return;
        }
        let now = self.node.clock.now();
        let bound = state.log.high_watermark();
        match state.log.roll_if_due(now) {
            Ok(rolled) => state.rolled |= rolled,
            Err(error) => return self.log_failed(state, &error),
        }
        self.expire_producers(state, now);
        if !clock.is_steady() {
            return;
        }
        match self.apply_retention(state, now, bound, unread_from) {
            Ok(report) if report.segments > 0 => tracing::info!(
                partition = %self.id, segments = report.segments, bytes = report.bytes,
                log_start = %state.log.log_start_offset(), "retention deleted segments"
            ),
            Ok(_) => {}
            Err(error) => self.log_failed(state, &error),
        }
    }

    /// What no group of `retain.for.groups` waits for goes by the topic's retention, the rest by the bound on it.
    fn apply_retention(
        &self,
        state: &mut State,
        now: TimestampMs,
        bound: Offset,
        unread_from: Option<Offset>,
    ) -> Result<RetentionReport, LogError> {
        let Some(unread_from) = unread_from else { return state.log.apply_retention(now, bound) };
        let read = state.log.apply_retention(now, bound.min(unread_from))?;
        let settings = self.settings();
        let limits = RetentionLimits {
            age_ms: settings.config.retain_for_groups_max_ms,
            bytes: settings.config.retain_for_groups_max_bytes,
        };
        let unread = state.log.apply_retention_limits(now, bound, limits)?;
        Ok(RetentionReport {
            segments: read.segments + unread.segments,
            bytes: read.bytes + unread.bytes,
            log_start: unread.log_start,
        })
    }

    fn expire_producers(&self, state: &mut State, now: TimestampMs) {
        let Some(leader_epoch) = state.leading else { return };
        let context = LeaderAppend { leader_epoch, high_watermark: state.log.high_watermark(), now };
        if let Err(error) = state.log.expire_idle_producers(self.node.started.elapsed(), &context) {
            self.append_failed(state, error);
        }
    }

    /// Moves the log start offset up.
    pub(crate) fn delete_records(
        self: &Arc<Self>,
        before: Offset,
        validate_only: bool,
    ) -> oneshot::Receiver<Result<Offset, StorageError>> {
        let (answer, receiver) = oneshot::channel();
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            // A caller that is gone loses the answer only.
            drop(answer.send(partition.delete_records_now(state, before, validate_only)));
        })));
        receiver
    }

    fn delete_records_now(
        &self,
        state: &mut State,
        before: Offset,
        validate_only: bool,
    ) -> Result<Offset, StorageError> {
        if state.leading.is_none() || state.closed {
            return Err(StorageError::LeaderNotAvailable(self.id));
        }
        if before > state.log.high_watermark() {
            return Err(self.out_of_range(before));
        }
        if validate_only {
            return Ok(before.max(state.log.log_start_offset()));
        }
        if before > state.log.log_start_offset()
            && let Err(error) = state.log.advance_log_start(before)
        {
            self.log_failed(state, &error);
            return Err(StorageError::DiskFailed);
        }
        Ok(state.log.log_start_offset())
    }

    /// An operation on the log failed: only a full disk leaves the log usable.
    pub(super) fn log_failed(&self, state: &mut State, error: &LogError) {
        if matches!(error, LogError::StorageFull { .. }) {
            tracing::warn!(partition = %self.id, error = %error, "no space");
            self.node.disk.found_full();
        } else {
            self.fail(state, error);
        }
    }

    /// Flushes everything and writes the producer snapshot; the partition does nothing afterwards.
    pub(crate) fn close(self: &Arc<Self>) -> oneshot::Receiver<Result<CheckpointEntry, StorageError>> {
        let (answer, receiver) = oneshot::channel();
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            let result = partition.close_now(state);
            state.closed = true;
            state.leading = None;
            // Long polls end here.
            partition.high_watermark.send_replace(None);
            partition.leader_epoch.store(super::NOT_LEADING, std::sync::atomic::Ordering::Release);
            for waiter in state.waiters.drain(..) {
                waiter.answer(Err(StorageError::ShuttingDown));
            }
            drop(answer.send(result));
        })));
        receiver
    }

    fn close_now(&self, state: &mut State) -> Result<CheckpointEntry, StorageError> {
        if state.closed || state.log.is_poisoned() {
            return Err(StorageError::DiskFailed);
        }
        // The flush makes the last appends durable, so those who wait for them get their answer.
        if let Err(error) = state.log.flush() {
            self.log_failed(state, &error);
            return Err(StorageError::DiskFailed);
        }
        if state.leading.is_some() {
            let durable_end = state.log.durable_end_offset();
            self.advance_high_watermark(state, durable_end);
        }
        state.log.prepare_close().map_err(|error| {
            self.log_failed(state, &error);
            StorageError::DiskFailed
        })
    }
}
