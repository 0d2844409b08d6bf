//! The coordinator of consumer groups: what groups committed, on the leader of their `__offsets` partition (R14, R15).
//!
//! Each led partition of `__offsets` has one task that owns its shard's order: it turns requests into records,
//! appends them in one batch for all that wait, and answers once they are below the high watermark and in RocksDB.
//! The shard itself is a pure state machine of `wharf-coordinator`; its rows in RocksDB are a cache of the log.

mod load;
mod requests;
mod shard;
mod truncate;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};
use wharf_coordinator::Group;
use wharf_types::{GroupName, PartitionIndex, TopicId, TopicPartition, limits, murmur2};

use self::requests::{Change, Request};
use self::shard::{ShardView, run_shard};
use super::node::NodeShared;
use super::offsets_store::OffsetsStore;
use super::partition::Partition;
use crate::storage_api::{
    CommitError, CommittedPosition, GroupCommit, GroupDescription, GroupPage, OffsetToCommit, StorageError,
};

/// Requests that wait at one shard; more are refused as overload.
const REQUESTS_WAITING_MAX: usize = 4_096;

/// One shard as the coordinator holds it.
struct ShardHandle {
    requests: mpsc::Sender<Request>,
    view: Arc<ShardView>,
}

/// The coordinator of the groups whose `__offsets` partitions this node leads.
pub(crate) struct Coordinator {
    node: Arc<NodeShared>,
    store: Arc<OffsetsStore>,
    shards: RwLock<HashMap<PartitionIndex, ShardHandle>>,
}

/// The `__offsets` partition of a group.
pub(crate) fn shard_of(group: &GroupName) -> PartitionIndex {
    PartitionIndex::new(
        (murmur2(group.as_str().as_bytes()) & 0x7fff_ffff) % limits::INTERNAL_TOPIC_PARTITIONS,
    )
}

impl Coordinator {
    pub(crate) fn new(node: Arc<NodeShared>, store: Arc<OffsetsStore>) -> Self {
        Coordinator { node, store, shards: RwLock::default() }
    }

    pub(crate) fn store(&self) -> &Arc<OffsetsStore> {
        &self.store
    }

    /// Begins to coordinate the groups of a partition of `__offsets` that this node leads.
    pub(crate) fn lead(&self, partition: Arc<Partition>) {
        let index = partition.id().partition;
        let mut shards = self.shards.write();
        // A change of the image that is still being followed during a stop must not begin what nobody would end.
        if self.node.stopping.is_cancelled() || shards.contains_key(&index) {
            return;
        }
        let (requests, waiting) = mpsc::channel(REQUESTS_WAITING_MAX);
        let view = Arc::new(ShardView::default());
        let task =
            run_shard(Arc::clone(&self.node), Arc::clone(&self.store), partition, Arc::clone(&view), waiting);
        self.node.tasks.spawn_on(task, &self.node.runtime);
        shards.insert(index, ShardHandle { requests, view });
    }

    /// Stops: tasks end once their requests are answered.
    pub(crate) fn stop(&self) {
        self.shards.write().clear();
    }

    /// A topic is gone: so is what groups committed on it.
    pub(crate) fn topic_deleted(&self, topic_id: TopicId) {
        for shard in self.shards.read().values() {
            let (answer, _) = oneshot::channel();
            // A shard that has no room is told again at its next load, which looks for topics that are gone.
            if shard.requests.try_send(Request { change: Change::TopicDeleted(topic_id), answer }).is_err() {
                tracing::warn!(topic_id = %topic_id, "commits of a deleted topic stay until the next start");
            }
        }
    }

    pub(crate) async fn commit(&self, commit: GroupCommit) -> Result<(), CommitError> {
        self.change(&commit.group.clone(), Change::Commit(commit)).await
    }

    pub(crate) async fn reset(
        &self,
        group: GroupName,
        offsets: Vec<OffsetToCommit>,
    ) -> Result<(), CommitError> {
        self.change(&group.clone(), Change::Reset { group, offsets }).await
    }

