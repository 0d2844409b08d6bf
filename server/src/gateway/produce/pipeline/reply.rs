//! What becomes of a batch's requests when the leader has answered.

use std::sync::Arc;
use std::time::Duration;

use wharf_log::batch::UnsealedBatch;
use wharf_log::producer::EntryVerdict;
use wharf_types::Offset;

use super::batch::{BatchRequests, BatchedRequest, ClosedBatch, keep_entries};
use super::{PartAnswer, PartResult, PartitionPipeline, Repeat, State};
use crate::gateway::errors::ProduceError;
use crate::storage_api::{AppendFailure, AppendReply, StorageError, is_final};

/// Shortest and longest wait before a refused batch is sent again.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

impl PartitionPipeline {
    pub(super) fn on_reply(
        self: &Arc<Self>,
        index: u64,
        requests: BatchRequests,
        reply: Result<AppendReply, AppendFailure>,
    ) {
        let mut state = self.state.lock();
        state.unanswered -= 1;
        match reply {
            Ok(AppendReply::Committed { base_offset, .. }) => {
                state.attempts = 0;
                self.committed(&mut state, requests, base_offset);
            }
            Ok(AppendReply::Judged { verdicts, batch }) => {
                self.judged(&mut state, index, requests, &verdicts, &batch);
            }
            Err(AppendFailure { error, batch: Some(batch) }) if error.is_retriable() && !state.closed => {
                state.restarting = true;
                let outdated = matches!(error, StorageError::PipelineBroken);
                state.attempts = state.attempts.saturating_add(u32::from(!outdated));
                state.refused.push((index, ClosedBatch { batch, requests }));
            }
            Err(failure) => {
                // The leader has ended the generation with this refusal.
                state.restarting = true;
                let refused = failure.batch.is_some() || failure.error.is_certain_refusal();
                let error = if refused {
                    ProduceError::Storage(failure.error)
                } else {
                    ProduceError::Doubtful(failure.error)
                };
                self.refuse(&mut state, requests, &error);
            }
        }
        self.go_on(&mut state);
    }

    /// Sends what comes next, once a refused generation is answered in full.
    fn go_on(self: &Arc<Self>, state: &mut State) {
        if state.restarting {
            if state.unanswered > 0 {
                return;
            }
            self.begin_generation(state);
            if !state.ready.is_empty() && state.attempts > 0 {
                self.retry_later(state);
                return;
            }
            state.restarting = false;
        }
        self.pump(state);
        // Also where all that was ready has been given up: nobody else would send what has gathered behind it.
        if state.unanswered == 0 && state.open.is_some() {
            self.dispatch_soon(state);
        }
    }

    /// Puts the refused batches, oldest first, before everything that has not been sent yet.
    fn begin_generation(&self, state: &mut State) {
        state.generation += 1;
        state.next_index = 0;
        let mut refused = std::mem::take(&mut state.refused);
        refused.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (_, closed) in refused {
            if let Some(closed) = self.without_fenced(state, closed) {
                state.ready.push_front(closed);
            }
        }
    }

