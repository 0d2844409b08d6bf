//! The seam between gateways and storage nodes: what a gateway can ask of the leader of a partition or of the
//! coordinator of a group.
//!
//! Neither side imports the other; both know this module. [`StorageApi`] has a local implementation for roles that
//! share a process and is shaped so that a remote one needs nothing more than these messages: every request names
//! the topic by its id and carries the leader epoch that the gateway believes in.
//!
//! Rules that callers may rely on:
//! - [`StorageApi::append`] takes its place in the partition's order before it returns its future; dropping the
//!   future drops the answer, never the append (R18).
//! - A refusal ([`AppendFailure`]) says that nothing of the batch was appended. No answer at all means unknown.

mod append;
mod error;
mod groups;
mod read;

use std::sync::Arc;

use futures::future::BoxFuture;
use wharf_types::{GroupName, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition};

pub(crate) use append::{AppendFailure, AppendReply, AppendRequest, PipelinePosition, is_final};
pub(crate) use error::StorageError;
pub(crate) use groups::{
    CommitError, CommittedPosition, GroupCommit, GroupDescription, GroupPage, OffsetToCommit,
};
pub(crate) use read::{FetchPosition, FetchQuery, FetchReply, ListedOffset, OffsetQuery, PartitionStatus};

/// A storage node, or several, as a gateway sees them.
pub(crate) trait StorageApi: Send + Sync + 'static {
    /// Appends one batch to a partition; see the module's rules.
    fn append(&self, request: AppendRequest) -> BoxFuture<'static, Result<AppendReply, AppendFailure>>;

    /// Waits until the high watermark has passed `last`, which answers a duplicate whose first try may still be
    /// on its way (T37).
    fn wait_committed(
        &self,
        partition: TopicPartition,
        leader_epoch: LeaderEpoch,
        last: Offset,
    ) -> BoxFuture<'static, Result<(), StorageError>>;

    /// Reads batches as they are stored, waiting for more if asked to.
    fn fetch(&self, query: FetchQuery) -> BoxFuture<'static, Result<FetchReply, StorageError>>;

    /// Looks up one offset of a partition.
    fn list_offset(
        &self,
        partition: TopicPartition,
        query: OffsetQuery,
    ) -> BoxFuture<'static, Result<ListedOffset, StorageError>>;

    /// Where a partition's log begins and ends, and what it weighs.
    fn partition_status(
        &self,
        partition: TopicPartition,
    ) -> BoxFuture<'static, Result<PartitionStatus, StorageError>>;

    /// Moves the log start offset up to `before`, which makes the records below unreadable. With `validate_only`
    /// it is only checked. Answers the log start offset that is or would be in force.
    fn delete_records(
        &self,
        partition: TopicPartition,
        before: Offset,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<Offset, StorageError>>;

    /// Records that the damaged range `[from, to)` is given up, so that readers pass it (R17).
    fn skip_damaged(
        &self,
        partition: TopicPartition,
        from: Offset,
        to: Offset,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<(), StorageError>>;

    /// Whether the partition holds a record with a key, which growing its topic would remap.
    fn has_keyed_records(&self, partition: TopicPartition) -> BoxFuture<'static, Result<bool, StorageError>>;

    /// Whether the partition remembers this request of a producer, which a topic's growth may have moved (R10).
    fn remembers(&self, query: SequenceQuery) -> BoxFuture<'static, Result<bool, StorageError>>;

    /// Commits offsets of a group at its coordinator; answered once they are durable and visible (R14).
    fn commit(&self, commit: GroupCommit) -> BoxFuture<'static, Result<(), CommitError>>;

    /// Sets offsets of an existing group from outside; its members, if it has any, are fenced.
    fn reset(
        &self,
        group: GroupName,
        offsets: Vec<OffsetToCommit>,
    ) -> BoxFuture<'static, Result<(), CommitError>>;

    /// What a group has committed for these partitions, or for all that it committed if none are named. An
    /// unknown group answers `None`.
    fn committed(
        &self,
        group: GroupName,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'static, Result<Option<Vec<CommittedPosition>>, StorageError>>;

    /// The groups after `after` in the order of their names, `limit` at most.
    fn list_groups(
        &self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> BoxFuture<'static, Result<GroupPage, StorageError>>;

    /// One group with all its committed positions.
    fn describe_group(
        &self,
        group: GroupName,
    ) -> BoxFuture<'static, Result<Option<GroupDescription>, StorageError>>;

    /// Deletes a group without members, with all it committed.
    fn delete_group(
        &self,
        group: GroupName,
        validate_only: bool,
    ) -> BoxFuture<'static, Result<(), CommitError>>;

    /// Space on the disks and bytes of log, summed over the storage nodes of this process.
    fn disk_status(&self) -> DiskStatus;
}

/// Asks a partition for one request of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceQuery {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// The topic's partition count as the gateway knows it; the leader answers once it knows it too.
    pub(crate) partition_count: u32,
    /// The producer.
    pub(crate) producer_id: ProducerId,
    /// Its epoch.
    pub(crate) epoch: ProducerEpoch,
    /// The request's number.
    pub(crate) sequence: Sequence,
}

/// The storage that a gateway uses.
pub(crate) type SharedStorage = Arc<dyn StorageApi>;

/// Space on a storage node's disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskStatus {
    /// Size of the file system.
    pub(crate) total_bytes: u64,
    /// What can still be written before the file system is full.
    pub(crate) available_bytes: u64,
    /// Bytes of all partitions' segments.
    pub(crate) log_bytes: u64,
}
