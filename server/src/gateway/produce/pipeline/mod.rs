//! One gateway's appends to one partition: coalescing, order and restart (R10).
//!
//! Requests gather in the open batch. An idle partition waits for nothing: the batch goes as soon as the requests
//! that are ready at this moment are in it. While batches are unanswered, requests gather until one of them is
//! answered or the batch is full, so that a slow flush makes large batches by itself.
//!
//! Invariants:
//! - batches reach the leader in the order in which they were closed, requests in the order in which they were
//!   pushed; a restart resends what was refused in the old order before anything new;
//! - a sequence is in at most one unanswered batch; a repeat of it waits for that answer;
//! - each request is answered exactly once, and never as failed when it may have been appended;
//! - at most [`BATCHES_UNANSWERED_MAX`] batches are unanswered.

mod batch;
mod reply;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use wharf_types::{
    Compression, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition, limits,
};

use self::batch::{ClosedBatch, OpenBatch};
use super::budget::BufferBudget;
use super::fence::StreamFence;
use crate::gateway::errors::ProduceError;
use crate::proto::Record;
use crate::storage_api::{AppendRequest, PipelinePosition, SharedStorage};

/// Bytes at which a batch is closed. Larger ones leave the caches of a core between their copy, their checksum and
/// their write, which costs more than it saves.
const BATCH_BYTES_TARGET: usize = 64 << 10;
/// Least and most room that a new batch gets, in bytes.
const BATCH_ROOM: (usize, usize) = (1 << 10, BATCH_BYTES_TARGET + (8 << 10));
/// Most unanswered batches of a gateway on one partition (R10).
const BATCHES_UNANSWERED_MAX: usize = 16;

/// What became of one request on one partition.
pub(crate) type PartResult = Result<PartAnswer, ProduceError>;

/// The positions that a request got on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartAnswer {
    /// Offset of its first record there; the others follow without a hole. None for `ACKS_NONE`.
    pub(crate) base_offset: Option<Offset>,
    /// Whether the partition had the sequence already.
    pub(crate) duplicate: bool,
}

/// A producer's sequence, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SequenceKey {
    pub(crate) producer_id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
    pub(crate) sequence: Sequence,
}

/// The records of one request for one partition.
pub(crate) struct Part<'a> {
    pub(crate) records: &'a [Record],
    /// Which of the records; all of them if none.
    pub(crate) selection: Option<&'a [u32]>,
    pub(crate) producer: Option<SequenceKey>,
    /// The partition count over which keys were hashed, if they were.
    pub(crate) hashed_over: Option<u32>,
    /// Event time of records that carry none, in milliseconds.
    pub(crate) arrival_ms: i64,
    /// Ties the sequenced requests of one stream together.
    pub(crate) fence: Option<&'a Arc<StreamFence>>,
    /// What the records count of the gateway's buffer budget.
    pub(crate) bytes: usize,
    /// Whether the request is to be written though nobody waits for its answer (`ACKS_NONE`).
    pub(crate) fire_and_forget: bool,
}

/// Why a part was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushRefused {
    /// The producer has [`limits::PRODUCER_UNANSWERED_MAX`] unanswered requests here; wait for one.
    ProducerWindowFull,
}

/// What the metadata says of the partition now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionRoute {
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    pub(crate) compression: Compression,
}

/// What all pipelines of a gateway share.
pub(crate) struct PipelineContext {
    pub(crate) storage: SharedStorage,
    /// Random for each process start.
    pub(crate) incarnation: u128,
    /// The gateway's own producer id, for records without a client's producer.
    pub(crate) producer_id: ProducerId,
    pub(crate) budget: BufferBudget,
    pub(crate) runtime: tokio::runtime::Handle,
}

/// The pipeline to one partition.
pub(crate) struct PartitionPipeline {
    partition: TopicPartition,
    context: Arc<PipelineContext>,
    route: ArcSwap<PartitionRoute>,
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Default)]
struct State {
    open: Option<OpenBatch>,
    /// Whether a task is on its way that will close the open batch.
    dispatching: bool,
    /// Closed batches that wait for a place.
    ready: VecDeque<ClosedBatch>,
    generation: u64,
    next_index: u64,
    unanswered: usize,
    /// Refused batches by index, kept until the whole generation is answered.
    refused: Vec<(u64, ClosedBatch)>,
    /// Whether a refusal has ended the generation.
    restarting: bool,
    /// Restarts in a row without an appended batch.
    attempts: u32,
    gateway_sequence: u64,
    /// What the last batch held: the next one is given about as much room, so that small batches, which stay in
    /// memory for readers at the tail, do not keep large buffers.
    last_payload_bytes: usize,
    /// Sequences in unanswered batches, with those who wait for the same answer.
    pending: HashMap<SequenceKey, Vec<Repeat>>,
    by_producer: HashMap<ProducerId, usize>,
    closed: bool,
}

/// A repeat of a request that is unanswered: it gets the same answer.
struct Repeat {
    answer: oneshot::Sender<PartResult>,
    fence: Option<Arc<StreamFence>>,
}

impl PartitionPipeline {
    pub(crate) fn new(
        partition: TopicPartition,
        context: Arc<PipelineContext>,
        route: PartitionRoute,
    ) -> Arc<Self> {
        Arc::new(PartitionPipeline {
            partition,
            context,
            route: ArcSwap::from_pointee(route),
            state: Mutex::default(),
            answered: Notify::new(),
        })
    }