    fn retry_later(self: &Arc<Self>, state: &State) {
        let doubled = RETRY_WAIT.0.saturating_mul(1 << state.attempts.min(10));
        let jitter = rand::random_range(0.5..1.0);
        let wait = doubled.min(RETRY_WAIT.1).mul_f64(jitter);
        let pipeline = Arc::clone(self);
        self.context.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            let mut state = pipeline.state.lock();
            state.restarting = false;
            pipeline.pump(&mut state);
            pipeline.go_on(&mut state);
        });
    }

    /// Takes out the requests of streams that have failed, and whole batches for which nobody waits any more:
    /// none of it was appended.
    pub(super) fn without_fenced(&self, state: &mut State, closed: ClosedBatch) -> Option<ClosedBatch> {
        let ClosedBatch { batch, requests } = closed;
        if requests.requests.iter().all(|request| is_abandoned(state, request)) {
            self.refuse(state, requests, &ProduceError::GaveUp);
            return None;
        }
        let fenced =
            |request: &BatchedRequest| request.fence.as_ref().is_some_and(|fence| fence.has_failed());
        if !requests.requests.iter().any(fenced) {
            return Some(ClosedBatch { batch, requests });
        }
        let mut keep = vec![true; requests.entry_records.len()];
        let BatchRequests { requests: all, entry_records, hashed_over, bytes } = requests;
        let (failed, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(fenced);
        for request in failed {
            keep[request.entry] = false;
            self.answer(state, request, Err(ProduceError::PredecessorFailed));
        }
        let rest = BatchRequests { requests: rest, entry_records, hashed_over, bytes };
        self.keep(state, &batch, &keep, rest)
    }

    fn committed(&self, state: &mut State, requests: BatchRequests, base_offset: Offset) {
        self.context.budget.release(requests.bytes);
        let mut entry_bases = Vec::with_capacity(requests.entry_records.len());
        let mut next = base_offset;
        for records in &requests.entry_records {
            entry_bases.push(next);
            next = next.plus(u64::from(*records));
        }
        for request in requests.requests {
            let base = entry_bases[request.entry].plus(u64::from(request.first_in_entry));
            self.answer(state, request, Ok(PartAnswer { base_offset: Some(base), duplicate: false }));
        }
    }

    /// Answers the entries that got their final verdict; the others are sent again.
    fn judged(
        self: &Arc<Self>,
        state: &mut State,
        index: u64,
        requests: BatchRequests,
        verdicts: &[EntryVerdict],
        batch: &UnsealedBatch,
    ) {
        let keep: Vec<bool> = verdicts.iter().map(|verdict| !is_final(verdict)).collect();
        let BatchRequests { requests: all, entry_records, hashed_over, bytes } = requests;
        let (held_up, judged): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|request| keep.get(request.entry).copied().unwrap_or(false));
        for request in judged {
            match verdicts.get(request.entry) {
                Some(EntryVerdict::Duplicate { base_offset, last_offset }) => {
                    self.answer_duplicate(state, request, *base_offset, *last_offset);
                }
                Some(verdict) => self.answer(state, request, Err(ProduceError::Verdict(*verdict))),
                None => self.answer(state, request, Err(ProduceError::Doubtful(StorageError::DiskFailed))),
            }
        }
        let rest = BatchRequests { requests: held_up, entry_records, hashed_over, bytes };
        if rest.requests.is_empty() {
            self.context.budget.release(bytes);
        } else {
            // The leader has ended the generation at this batch.
            state.restarting = true;
            if let Some(closed) = self.keep(state, batch, &keep, rest) {
                state.refused.push((index, closed));
            }
        }
    }

    fn keep(
        &self,
        state: &mut State,
        batch: &UnsealedBatch,
        keep: &[bool],
        requests: BatchRequests,
    ) -> Option<ClosedBatch> {
        if requests.requests.is_empty() {
            self.context.budget.release(requests.bytes);
            return None;
        }
        let compression = self.route.load().compression;
        match keep_entries(batch, keep, compression, requests) {
            Ok(closed) => Some(closed),
            Err((error, requests)) => {
                tracing::error!(partition = %self.partition, error = %error, "a batch of this gateway cannot be read back");
                self.refuse(state, requests, &ProduceError::Storage(StorageError::DiskFailed));
                None
            }
        }
    }

    /// Answers a repeat once its first try is committed: it may still be on its way (T37).
    fn answer_duplicate(
        self: &Arc<Self>,
        state: &mut State,
        request: BatchedRequest,
        base_offset: Offset,
        last_offset: Offset,
    ) {
        let waiting = self.settle(state, &request);
        let epoch = self.leader_epoch();
        let committed = self.context.storage.wait_committed(self.partition, epoch, last_offset);
        let base = base_offset.plus(u64::from(request.first_in_entry));
        self.context.runtime.spawn(async move {
            let result = match committed.await {
                Ok(()) => Ok(PartAnswer { base_offset: Some(base), duplicate: true }),
                // It is in the log, and whether it stays is not known.
                Err(error) => Err(ProduceError::Doubtful(error)),
            };
            answer_all(request.answer, waiting, result);
        });
    }

    /// Answers every request of a batch with the same error.
    pub(super) fn refuse(&self, state: &mut State, requests: BatchRequests, error: &ProduceError) {
        self.context.budget.release(requests.bytes);
        for request in requests.requests {
            self.answer(state, request, Err(error.clone()));
        }
    }

    fn answer(&self, state: &mut State, request: BatchedRequest, result: PartResult) {
        if result.is_err()
            && let Some(fence) = &request.fence
        {
            fence.fail();
        }
        let waiting = self.settle(state, &request);
        answer_all(request.answer, waiting, result);
    }

    /// The request's sequence is not unanswered any more; gives back those who waited for the same answer.
    fn settle(&self, state: &mut State, request: &BatchedRequest) -> Vec<Repeat> {
        let Some(key) = request.producer else { return Vec::new() };
        if let Some(unanswered) = state.by_producer.get_mut(&key.producer_id) {
            *unanswered -= 1;
            if *unanswered == 0 {
                state.by_producer.remove(&key.producer_id);
            }
            // Whoever waits for a place of this producer looks again.
            self.answered.notify_waiters();
        }
        state.pending.remove(&key).unwrap_or_default()
    }
}

/// Whether nobody waits for the request any more, neither its first call nor a repeat.
fn is_abandoned(state: &State, request: &BatchedRequest) -> bool {
    let repeats = request.producer.and_then(|key| state.pending.get(&key));
    let all_gone = repeats.is_none_or(|repeats| repeats.iter().all(|repeat| repeat.answer.is_closed()));
    request.answer.is_closed() && all_gone && !request.fire_and_forget
}

/// Hands the answer to the request and to its repeats; callers that are gone lose only the answer.
fn answer_all(first: tokio::sync::oneshot::Sender<PartResult>, repeats: Vec<Repeat>, result: PartResult) {
    for Repeat { answer, fence } in repeats {
        if let (Err(_), Some(fence)) = (&result, &fence) {
            fence.fail();
        }
        let result = result.clone().map(|answer| PartAnswer { duplicate: true, ..answer });
        drop(answer.send(result));
    }
    drop(first.send(result));
}
