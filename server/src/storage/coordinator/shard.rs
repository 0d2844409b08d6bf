//! The task of one shard.
//!
//! Invariants:
//! - answers show applied records only, and none before the replay has come to the high watermark that was seen after
//!   taking office (R14);
//! - a change is answered after its records are below the high watermark, in the shard and in RocksDB, in this order;
//! - what is appended and what is told to the shard have the same order, because one task does both.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};
use wharf_coordinator::{GroupShard, Record, Truncation, codec};
use wharf_log::batch::{BatchBuilder, RecordView};
use wharf_types::{Compression, Offset};

use super::super::node::NodeShared;
use super::super::offsets_store::{LossGeneration, OffsetsStore, PartitionMeta};
use super::super::partition::Partition;
use super::load::load;
use super::requests::{Change, Request, TOMBSTONES_PER_STEP, records_for};
use crate::storage_api::{AppendReply, AppendRequest, CommitError, PipelinePosition, StorageError};

/// Requests that share one batch at most.
const REQUESTS_PER_BATCH: usize = 512;
/// Bytes of records at which a batch is written; one request more may be in it.
const BATCH_BYTES_TARGET: u64 = 512 << 10;

/// What others see of a shard.
#[derive(Default)]
pub(super) struct ShardView {
    /// None until the log was read.
    shard: RwLock<Option<GroupShard>>,
}

impl ShardView {
    /// # Errors
    /// [`StorageError::CoordinatorLoading`].
    pub(super) fn read<T>(&self, look: impl FnOnce(&GroupShard) -> T) -> Result<T, StorageError> {
        self.shard.read().as_ref().map(look).ok_or(StorageError::CoordinatorLoading)
    }

    fn change<T>(&self, change: impl FnOnce(&mut GroupShard) -> T) -> Result<T, StorageError> {
        self.shard.write().as_mut().map(change).ok_or(StorageError::CoordinatorLoading)
    }
}

