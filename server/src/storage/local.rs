//! The storage of this process, for gateways in the same process: direct calls, the same rules.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wharf_log::batch::BatchKind;
use wharf_types::{GroupName, LeaderEpoch, Offset, TopicPartition, limits};

use super::node::StorageNode;
use super::partition::{Partition, ReadPlan};
use crate::storage_api::SequenceQuery;
use crate::storage_api::{
    AppendFailure, AppendReply, AppendRequest, CommitError, CommittedPosition, DiskStatus, FetchPosition,
    FetchQuery, FetchReply, GroupCommit, GroupDescription, GroupPage, ListedOffset, OffsetQuery,
    OffsetToCommit, PartitionStatus, StorageApi, StorageError,
};

/// [`StorageApi`] of a node in this process.
pub(crate) struct LocalStorage {
    node: Arc<StorageNode>,
}

impl LocalStorage {
    pub(crate) fn new(node: Arc<StorageNode>) -> Self {
        LocalStorage { node }
    }

    fn on_partition<T, F>(
        &self,
        id: TopicPartition,
        call: impl FnOnce(Arc<Partition>) -> F,
    ) -> BoxFuture<'static, Result<T, StorageError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StorageError>> + Send + 'static,
    {
        match self.node.partition(id) {
            Ok(partition) => call(partition).boxed(),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }
}

/// What a worker's answer is when the worker is gone.
async fn answered<T>(receiver: oneshot::Receiver<Result<T, StorageError>>) -> Result<T, StorageError> {
    receiver.await.unwrap_or(Err(StorageError::ShuttingDown))
}

impl StorageApi for LocalStorage {
    fn append(&self, request: AppendRequest) -> BoxFuture<'static, Result<AppendReply, AppendFailure>> {
        match self.node.partition(request.partition) {
            Ok(partition) => {
                let receiver = partition.append(request);
                async move {
                    let gone = AppendFailure { error: StorageError::ShuttingDown, batch: None };
                    receiver.await.unwrap_or(Err(gone))
                }
                .boxed()
            }
            Err(error) => {
                std::future::ready(Err(AppendFailure { error, batch: Some(request.batch) })).boxed()
            }
        }
    }

