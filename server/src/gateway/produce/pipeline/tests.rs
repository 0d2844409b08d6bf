//! The pipeline against a leader that keeps the rules of R10 and refuses at random: whatever happens, each request is
//! answered once, in an order that the log shows, and the budget is given back.

// The answers of a leader are as large as they are in the server.
#![allow(clippy::unwrap_used, clippy::result_large_err)]

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wharf_log::batch::{BatchKind, Seal};
use wharf_log::producer::{CheckOutcome, ProducerStates};
use wharf_types::{GroupName, PartitionIndex, TimestampMs, TopicId};

use super::super::fence::FirstFailure;
use super::*;
use crate::storage_api::*;

const PARTITION: TopicPartition =
    TopicPartition { topic_id: TopicId::from_bytes([7; 16]), partition: PartitionIndex::new(0) };
const EPOCH: LeaderEpoch = LeaderEpoch::new(3);

/// A leader in memory.
struct Leader {
    log: Mutex<LeaderLog>,
    appends: AtomicU64,
}

struct LeaderLog {
    rng: StdRng,
    /// Chance in a hundred that a batch is refused.
    refusals: u32,
    /// Chance in a hundred that there is no space for it.
    full: u32,
    states: ProducerStates,
    values: Vec<String>,
    generation: u64,
    next_index: u64,
    broken: bool,
}

impl Leader {
    fn new(seed: u64, refusals: u32) -> Arc<Self> {
        Leader::with_full_disk(seed, refusals, 0)
    }

    fn with_full_disk(seed: u64, refusals: u32, full: u32) -> Arc<Self> {
        let log = LeaderLog {
            rng: StdRng::seed_from_u64(seed),
            refusals,
            full,
            states: ProducerStates::new(Offset::ZERO),
            values: Vec::new(),
            generation: 0,
            next_index: 0,
            broken: false,
        };
        Arc::new(Leader { log: Mutex::new(log), appends: AtomicU64::new(0) })
    }

    fn values(&self) -> Vec<String> {
        self.log.lock().values.clone()
    }
}

impl LeaderLog {
    fn append(&mut self, request: AppendRequest) -> Result<AppendReply, AppendFailure> {
        let refuse = |error, batch| Err(AppendFailure { error, batch: Some(batch) });
        let position = request.pipeline;
        if position.generation > self.generation {
            (self.generation, self.next_index, self.broken) = (position.generation, 0, false);
        }
        if self.broken || position.generation < self.generation || position.index != self.next_index {
            self.broken |= position.generation == self.generation;
            return refuse(StorageError::PipelineBroken, request.batch);
        }
        self.next_index += 1;
        if self.rng.random_ratio(self.refusals, 100) {
            self.broken = true;
            return refuse(StorageError::LeaderNotAvailable(PARTITION), request.batch);
        }
        if self.rng.random_ratio(self.full, 100) {
            self.broken = true;
            let error = StorageError::StorageFull { available_bytes: 0, reserve_bytes: 0 };
            return Err(AppendFailure { error, batch: None });
        }
        if let CheckOutcome::Refused(verdicts) = self.states.check(request.batch.entries()) {
            self.broken |= !verdicts.iter().all(is_final);
            return Ok(AppendReply::Judged { verdicts, batch: request.batch });
        }
        let base_offset = Offset::new(self.values.len() as u64);
        let seal = Seal {
            partition: PARTITION,
            base_offset,
            leader_epoch: EPOCH,
            hw_hint: base_offset,
            ack_mode: true,
            append_time: TimestampMs::new(1),
            kind: BatchKind::Data,
        };
        let sealed = request.batch.seal(&seal).unwrap();
        self.states.apply(&sealed).unwrap();
        for record in sealed.records().unwrap() {
            self.values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
        }
        Ok(AppendReply::Committed { base_offset })
    }
}