/// Runs a shard until its handle is dropped or its partition fails.
pub(super) async fn run_shard(
    node: Arc<NodeShared>,
    store: Arc<OffsetsStore>,
    partition: Arc<Partition>,
    view: Arc<ShardView>,
    mut waiting: mpsc::Receiver<Request>,
) {
    let mut shard = Shard { node, store, partition, view, generation: 0, truncation: None };
    let mut attempt = 0_u32;
    loop {
        match load(&shard.node, &shard.store, &shard.partition).await {
            Ok(loaded) => {
                *shard.view.shard.write() = Some(loaded);
                attempt = 0;
                match shard.run(&mut waiting).await {
                    Ok(()) => return,
                    // What was appended last may be in the log or not: only the log can tell.
                    Err(error) => {
                        tracing::warn!(partition = %shard.partition.id(), error = %error, "the offsets are read again");
                    }
                }
                *shard.view.shard.write() = None;
                shard.truncation = None;
            }
            Err(error) => {
                tracing::error!(partition = %shard.partition.id(), error = %error, "the offsets of this partition cannot be read; it is tried again");
            }
        }
        let wait = RELOAD_WAIT.0.saturating_mul(1 << attempt.min(10)).min(RELOAD_WAIT.1);
        attempt = attempt.saturating_add(1);
        tokio::select! {
            () = shard.node.stopping.cancelled() => return,
            () = shard.node.failed.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Shortest and longest wait before a shard is read again.
const RELOAD_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(10));

/// What is written in one batch, and who waits for it.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    bytes: u64,
    answers: Vec<oneshot::Sender<Result<(), CommitError>>>,
}

pub(super) struct Shard {
    pub(super) node: Arc<NodeShared>,
    pub(super) store: Arc<OffsetsStore>,
    pub(super) partition: Arc<Partition>,
    pub(super) view: Arc<ShardView>,
    generation: u64,
    pub(super) truncation: Option<Truncation>,
}

impl Shard {
    /// Serves requests until there are no more.
    ///
    /// # Errors
    /// As [`Shard::serve`].
    async fn run(&mut self, waiting: &mut mpsc::Receiver<Request>) -> Result<(), StorageError> {
        self.forget_deleted_topics().await?;
        let mut requests = Vec::new();
        while waiting.recv_many(&mut requests, REQUESTS_PER_BATCH).await > 0 {
            self.serve(std::mem::take(&mut requests)).await?;
            self.truncate_if_due().await?;
        }
        Ok(())
    }

    /// Makes the changes of all requests, in as few batches as their size allows, and answers them.
    ///
    /// # Errors
    /// [`StorageError`] after an append whose outcome is not known: the shard must be read again.
    async fn serve(&mut self, requests: Vec<Request>) -> Result<(), StorageError> {
        let now = self.node.clock.now();
        let mut batch = Batch::default();
        let mut deleted_topics = Vec::new();
        for Request { change, answer } in requests {
            // Judged with what the requests before it are about to write.
            let judged = self.view.change(|shard| {
                let records = records_for(shard, &change, now)?;
                shard.draft(records.iter().cloned());
                Ok(records)
            });
            match judged.map_err(CommitError::Storage).and_then(|judged: Result<_, CommitError>| judged) {
                Ok(records) => {
                    if let Change::TopicDeleted(topic_id) = change {
                        deleted_topics.push(topic_id);
                    }
                    batch.bytes += records.iter().map(Record::log_bytes_estimate).sum::<u64>();
                    batch.records.extend(records);
                    batch.answers.push(answer);
                }
                // A caller that is gone loses the answer only; so below.
                Err(error) => drop(answer.send(Err(error))),
            }
            if batch.bytes >= BATCH_BYTES_TARGET
                && let Err(error) = self.write_batch(std::mem::take(&mut batch)).await
            {
                return Err(error);
            }
        }
        self.write_batch(batch).await?;
        for topic_id in deleted_topics {
            self.forget_topic(topic_id).await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self, batch: Batch) -> Result<(), StorageError> {
        let result = self.write_drafted(batch.records).await;
        for answer in batch.answers {
            drop(answer.send(result.clone().map_err(CommitError::Storage)));
        }
        result
    }

    /// Appends records, waits until they are committed, and applies them.
    ///
    /// # Errors
    /// As [`Shard::serve`].
    pub(super) async fn write(&mut self, records: Vec<Record>) -> Result<(), StorageError> {
        self.view.change(|shard| shard.draft(records.iter().cloned()))?;
        self.write_drafted(records).await
    }

    /// Appends what was drafted.
    async fn write_drafted(&mut self, records: Vec<Record>) -> Result<(), StorageError> {
        if records.is_empty() {
            return Ok(());
        }
        let base_offset = self.append(&records).await?;
        let end = base_offset.plus(records.len() as u64);
        let told = self.view.change(|shard| shard.appended(base_offset, []))?;
        if let Err(error) = told {
            tracing::error!(partition = %self.partition.id(), error = %error, "the offsets log is out of step");
            self.node.disk_failed();
            return Err(StorageError::DiskFailed);
        }
        self.apply(end).await
    }

    async fn append(&mut self, records: &[Record]) -> Result<Offset, StorageError> {
        let now = self.node.clock.now();
        let mut builder = BatchBuilder::new(Compression::None);
        for record in records {
            let encoded = codec::encode(record);
            let view = RecordView {
                key: Some(&encoded.key),
                value: encoded.value.as_deref(),
                headers: &[],
                timestamp: now,
            };
            builder.push_record(&view).map_err(|error| self.unwritable(&error))?;
        }
        let batch = builder.finish().map_err(|error| self.unwritable(&error))?;
        let request = AppendRequest {
            partition: self.partition.id(),
            leader_epoch: self.partition.leader_epoch().unwrap_or_default(),
            hashed_over: None,
            // A generation for each batch: the shard sends the next one only after the answer.
            pipeline: PipelinePosition {
                gateway: self.node.incarnation,
                generation: self.generation,
                index: 0,
            },
            batch,
        };
        self.generation += 1;
        match self.partition.append(request).await {
            Ok(Ok(AppendReply::Committed { base_offset, .. })) => Ok(base_offset),
            Ok(Ok(AppendReply::Judged { .. })) => Err(StorageError::PipelineBroken),
            Ok(Err(failure)) => Err(failure.error),
            Err(_) => Err(StorageError::ShuttingDown),
        }
    }

    fn unwritable(&self, error: &dyn std::error::Error) -> StorageError {
        tracing::error!(partition = %self.partition.id(), error = %error, "offsets records do not fit into a batch");
        StorageError::Overloaded
    }

    /// Applies what is committed below `end` to the shard and to RocksDB.
    async fn apply(&self, end: Offset) -> Result<(), StorageError> {
        let store = Arc::clone(&self.store);
        let view = Arc::clone(&self.view);
        let partition = self.partition.id().partition;
        let meta = PartitionMeta {
            topic_id: self.partition.id().topic_id,
            applied: end,
            leader_epoch: self.partition.leader_epoch().unwrap_or_default(),
            loss_generation: LossGeneration(0),
        };
        let applied = self.node.io.run(move || -> Result<(), StorageError> {
            let records = view.change(|shard| shard.apply_pending(end))?;
            store.apply(partition, &records, meta).map_err(|error| {
                tracing::error!(error = %error, "the offsets store cannot be written");
                StorageError::DiskFailed
            })
        });
        let result = applied.await.unwrap_or(Err(StorageError::ShuttingDown));
        if result == Err(StorageError::DiskFailed) {
            self.node.disk_failed();
        }
        result
    }

    /// Drops commits on topics whose deletion was missed.
    async fn forget_deleted_topics(&mut self) -> Result<(), StorageError> {
        let referenced = self.view.read(GroupShard::referenced_topics)?;
        let image = self.node.controller.image();
        for topic_id in referenced {
            if image.topic(topic_id).is_none() && image.deleted_topic(topic_id).is_some() {
                self.forget_topic(topic_id).await?;
            }
        }
        Ok(())
    }

    async fn forget_topic(&mut self, topic_id: wharf_types::TopicId) -> Result<(), StorageError> {
        loop {
            let step =
                self.view.read(|shard| shard.handle_topic_deleted(topic_id, None, TOMBSTONES_PER_STEP))?;
            if step.records.is_empty() {
                return Ok(());
            }
            self.write(step.records).await?;
        }
    }
}
