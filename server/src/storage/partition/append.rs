//! Appends of the leader: the checks in their order, the pipeline rule of R10, and who is answered when.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_log::log::{AppendError, LeaderAppend, LeaderAppendOutcome, LogError};
use wharf_types::{FlushPolicy, LeaderEpoch, Offset};

use super::inbox::Job;
use super::{Partition, State};
use crate::storage_api::{
    AppendFailure, AppendReply, AppendRequest, PipelinePosition, StorageError, is_final,
};

/// Gateways whose pipelines a partition remembers; the one unheard of longest goes first.
const PIPELINES_MAX: usize = 1_024;

type Answer = oneshot::Sender<Result<AppendReply, AppendFailure>>;

/// An append that waits for its turn.
pub(super) struct PendingAppend {
    request: AppendRequest,
    answer: Answer,
}

/// An append that waits for the high watermark.
pub(super) struct Waiter {
    pub(super) last_offset: Offset,
    base_offset: Offset,
    answer: WaiterAnswer,
}

enum WaiterAnswer {
    Append(Answer),
    Committed(oneshot::Sender<Result<(), StorageError>>),
}

impl Waiter {
    pub(super) fn answer(self, result: Result<(), StorageError>) {
        // A caller that is gone loses the answer only.
        match self.answer {
            WaiterAnswer::Append(answer) => drop(answer.send(match result {
                Ok(()) => Ok(AppendReply::Committed { base_offset: self.base_offset }),
                Err(error) => Err(AppendFailure { error, batch: None }),
            })),
            WaiterAnswer::Committed(answer) => drop(answer.send(result)),
        }
    }
}

/// Where each gateway's pipeline stands (R10).
#[derive(Default)]
pub(super) struct PipelineTable {
    by_gateway: HashMap<u128, Pipeline>,
    clock: u64,
}

struct Pipeline {
    generation: u64,
    next_index: u64,
    broken: bool,
    heard_at: u64,
}

impl PipelineTable {
    /// Takes the next place of a gateway's pipeline, or refuses it.
    fn enter(&mut self, position: &PipelinePosition) -> Result<(), StorageError> {
        self.clock += 1;
        if !self.by_gateway.contains_key(&position.gateway) && self.by_gateway.len() >= PIPELINES_MAX {
            let oldest = self.by_gateway.iter().min_by_key(|(_, pipeline)| pipeline.heard_at);
            if let Some(gateway) = oldest.map(|(gateway, _)| *gateway) {
                self.by_gateway.remove(&gateway);
            }
        }
        let pipeline = self.by_gateway.entry(position.gateway).or_insert(Pipeline {
            generation: position.generation,
            next_index: 0,
            broken: false,
            heard_at: 0,
        });
        pipeline.heard_at = self.clock;
        if position.generation > pipeline.generation {
            pipeline.generation = position.generation;
            pipeline.next_index = 0;
            pipeline.broken = false;
        }
        let expected = position.generation == pipeline.generation && position.index == pipeline.next_index;
        if !expected || pipeline.broken {
            pipeline.broken |= position.generation == pipeline.generation;
            return Err(StorageError::PipelineBroken);
        }
        pipeline.next_index += 1;
        Ok(())
    }

    /// Refuses all that follows in this generation.
    fn break_off(&mut self, position: &PipelinePosition) {
        if let Some(pipeline) = self.by_gateway.get_mut(&position.gateway)
            && pipeline.generation == position.generation
        {
            pipeline.broken = true;
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_gateway.clear();
    }
}

impl Partition {
    /// Queues an append; its place in the order is taken when this returns.
    pub(crate) fn append(
        self: &Arc<Self>,
        request: AppendRequest,
    ) -> oneshot::Receiver<Result<AppendReply, AppendFailure>> {
        let (answer, receiver) = oneshot::channel();
        self.submit(Job::Append(Box::new(PendingAppend { request, answer })));
        receiver
    }