/// What this leader is never asked.
fn not_asked<T: Send + 'static>() -> BoxFuture<'static, Result<T, StorageError>> {
    std::future::ready(Err(StorageError::ShuttingDown)).boxed()
}

fn commit_not_asked() -> BoxFuture<'static, Result<(), CommitError>> {
    std::future::ready(Err(StorageError::ShuttingDown.into())).boxed()
}

impl StorageApi for Leader {
    fn append(&self, request: AppendRequest) -> BoxFuture<'static, Result<AppendReply, AppendFailure>> {
        self.appends.fetch_add(1, Ordering::SeqCst);
        let (reply, turns) = {
            let mut log = self.log.lock();
            let reply = log.append(request);
            (reply, log.rng.random_range(0..4))
        };
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            reply
        }
        .boxed()
    }

    fn wait_committed(
        &self,
        _: TopicPartition,
        _: LeaderEpoch,
        _: Offset,
    ) -> BoxFuture<'static, Result<(), StorageError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn fetch(&self, _: FetchQuery) -> BoxFuture<'static, Result<FetchReply, StorageError>> {
        not_asked()
    }

    fn list_offset(
        &self,
        _: TopicPartition,
        _: OffsetQuery,
    ) -> BoxFuture<'static, Result<ListedOffset, StorageError>> {
        not_asked()
    }

    fn partition_status(
        &self,
        _: TopicPartition,
    ) -> BoxFuture<'static, Result<PartitionStatus, StorageError>> {
        not_asked()
    }

    fn delete_records(
        &self,
        _: TopicPartition,
        _: Offset,
        _: bool,
    ) -> BoxFuture<'static, Result<Offset, StorageError>> {
        not_asked()
    }

    fn skip_damaged(
        &self,
        _: TopicPartition,
        _: Offset,
        _: Offset,
        _: bool,
    ) -> BoxFuture<'static, Result<(), StorageError>> {
        not_asked()
    }

    fn has_keyed_records(&self, _: TopicPartition) -> BoxFuture<'static, Result<bool, StorageError>> {
        not_asked()
    }

    fn remembers(&self, _: SequenceQuery) -> BoxFuture<'static, Result<bool, StorageError>> {
        not_asked()
    }

    fn commit(&self, _: GroupCommit) -> BoxFuture<'static, Result<(), CommitError>> {
        commit_not_asked()
    }

    fn reset(&self, _: GroupName, _: Vec<OffsetToCommit>) -> BoxFuture<'static, Result<(), CommitError>> {
        commit_not_asked()
    }

    fn committed(
        &self,
        _: GroupName,
        _: Vec<TopicPartition>,
    ) -> BoxFuture<'static, Result<Option<Vec<CommittedPosition>>, StorageError>> {
        not_asked()
    }

    fn list_groups(
        &self,
        _: String,
        _: Option<String>,
        _: usize,
    ) -> BoxFuture<'static, Result<GroupPage, StorageError>> {
        not_asked()
    }

    fn describe_group(
        &self,
        _: GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupDescription>, StorageError>> {
        not_asked()
    }

    fn delete_group(&self, _: GroupName, _: bool) -> BoxFuture<'static, Result<(), CommitError>> {
        commit_not_asked()
    }

    fn disk_status(&self) -> DiskStatus {
        DiskStatus::default()
    }
}

const BUDGET_BYTES: usize = 1 << 20;
const PART_BYTES: usize = 100;

fn pipeline(leader: &Arc<Leader>) -> (Arc<PartitionPipeline>, Arc<PipelineContext>) {
    let context = Arc::new(PipelineContext {
        storage: Arc::clone(leader) as SharedStorage,
        incarnation: 1,
        producer_id: ProducerId::new(1),
        budget: BufferBudget::new(BUDGET_BYTES),
        runtime: tokio::runtime::Handle::current(),
    });
    let route = PartitionRoute { leader_epoch: Some(EPOCH), compression: Compression::None };
    (PartitionPipeline::new(PARTITION, Arc::clone(&context), route), context)
}