    /// Follows the metadata.
    pub(crate) fn update_route(&self, route: PartitionRoute) {
        self.route.store(Arc::new(route));
    }

    /// Takes one request's records into the order of the partition.
    ///
    /// # Errors
    /// [`PushRefused`], if the producer has too much unanswered here; nothing was taken then.
    pub(crate) fn push(
        self: &Arc<Self>,
        part: &Part<'_>,
    ) -> Result<oneshot::Receiver<PartResult>, PushRefused> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if state.closed {
            // The receiver is in hand, so the answer arrives.
            drop(answer.send(Err(ProduceError::TopicGone)));
            self.context.budget.release(part.bytes);
            return Ok(receiver);
        }
        if part.fence.is_some_and(|fence| fence.has_failed()) {
            drop(answer.send(Err(ProduceError::PredecessorFailed)));
            self.context.budget.release(part.bytes);
            return Ok(receiver);
        }
        if let Some(key) = part.producer {
            if let Some(waiting) = state.pending.get_mut(&key) {
                waiting.push(Repeat { answer, fence: part.fence.cloned() });
                self.context.budget.release(part.bytes);
                return Ok(receiver);
            }
            let unanswered = state.by_producer.entry(key.producer_id).or_default();
            if *unanswered >= limits::PRODUCER_UNANSWERED_MAX {
                return Err(PushRefused::ProducerWindowFull);
            }
            *unanswered += 1;
            state.pending.insert(key, Vec::new());
        }
        if state.open.as_ref().is_some_and(|open| !open.accepts(part)) {
            self.close_open(&mut state);
        }
        let compression = self.route.load().compression;
        let room = (state.last_payload_bytes.max(part.bytes) * 5 / 4).clamp(BATCH_ROOM.0, BATCH_ROOM.1);
        let open = state.open.get_or_insert_with(|| OpenBatch::new(compression, part.hashed_over, room));
        open.push(part, answer);
        if open.payload_bytes() >= BATCH_BYTES_TARGET {
            self.close_open(&mut state);
        }
        if state.unanswered == 0 || !state.ready.is_empty() {
            self.dispatch_soon(&mut state);
        }
        Ok(receiver)
    }

    /// Whether a request with this sequence is unanswered here.
    pub(crate) fn is_pending(&self, key: &SequenceKey) -> bool {
        self.state.lock().pending.contains_key(key)
    }

    /// Waits until a sequenced request of this partition was answered.
    pub(crate) fn answered(&self) -> tokio::sync::futures::Notified<'_> {
        self.answered.notified()
    }

    /// Has a task on its way that sends, unless there is one or a refused generation has to be answered first.
    fn dispatch_soon(self: &Arc<Self>, state: &mut State) {
        if state.dispatching || state.restarting {
            return;
        }
        state.dispatching = true;
        let pipeline = Arc::clone(self);
        self.context.runtime.spawn(async move { pipeline.dispatch().await });
    }

    /// Sends what is closed, and the open batch of an idle pipeline, once the requests that are ready now are in them:
    /// one turn of the leader then takes them all.
    async fn dispatch(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let mut state = self.state.lock();
        state.dispatching = false;
        if state.restarting {
            return;
        }
        if state.unanswered == 0 {
            self.close_open(&mut state);
        }
        self.pump(&mut state);
    }

    fn close_open(&self, state: &mut State) {
        if let Some(open) = state.open.take() {
            state.gateway_sequence += 1;
            state.last_payload_bytes = open.payload_bytes();
            let sequence = Sequence::new(state.gateway_sequence);
            state.ready.push_back(open.close(self.context.producer_id, sequence));
        }
    }

    /// Sends what is ready, as far as there are places.
    fn pump(self: &Arc<Self>, state: &mut State) {
        while !state.restarting && state.unanswered < BATCHES_UNANSWERED_MAX {
            let Some(batch) = state.ready.pop_front() else { break };
            if let Some(batch) = self.without_fenced(state, batch) {
                self.send(state, batch);
            }
        }
    }

    fn send(self: &Arc<Self>, state: &mut State, closed: ClosedBatch) {
        let index = state.next_index;
        state.next_index += 1;
        state.unanswered += 1;
        let ClosedBatch { batch, requests } = closed;
        let request = AppendRequest {
            partition: self.partition,
            leader_epoch: self.leader_epoch(),
            hashed_over: requests.hashed_over,
            pipeline: PipelinePosition {
                gateway: self.context.incarnation,
                generation: state.generation,
                index,
            },
            batch,
        };
        // The append has its place in the partition's order when the call returns, so it is made under the lock.
        let reply = self.context.storage.append(request);
        let pipeline = Arc::clone(self);
        self.context.runtime.spawn(async move {
            let reply = reply.await;
            pipeline.on_reply(index, requests, reply);
        });
    }

    /// The epoch of the leader that the metadata names. Without one it is an epoch that is never in force: the leader
    /// refuses it, and the pipeline tries again.
    fn leader_epoch(&self) -> LeaderEpoch {
        self.route.load().leader_epoch.unwrap_or(LeaderEpoch::new(u32::MAX))
    }

    /// Ends the pipeline of a topic that is gone: what waits is refused.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.closed = true;
        self.close_open(&mut state);
        let refused = std::mem::take(&mut state.refused).into_iter().map(|(_, batch)| batch);
        let ready = std::mem::take(&mut state.ready);
        for batch in refused.chain(ready) {
            self.refuse(&mut state, batch.requests, &ProduceError::TopicGone);
        }
    }
}

#[cfg(test)]
mod tests;