    pub(crate) async fn delete(&self, group: GroupName, validate_only: bool) -> Result<(), CommitError> {
        if validate_only {
            let exists = self.view(&group)?.read(|shard| shard.group(group.as_str()).is_some())?;
            return if exists { Ok(()) } else { Err(CommitError::GroupNotFound(group)) };
        }
        self.change(&group.clone(), Change::Delete(group)).await
    }

    async fn change(&self, group: &GroupName, change: Change) -> Result<(), CommitError> {
        let requests = match self.shards.read().get(&shard_of(group)) {
            Some(shard) => shard.requests.clone(),
            None => return Err(StorageError::CoordinatorLoading.into()),
        };
        let (answer, answered) = oneshot::channel();
        requests.try_send(Request { change, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StorageError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => StorageError::ShuttingDown,
        })?;
        answered.await.unwrap_or(Err(StorageError::ShuttingDown.into()))
    }

    fn view(&self, group: &GroupName) -> Result<Arc<ShardView>, StorageError> {
        let shards = self.shards.read();
        shards
            .get(&shard_of(group))
            .map(|shard| Arc::clone(&shard.view))
            .ok_or(StorageError::CoordinatorLoading)
    }

    pub(crate) fn committed(
        &self,
        group: &GroupName,
        partitions: &[TopicPartition],
    ) -> Result<Option<Vec<CommittedPosition>>, StorageError> {
        self.view(group)?.read(|shard| {
            let group = shard.group(group.as_str())?;
            if partitions.is_empty() {
                return Some(positions(group));
            }
            let position = |partition: &TopicPartition| match group.committed(partition) {
                Some(committed) => position(*partition, committed),
                None => CommittedPosition {
                    partition: *partition,
                    offset: None,
                    leader_epoch: None,
                    metadata: String::new(),
                    commit_time: None,
                },
            };
            Some(partitions.iter().map(position).collect())
        })
    }

    pub(crate) fn describe(&self, group: &GroupName) -> Result<Option<GroupDescription>, StorageError> {
        self.view(group)?.read(|shard| {
            let group = shard.group(group.as_str())?;
            let group_epoch = group.metadata().map_or(0, |metadata| metadata.group_epoch.value());
            Some(GroupDescription { group_epoch, committed: positions(group) })
        })
    }

    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<GroupPage, StorageError> {
        let views: Vec<Arc<ShardView>> =
            self.shards.read().values().map(|shard| Arc::clone(&shard.view)).collect();
        if views.len() < limits::INTERNAL_TOPIC_PARTITIONS as usize {
            return Err(StorageError::CoordinatorLoading);
        }
        let mut names = Vec::new();
        for view in views {
            // Names with the prefix stand together, so each shard needs to give one page at most.
            names.extend(view.read(|shard| names_of(shard, prefix, after, limit))?);
        }
        names.sort_unstable();
        let more = names.len() > limit;
        names.truncate(limit);
        Ok(GroupPage { groups: names, more })
    }
}

/// Names of one shard with the prefix, after `after`: one more than `limit` at most.
fn names_of(
    shard: &wharf_coordinator::GroupShard,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    const CHUNK: usize = 1_000;
    let mut names = Vec::new();
    let mut last = after.map(str::to_owned);
    loop {
        let chunk = shard.list_groups(last.as_deref(), CHUNK);
        let whole = chunk.len() == CHUNK;
        last = chunk.last().map(|summary| summary.name.to_string());
        let matching = chunk.into_iter().map(|summary| summary.name.to_string());
        names.extend(matching.filter(|name| name.starts_with(prefix)));
        if !whole || names.len() > limit {
            names.truncate(limit + 1);
            return names;
        }
    }
}

fn positions(group: &Group) -> Vec<CommittedPosition> {
    group.positions().map(|(partition, committed)| position(partition, committed)).collect()
}

fn position(partition: TopicPartition, committed: &wharf_coordinator::Committed) -> CommittedPosition {
    let at = &committed.position;
    CommittedPosition {
        partition,
        offset: Some(at.offset),
        leader_epoch: at.leader_epoch,
        metadata: at.metadata.as_deref().unwrap_or_default().to_owned(),
        commit_time: Some(at.commit_time),
    }
}