fn record(value: &str) -> [Record; 1] {
    [Record { value_text: Some(value.to_owned()), ..Record::default() }]
}

fn key(producer: u64, sequence: u64) -> SequenceKey {
    SequenceKey {
        producer_id: ProducerId::new(producer),
        epoch: ProducerEpoch::new(0),
        sequence: Sequence::new(sequence),
    }
}

async fn push(
    pipeline: &Arc<PartitionPipeline>,
    context: &PipelineContext,
    value: &str,
    producer: Option<SequenceKey>,
    fence: Option<&Arc<StreamFence>>,
) -> oneshot::Receiver<PartResult> {
    let records = record(value);
    loop {
        let answered = pipeline.answered();
        context.budget.take(PART_BYTES).await;
        let part = Part {
            records: &records,
            selection: None,
            producer,
            hashed_over: None,
            arrival_ms: 1,
            fence,
            bytes: PART_BYTES,
            fire_and_forget: false,
        };
        match pipeline.push(&part) {
            Ok(receiver) => return receiver,
            Err(PushRefused::ProducerWindowFull) => {
                context.budget.release(PART_BYTES);
                answered.await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_ready_together_share_a_batch() {
    let leader = Leader::new(1, 0);
    let (pipeline, context) = pipeline(&leader);
    let mut answers = Vec::new();
    for n in 0..50 {
        answers.push(push(&pipeline, &context, &n.to_string(), None, None).await);
    }
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap().unwrap().base_offset, Some(Offset::new(n as u64)));
    }
    assert_eq!(leader.appends.load(Ordering::SeqCst), 1);
    assert_eq!(context.budget.used_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_waits_for_the_answer_of_its_first_try() {
    let leader = Leader::new(1, 0);
    let (pipeline, context) = pipeline(&leader);
    let first = push(&pipeline, &context, "a", Some(key(9, 1)), None).await;
    let repeat = push(&pipeline, &context, "a", Some(key(9, 1)), None).await;
    let (first, repeat) = (first.await.unwrap().unwrap(), repeat.await.unwrap().unwrap());
    assert_eq!((first.duplicate, repeat.duplicate), (false, true));
    assert_eq!(first.base_offset, repeat.base_offset);
    let late = push(&pipeline, &context, "a", Some(key(9, 1)), None).await.await.unwrap().unwrap();
    assert_eq!((late.base_offset, late.duplicate), (first.base_offset, true));
    assert_eq!(leader.values(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_stream_sends_nothing_more() {
    let leader = Leader::new(1, 0);
    let (pipeline, context) = pipeline(&leader);
    let first_failure = FirstFailure::default();
    let [first, second, third] = [0, 1, 2].map(|place| Arc::new(StreamFence::new(&first_failure, place)));
    let sent = push(&pipeline, &context, "a", Some(key(9, 1)), Some(&first)).await;
    assert!(sent.await.unwrap().is_ok());
    let gathered = push(&pipeline, &context, "b", Some(key(9, 2)), Some(&second)).await;
    first.fail();
    assert_eq!(gathered.await.unwrap(), Err(ProduceError::PredecessorFailed));
    let later = push(&pipeline, &context, "c", Some(key(9, 3)), Some(&third)).await;
    assert_eq!(later.await.unwrap(), Err(ProduceError::PredecessorFailed));
    assert_eq!(leader.values(), ["a"]);
    assert_eq!(context.budget.used_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_pipeline_answers_all_that_waits() {
    let leader = Leader::new(1, 100);
    let (pipeline, context) = pipeline(&leader);
    let mut answers = Vec::new();
    for n in 0..10 {
        answers.push(push(&pipeline, &context, &n.to_string(), None, None).await);
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    pipeline.close();
    for answer in answers {
        assert_eq!(answer.await.unwrap(), Err(ProduceError::TopicGone));
    }
    assert_eq!(context.budget.used_bytes(), 0);
}

/// Streams of several producers, plain requests and repeats, over a leader that refuses a third of the batches.
#[tokio::test(start_paused = true)]
async fn refusals_lose_reorder_and_repeat_nothing() {
    for seed in 0..200 {
        let leader = Leader::new(seed, 33);
        let (pipeline, context) = pipeline(&leader);
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
        let mut answers = Vec::new();
        let mut next = [0_u64; 3];
        for _ in 0..200 {
            let producer = rng.random_range(0..4_usize);
            let (value, sequence) = if producer == 3 {
                (format!("plain-{}", answers.len()), None)
            } else {
                let repeat = next[producer] > 0 && rng.random_ratio(1, 8);
                let sequence = if repeat { next[producer] - 1 } else { next[producer] };
                next[producer] = next[producer].max(sequence + 1);
                (format!("{producer}-{sequence}"), Some(key(10 + producer as u64, sequence)))
            };
            let answer = push(&pipeline, &context, &value, sequence, None).await;
            answers.push((value, answer));
            if rng.random_ratio(1, 3) {
                tokio::task::yield_now().await;
            }
        }
        for (value, answer) in answers {
            let offset = answer.await.unwrap().unwrap().base_offset.unwrap();
            assert_eq!(leader.values()[usize::try_from(offset.value()).unwrap()], value, "seed {seed}");
        }
        let log = leader.values();
        for (producer, count) in next.iter().enumerate() {
            let own: Vec<_> = log.iter().filter(|value| value.starts_with(&format!("{producer}-"))).collect();
            let expected: Vec<String> =
                (0..*count).map(|sequence| format!("{producer}-{sequence}")).collect();
            assert_eq!(own, expected.iter().collect::<Vec<_>>(), "seed {seed}: order of producer {producer}");
        }
        assert_eq!(context.budget.used_bytes(), 0, "seed {seed}");
    }
}

/// Streams that fail for a full disk: whatever else waits with them, each request is answered, and nothing of a stream
/// is written behind its first failure.
#[tokio::test(start_paused = true)]
async fn failing_streams_hold_nobody_up() {
    for seed in 0..200 {
        let leader = Leader::with_full_disk(seed, 20, 10);
        let (pipeline, context) = pipeline(&leader);
        let mut rng = StdRng::seed_from_u64(seed ^ 0xf011);
        let failures: [FirstFailure; 3] = Default::default();
        let mut next = [0_u64; 3];
        let mut answers = Vec::new();
        for _ in 0..150 {
            let stream = rng.random_range(0..4_usize);
            let answer = if stream == 3 {
                push(&pipeline, &context, &padded("plain", answers.len() as u64), None, None).await
            } else {
                let sequence = next[stream];
                next[stream] += 1;
                let fence = Arc::new(StreamFence::new(&failures[stream], sequence));
                let key = key(10 + stream as u64, sequence);
                let value = padded(&stream.to_string(), sequence);
                push(&pipeline, &context, &value, Some(key), Some(&fence)).await
            };
            answers.push(answer);
            if rng.random_ratio(1, 20) {
                tokio::task::yield_now().await;
            }
        }
        for answer in answers {
            let answered = tokio::time::timeout(std::time::Duration::from_secs(60), answer).await;
            assert!(answered.is_ok(), "seed {seed}: a request was never answered");
        }
        for stream in 0..3 {
            let prefix = format!("{stream}-");
            let own: Vec<String> =
                leader.values().into_iter().filter(|value| value.starts_with(&prefix)).collect();
            let dense: Vec<String> =
                (0..own.len()).map(|sequence| padded(&stream.to_string(), sequence as u64)).collect();
            assert_eq!(own, dense, "seed {seed}: something was written behind a failure");
        }
        assert_eq!(context.budget.used_bytes(), 0, "seed {seed}");
    }
}

/// A value so large that some of them fill a batch.
fn padded(name: &str, sequence: u64) -> String {
    format!("{:<8000}", format!("{name}-{sequence}"))
}