    fn wait_committed(
        &self,
        partition: TopicPartition,
        leader_epoch: LeaderEpoch,
        last: Offset,
    ) -> BoxFuture<'static, Result<(), StorageError>> {
        self.on_partition(partition, |partition| answered(partition.wait_committed(leader_epoch, last)))
    }

    fn fetch(&self, query: FetchQuery) -> BoxFuture<'static, Result<FetchReply, StorageError>> {
        let stopping = self.node.shared.stopping.clone();
        self.on_partition(query.partition, |partition| async move {
            // A long poll must not hold up a stop.
            tokio::select! {
                reply = fetch(&partition, &query) => reply,
                () = stopping.cancelled() => Err(StorageError::ShuttingDown),
            }
        })
    }

    fn list_offset(
        &self,
        partition: TopicPartition,
        query: OffsetQuery,
    ) -> BoxFuture<'static, Result<ListedOffset, StorageError>> {
        self.on_partition(partition, move |partition| async move { list_offset(&partition, query).await })
    }

    fn partition_status(
        &self,
        partition: TopicPartition,
    ) -> BoxFuture<'static, Result<PartitionStatus, StorageError>> {
        self.on_partition(partition, |partition| async move { status(&partition).await })
    }

    fn delete_records(
        &self,
        partition: TopicPartition,
        before: Offset,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<Offset, StorageError>> {
        self.on_partition(partition, |partition| answered(partition.delete_records(before, validate_only)))
    }

    fn skip_damaged(
        &self,
        partition: TopicPartition,
        from: Offset,
        to: Offset,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<(), StorageError>> {
        self.on_partition(partition, |partition| async move {
            let skipped = partition.with_log(move |log| {
                let known =
                    log.damaged_ranges().iter().any(|range| range.from == from && range.next_good == to);
                match known {
                    true if validate_only => Ok(()),
                    true => log.skip_damaged(from, to).map_err(|_| StorageError::DiskFailed),
                    false => Err(StorageError::NotDamaged { from, to }),
                }
            });
            answered(skipped).await?
        })
    }

    fn has_keyed_records(&self, partition: TopicPartition) -> BoxFuture<'static, Result<bool, StorageError>> {
        self.on_partition(partition, |partition| async move { has_keyed_records(&partition).await })
    }

    fn remembers(&self, query: SequenceQuery) -> BoxFuture<'static, Result<bool, StorageError>> {
        self.on_partition(query.partition, move |partition| async move {
            let current = partition.settings().partition_count;
            if current < query.partition_count {
                return Err(StorageError::StalePartitionCount { sent: query.partition_count, current });
            }
            let found = partition.with_log(move |log| {
                log.producer_states().find(query.producer_id, query.epoch, query.sequence).is_some()
            });
            answered(found).await
        })
    }

    fn commit(&self, commit: GroupCommit) -> BoxFuture<'static, Result<(), CommitError>> {
        let node = Arc::clone(&self.node);
        async move {
            // Created at first use.
            let controller = &node.shared.controller;
            if controller.image().topic_by_name(limits::OFFSETS_TOPIC).is_none()
                && let Err(error) = controller.ensure_internal_topic(limits::OFFSETS_TOPIC).await
            {
                tracing::warn!(error = %error, "the topic of group offsets cannot be created");
                return Err(StorageError::CoordinatorLoading.into());
            }
            node.coordinator.commit(commit).await
        }
        .boxed()
    }

    fn reset(
        &self,
        group: GroupName,
        offsets: Vec<OffsetToCommit>,
    ) -> BoxFuture<'static, Result<(), CommitError>> {
        let node = Arc::clone(&self.node);
        async move {
            if no_groups_yet(&node) {
                return Err(CommitError::GroupNotFound(group));
            }
            node.coordinator.reset(group, offsets).await
        }
        .boxed()
    }

    fn committed(
        &self,
        group: GroupName,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'static, Result<Option<Vec<CommittedPosition>>, StorageError>> {
        let found = if no_groups_yet(&self.node) {
            Ok(None)
        } else {
            self.node.coordinator.committed(&group, &partitions)
        };
        std::future::ready(found).boxed()
    }

    fn list_groups(
        &self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> BoxFuture<'static, Result<GroupPage, StorageError>> {
        let found = if no_groups_yet(&self.node) {
            Ok(GroupPage::default())
        } else {
            self.node.coordinator.list(&prefix, after.as_deref(), limit)
        };
        std::future::ready(found).boxed()
    }

    fn describe_group(
        &self,
        group: GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupDescription>, StorageError>> {
        let found = if no_groups_yet(&self.node) { Ok(None) } else { self.node.coordinator.describe(&group) };
        std::future::ready(found).boxed()
    }

    fn delete_group(
        &self,
        group: GroupName,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<(), CommitError>> {
        let node = Arc::clone(&self.node);
        async move {
            if no_groups_yet(&node) {
                return Err(CommitError::GroupNotFound(group));
            }
            node.coordinator.delete(group, validate_only).await
        }
        .boxed()
    }

    fn disk_status(&self) -> DiskStatus {
        let disk = &self.node.shared.disk;
        DiskStatus {
            total_bytes: disk.total_bytes(),
            available_bytes: disk.available_bytes(),
            log_bytes: self.node.partitions().iter().map(|partition| partition.reader().size_bytes()).sum(),
        }
    }
}

/// Whether no group can exist because the topic of their offsets does not.
fn no_groups_yet(node: &StorageNode) -> bool {
    node.shared.controller.image().topic_by_name(limits::OFFSETS_TOPIC).is_none()
}

fn committed_end(partition: &Partition) -> Result<Offset, StorageError> {
    partition.high_watermark().ok_or(StorageError::LeaderNotAvailable(partition.id()))
}

/// What `min_bytes` counts: the records' bytes, not those of the batches that hold them. Stops counting at `enough`.
fn record_bytes(reply: &FetchReply, enough: usize) -> usize {
    let data = reply.batches.iter().filter(|batch| batch.header().kind == BatchKind::Data);
    if enough <= 1 {
        return data.count();
    }
    let mut bytes = 0;
    for batch in data {
        // What cannot be taken apart ends the waiting; the reader is told what is wrong with it.
        let Ok(records) = batch.records() else { return enough };
        for record in records {
            let Ok(record) = record else { return enough };
            if record.offset < reply.start {
                continue;
            }
            let headers: usize = record
                .headers
                .iter()
                .map(|header| header.name.len() + header.value.map_or(0, <[u8]>::len))
                .sum();
            bytes += record.key.map_or(0, |key| key.len())
                + record.value.map_or(0, |value| value.len())
                + headers
                + limits::RECORD_OVERHEAD_BYTES;
            if bytes >= enough {
                return bytes;
            }
        }
    }
    bytes
}

async fn fetch(partition: &Arc<Partition>, query: &FetchQuery) -> Result<FetchReply, StorageError> {
    let mut committed = partition.watch_high_watermark();
    let deadline = Instant::now() + query.max_wait;
    let from = start_of(partition, query.position).await?;
    check_not_truncated(partition, from, query.last_epoch).await?;
    loop {
        committed.mark_unchanged();
        let end = committed_end(partition)?;
        if from < partition.reader().log_start_offset() || from > end {
            return Err(partition.out_of_range(from));
        }
        let plan = ReadPlan { from, end, max_bytes: query.max_bytes };
        let reply = if from == end {
            empty_reply(partition, from, end)
        } else if let Some(cached) = partition.read_cached(plan) {
            cached
        } else {
            answered(partition.read_stored(plan)).await?
        };
        let bytes = record_bytes(&reply, query.min_bytes);
        // More is there than one answer takes, or the reading has passed a range without records.
        let not_the_end = reply.next_offset > from && (reply.batches.is_empty() || reply.next_offset < end);
        if bytes >= query.min_bytes || not_the_end || Instant::now() >= deadline {
            return Ok(reply);
        }
        match tokio::time::timeout_at(deadline, committed.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(StorageError::LeaderNotAvailable(partition.id())),
            Err(_) => return Ok(reply),
        }
    }
}

/// A reader that names the epoch of the last record it has read is told when that record is gone (KIP-320).
async fn check_not_truncated(
    partition: &Arc<Partition>,
    from: Offset,
    last_epoch: Option<LeaderEpoch>,
) -> Result<(), StorageError> {
    let Some(last_epoch) = last_epoch else { return Ok(()) };
    if partition.leader_epoch() == Some(last_epoch) {
        // Records of the epoch in which this replica leads are never cut.
        return Ok(());
    }
    let end = answered(partition.with_log(move |log| log.epoch_end(last_epoch))).await?;
    match end {
        Some(known) if known.end < from => Err(StorageError::Truncated { from: known.end, to: from }),
        _ => Ok(()),
    }
}

fn empty_reply(partition: &Partition, from: Offset, end: Offset) -> FetchReply {
    FetchReply {
        start: from,
        batches: Vec::new(),
        next_offset: from,
        log_start: partition.reader().log_start_offset(),
        high_watermark: Some(end),
    }
}

async fn start_of(partition: &Arc<Partition>, position: FetchPosition) -> Result<Offset, StorageError> {
    match position {
        FetchPosition::Offset(offset) => Ok(offset),
        FetchPosition::Earliest => Ok(partition.reader().log_start_offset()),
        FetchPosition::Latest => committed_end(partition),
        FetchPosition::AppendTime(time) => {
            let found = list_offset(partition, OffsetQuery::AppendTime(time)).await?;
            found.offset.map_or_else(|| committed_end(partition), Ok)
        }
    }
}

async fn list_offset(partition: &Arc<Partition>, query: OffsetQuery) -> Result<ListedOffset, StorageError> {
    let end = committed_end(partition)?;
    match query {
        OffsetQuery::Earliest => {
            Ok(ListedOffset { offset: Some(partition.reader().log_start_offset()), append_time: None })
        }
        OffsetQuery::Latest => Ok(ListedOffset { offset: Some(end), append_time: None }),
        OffsetQuery::AppendTime(time) => {
            let found = answered(partition.offset_for_time(time)).await?;
            let committed = found.filter(|(offset, _)| *offset < end);
            Ok(ListedOffset {
                offset: committed.map(|(offset, _)| offset),
                append_time: committed.map(|(_, append_time)| append_time),
            })
        }
    }
}

async fn status(partition: &Arc<Partition>) -> Result<PartitionStatus, StorageError> {
    let damaged = answered(partition.with_log(|log| log.damaged_ranges())).await?;
    Ok(PartitionStatus {
        log_start: partition.reader().log_start_offset(),
        high_watermark: partition.high_watermark(),
        size_bytes: partition.reader().size_bytes(),
        damaged: damaged
            .iter()
            .filter(|range| !range.skipped)
            .map(|range| (range.from, range.next_good))
            .collect(),
    })
}

/// Looks through the headers of the batches; ends at the first keyed one.
async fn has_keyed_records(partition: &Arc<Partition>) -> Result<bool, StorageError> {
    let end = committed_end(partition)?;
    let mut from = partition.reader().log_start_offset();
    while from < end {
        let plan = ReadPlan { from, end, max_bytes: 1 << 20 };
        match answered(partition.read_stored(plan)).await {
            Ok(reply) if reply.batches.iter().any(|batch| batch.header().keyed) => return Ok(true),
            Ok(reply) if reply.next_offset > from => from = reply.next_offset,
            Ok(_) => return Ok(false),
            Err(StorageError::DataCorrupted { next_good, .. }) if next_good > from => from = next_good,
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