    /// Waits until the high watermark has passed `last` in this leader epoch.
    pub(crate) fn wait_committed(
        self: &Arc<Self>,
        leader_epoch: LeaderEpoch,
        last: Offset,
    ) -> oneshot::Receiver<Result<(), StorageError>> {
        let (answer, receiver) = oneshot::channel();
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            let waiter =
                Waiter { last_offset: last, base_offset: last, answer: WaiterAnswer::Committed(answer) };
            match partition.leading(state, leader_epoch) {
                Err(error) => waiter.answer(Err(error)),
                Ok(_) if state.log.high_watermark() > last => waiter.answer(Ok(())),
                Ok(_) => state.enqueue(waiter),
            }
        })));
        receiver
    }

    pub(super) fn append_now(&self, state: &mut State, append: PendingAppend) {
        let PendingAppend { request, answer } = append;
        let pipeline = request.pipeline;
        if let Err(error) = self.admit(state, &request) {
            state.pipelines.break_off(&pipeline);
            // A caller that is gone loses the answer only; so below.
            drop(answer.send(Err(AppendFailure { error, batch: Some(request.batch) })));
            return;
        }
        let context = LeaderAppend {
            leader_epoch: request.leader_epoch,
            high_watermark: state.log.high_watermark(),
            now: self.node.clock.now(),
        };
        let records = u64::from(request.batch.record_count());
        let bytes = request.batch.encoded_bytes();
        match state.log.append_leader(request.batch, &context) {
            Ok(LeaderAppendOutcome::Appended { base_offset, last_offset, batch, rolled, .. }) => {
                state.rolled |= rolled;
                self.node.metrics.appended(records, bytes);
                self.node.disk.used(bytes as u64);
                self.node.tail_cache.push(&self.tail, batch);
                state.enqueue(Waiter { last_offset, base_offset, answer: WaiterAnswer::Append(answer) });
            }
            Ok(LeaderAppendOutcome::Refused { verdicts, batch }) => {
                if !verdicts.iter().all(is_final) {
                    state.pipelines.break_off(&pipeline);
                }
                drop(answer.send(Ok(AppendReply::Judged { verdicts, batch })));
            }
            Err(error) => {
                state.pipelines.break_off(&pipeline);
                let error = self.append_failed(state, error);
                drop(answer.send(Err(AppendFailure { error, batch: None })));
            }
        }
    }

    /// The checks before anything is done with a batch.
    fn admit(&self, state: &mut State, request: &AppendRequest) -> Result<(), StorageError> {
        self.leading(state, request.leader_epoch)?;
        state.pipelines.enter(&request.pipeline)?;
        let settings = self.settings();
        if let Some(sent) = request.hashed_over
            && sent != settings.partition_count
        {
            return Err(StorageError::StalePartitionCount { sent, current: settings.partition_count });
        }
        if !settings.name.is_internal() {
            self.node.disk.check_reserve()?;
        }
        Ok(())
    }

    pub(super) fn append_failed(&self, state: &mut State, error: AppendError) -> StorageError {
        match error {
            AppendError::StorageFull { .. } | AppendError::Log(LogError::StorageFull { .. }) => {
                self.node.disk.found_full()
            }
            error => {
                self.fail(state, &error);
                StorageError::DiskFailed
            }
        }
    }

    /// What follows a turn: the high watermark moves, or a flush is asked for.
    pub(super) fn after_turn(self: &Arc<Self>, state: &mut State) {
        if state.leading.is_none() || self.failed.load(std::sync::atomic::Ordering::SeqCst) {
            return;
        }
        if state.log.config().flush_policy == FlushPolicy::Ack {
            // The turn itself may have flushed, for retention or compaction.
            self.advance_high_watermark(state, state.log.durable_end_offset());
            if state.log.log_end_offset() > state.log.durable_end_offset() {
                self.request_flush();
            }
        } else {
            self.advance_high_watermark(state, state.log.log_end_offset());
            if std::mem::take(&mut state.rolled) {
                self.request_flush();
            }
        }
    }

    /// Moves the high watermark and answers those who waited for it: it is published first, so that whoever has an
    /// answer finds its record in the next read.
    pub(super) fn advance_high_watermark(&self, state: &mut State, to: Offset) {
        state.log.advance_high_watermark(to);
        let high_watermark = state.log.high_watermark();
        self.high_watermark.send_if_modified(|published| {
            let moved = published.is_none_or(|published| published < high_watermark);
            if moved {
                *published = Some(high_watermark);
            }
            moved
        });
        while state.waiters.front().is_some_and(|waiter| waiter.last_offset < high_watermark) {
            if let Some(waiter) = state.waiters.pop_front() {
                waiter.answer(Ok(()));
            }
        }
    }
}

impl State {
    /// Keeps the waiters in the order of their offsets.
    fn enqueue(&mut self, waiter: Waiter) {
        let place = self.waiters.partition_point(|other| other.last_offset <= waiter.last_offset);
        self.waiters.insert(place, waiter);
    }
}
