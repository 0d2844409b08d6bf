//! Messages to the coordinator of a group.

use wharf_types::{GroupName, LeaderEpoch, Offset, TimestampMs, TopicPartition};

use super::StorageError;

/// One position to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OffsetToCommit {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// The next offset to read.
    pub(crate) offset: Offset,
    /// Leader epoch of the last record read.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client.
    pub(crate) metadata: String,
}

/// Positions of one group to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupCommit {
    /// The group.
    pub(crate) group: GroupName,
    /// The positions; all are committed, or none.
    pub(crate) offsets: Vec<OffsetToCommit>,
    /// The member that commits, where one does: its id, epoch and commit sequence.
    pub(crate) member: Option<(String, u32, Option<u64>)>,
}

/// A committed position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedPosition {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// The next offset to read; none if nothing is committed for the partition.
    pub(crate) offset: Option<Offset>,
    /// Leader epoch that was committed with it.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client.
    pub(crate) metadata: String,
    /// When the commit was accepted.
    pub(crate) commit_time: Option<TimestampMs>,
}

/// One page of group names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupPage {
    /// Names in order.
    pub(crate) groups: Vec<String>,
    /// Whether there are more after the last one.
    pub(crate) more: bool,
}

/// A group and what it committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupDescription {
    /// Rises with each change of the group's membership.
    pub(crate) group_epoch: u32,
    /// What it committed, by partition.
    pub(crate) committed: Vec<CommittedPosition>,
}

/// Why a commit was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommitError {
    /// The coordinator could not be asked, or could not write.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No member of the group has this id.
    #[error("group {group} has no member {member_id:?}")]
    UnknownMember {
        /// The group.
        group: GroupName,
        /// The id given.
        member_id: String,
    },
    /// The group has members, and the call came from outside of them.
    #[error("group {0} has members")]
    GroupNotEmpty(GroupName),
    /// No group has this name.
    #[error("group {0} does not exist")]
    GroupNotFound(GroupName),
}
