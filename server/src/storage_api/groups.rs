//! Messages to the coordinator of a group.

use wharf_types::{GroupName, LeaderEpoch, Offset, TimestampMs, TopicPartition};

use super::StorageError;

/// One position to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToCommit {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: Offset,
    /// Leader epoch of the last record read.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client.
    pub metadata: String,
}

/// Positions of one group to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCommit {
    /// The group.
    pub group: GroupName,
    /// The positions; all are committed, or none.
    pub offsets: Vec<OffsetToCommit>,
    /// The member that commits, where one does: its id, epoch and commit sequence.
    pub member: Option<(String, u32, Option<u64>)>,
}

/// A committed position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedPosition {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read; none if nothing is committed for the partition.
    pub offset: Option<Offset>,
    /// Leader epoch that was committed with it.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client.
    pub metadata: String,
    /// When the commit was accepted.
    pub commit_time: Option<TimestampMs>,
}

/// One page of group names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPage {
    /// Names in order.
    pub groups: Vec<String>,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// A group and what it committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Rises with each change of the group's membership.
    pub group_epoch: u32,
    /// What it committed, by partition.
    pub committed: Vec<CommittedPosition>,
}

/// Why a commit was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
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
    /// The member was replaced, or its epoch is over.
    #[error("the epoch of member {member_id:?} of group {group} is over")]
    MemberFenced {
        /// The group.
        group: GroupName,
        /// The id given.
        member_id: String,
    },
    /// The commit sequence is not above the last accepted one.
    #[error("a later commit of member {member_id:?} of group {group} was accepted already")]
    StaleCommit {
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
