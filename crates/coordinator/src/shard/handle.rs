//! Requests: (latest state, request, now) → records. Nothing here changes the shard.
//!
//! The caller appends the records in one batch and tells the shard where they stand ([`GroupShard::appended`]) before it
//! handles the next request of the partition: that is the group lock of R14. Where several requests share a batch, it drafts
//! the records of each before it handles the next ([`GroupShard::draft`]). It answers clients when their records are applied.

use std::sync::Arc;

use wharf_types::limits::{COMMIT_METADATA_BYTES_MAX, OFFSETS_PER_COMMIT_MAX};
use wharf_types::{GroupName, LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};

use crate::ids::{CommitSequence, GroupEpoch, MemberEpoch};
use crate::record::{CommitKey, CommitValue, GroupValue, Position, Record};

use super::GroupShard;

/// Read positions that a group commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The group.
    pub group: GroupName,
    /// The positions; of several for one partition the last wins.
    pub offsets: Vec<OffsetCommit>,
    /// Who commits; `None` is accepted only while the group has no members.
    pub member: Option<CommitMember>,
}

/// One position of a [`CommitRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    /// The partition that was read.
    pub topic_partition: TopicPartition,
    /// The next record to read.
    pub offset: Offset,
    /// Leader epoch of the last record done.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The client's text, at most 4 KiB.
    pub metadata: Option<Arc<str>>,
}

/// The member that commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMember {
    /// Its id in the group.
    pub member_id: Arc<str>,
    /// The epoch that it was given.
    pub member_epoch: MemberEpoch,
    /// Its number for the commit; without one it gets the next from the coordinator.
    pub commit_sequence: Option<CommitSequence>,
}

/// One position that an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetReset {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The next record to read.
    pub offset: Offset,
    /// Leader epoch of the record before it, if known.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Why a commit is refused. Nothing of the request was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The request names no position. Wire: INVALID_REQUEST.
    #[error("the commit of group {group} has no offsets; give at least one")]
    NoOffsets {
        /// The group.
        group: GroupName,
    },
    /// Too many positions at once. Wire: INVALID_REQUEST.
    #[error("the commit of group {group} has {actual} offsets; at most {OFFSETS_PER_COMMIT_MAX} are allowed")]
    TooManyOffsets {
        /// The group.
        group: GroupName,
        /// How many.
        actual: usize,
    },
    /// The metadata of a position is too long. Wire: INVALID_REQUEST.
    #[error(
        "the metadata for {topic_partition} has {actual} bytes; at most {COMMIT_METADATA_BYTES_MAX} are allowed"
    )]
    MetadataTooLarge {
        /// The position's partition.
        topic_partition: TopicPartition,
        /// Its length in bytes.
        actual: usize,
    },
    /// The member is not in the group. Wire: UNKNOWN_MEMBER.
    #[error("group {group} has no member {member_id}; join it first, or commit without a member")]
    UnknownMember {
        /// The group.
        group: GroupName,
        /// The member that the request names.
        member_id: Arc<str>,
    },
    /// A commit without a member while the group has members. Wire: GROUP_NOT_EMPTY.
    #[error("group {group} has {members} members; only they may commit, each with its member_epoch")]
    GroupNotEmpty {
        /// The group.
        group: GroupName,
        /// How many members it has.
        members: usize,
    },
}

/// Why a group is not deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteGroupError {
    /// There is no such group. Wire: GROUP_NOT_FOUND.
    #[error("group {group} does not exist")]
    GroupNotFound {
        /// The group.
        group: GroupName,
    },
    /// The group has members. Wire: GROUP_NOT_EMPTY.
    #[error("group {group} has {members} members; stop them first")]
    GroupNotEmpty {
        /// The group.
        group: GroupName,
        /// How many members it has.
        members: usize,
    },
}

/// Why positions are not reset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResetError {
    /// There is no such group. Wire: GROUP_NOT_FOUND.
    #[error("group {group} does not exist")]
    GroupNotFound {
        /// The group.
        group: GroupName,
    },
    /// Too many positions at once. Wire: INVALID_REQUEST.
    #[error("the reset of group {group} has {actual} offsets; at most {OFFSETS_PER_COMMIT_MAX} are allowed")]
    TooManyOffsets {
        /// The group.
        group: GroupName,
        /// How many.
        actual: usize,
    },
}

/// One step of forgetting a deleted topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDeletion {
    /// Tombstones to append.
    pub records: Vec<Record>,
    /// Where the next step starts; `None` when this was the last.
    pub next: Option<GroupName>,
}

impl GroupShard {
    /// Accepts or refuses a commit. The records are the positions and, for a group that comes to be by it, first the group's
    /// own. A commit without a member is accepted while the group has no members, and the last accepted wins (R14).
    ///
    /// # Errors
    /// [`CommitError`]; nothing is to be written.
    pub fn handle_commit(
        &self,
        request: &CommitRequest,
        now: TimestampMs,
    ) -> Result<Vec<Record>, CommitError> {
        check_limits(request)?;
        self.fence_commit(request)?;
        let mut records = Vec::with_capacity(request.offsets.len() + 1);
        if self.latest_group(&request.group).is_none() {
            let value = GroupValue { group_epoch: GroupEpoch::default(), created_time: now };
            records.push(Record::Group { group: request.group.clone(), value });
        }
        records.extend(request.offsets.iter().map(|commit| {
            let position = Position {
                offset: commit.offset,
                leader_epoch: commit.leader_epoch,
                metadata: commit.metadata.clone(),
                commit_time: now,
                member_epoch: None,
                commit_sequence: None,
            };
            commit_record(&request.group, commit.topic_partition, position)
        }));
        Ok(records)
    }

    /// Deletes a group with all its positions: one tombstone.
    ///
    /// # Errors
    /// [`DeleteGroupError`]; nothing is to be written.
    pub fn handle_delete_group(&self, group: &GroupName) -> Result<Vec<Record>, DeleteGroupError> {
        if !self.latest_exists(group) {
            return Err(DeleteGroupError::GroupNotFound { group: group.clone() });
        }
        let members = self.member_count(group);
        if members > 0 {
            return Err(DeleteGroupError::GroupNotEmpty { group: group.clone(), members });
        }
        Ok(vec![Record::GroupTombstone(group.clone())])
    }

    /// Sets positions by an operator's order. The caller has resolved them against the partitions' ends.
    ///
    /// # Errors
    /// [`ResetError`]; nothing is to be written.
    pub fn handle_reset(
        &self,
        group: &GroupName,
        resets: &[OffsetReset],
        now: TimestampMs,
    ) -> Result<Vec<Record>, ResetError> {
        if resets.len() > OFFSETS_PER_COMMIT_MAX {
            return Err(ResetError::TooManyOffsets { group: group.clone(), actual: resets.len() });
        }
        if !self.latest_exists(group) {
            return Err(ResetError::GroupNotFound { group: group.clone() });
        }
        let record = |reset: &OffsetReset| {
            let position = Position {
                offset: reset.offset,
                leader_epoch: reset.leader_epoch,
                metadata: None,
                commit_time: now,
                member_epoch: None,
                commit_sequence: None,
            };
            commit_record(group, reset.topic_partition, position)
        };
        Ok(resets.iter().map(record).collect())
    }

    /// Deletes the positions of a topic that was deleted, of whole groups from `from` (or the first) on, until at least
    /// `limit` tombstones are gathered. Call again with `next` after these were appended. The groups stay.
    #[must_use]
    pub fn handle_topic_deleted(
        &self,
        topic_id: TopicId,
        from: Option<&GroupName>,
        limit: usize,
    ) -> TopicDeletion {
        let mut records = Vec::new();
        for group in self.latest_groups(from) {
            if records.len() >= limit {
                return TopicDeletion { records, next: Some(group.clone()) };
            }
            let positions = self.latest_keys(group).into_iter().filter_map(|key| key.topic_partition);
            let of_topic = positions.filter(|topic_partition| topic_partition.topic_id == topic_id);
            records.extend(of_topic.map(|topic_partition| {
                Record::CommitTombstone(CommitKey { group: group.clone(), topic_partition })
            }));
        }
        TopicDeletion { records, next: None }
    }

    fn fence_commit(&self, request: &CommitRequest) -> Result<(), CommitError> {
        let group = request.group.clone();
        match &request.member {
            Some(member) => {
                Err(CommitError::UnknownMember { group, member_id: Arc::clone(&member.member_id) })
            }
            None => match self.member_count(&group) {
                0 => Ok(()),
                members => Err(CommitError::GroupNotEmpty { group, members }),
            },
        }
    }

    /// How many members the group has in the latest state. No record makes a member yet.
    #[allow(clippy::unused_self)]
    fn member_count(&self, _group: &GroupName) -> usize {
        0
    }
}

fn check_limits(request: &CommitRequest) -> Result<(), CommitError> {
    if request.offsets.is_empty() {
        return Err(CommitError::NoOffsets { group: request.group.clone() });
    }
    if request.offsets.len() > OFFSETS_PER_COMMIT_MAX {
        let actual = request.offsets.len();
        return Err(CommitError::TooManyOffsets { group: request.group.clone(), actual });
    }
    for commit in &request.offsets {
        let actual = commit.metadata.as_deref().map_or(0, str::len);
        if actual > COMMIT_METADATA_BYTES_MAX {
            return Err(CommitError::MetadataTooLarge { topic_partition: commit.topic_partition, actual });
        }
    }
    Ok(())
}

fn commit_record(group: &GroupName, topic_partition: TopicPartition, position: Position) -> Record {
    let key = CommitKey { group: group.clone(), topic_partition };
    Record::Commit { key, value: CommitValue { position, origin: None } }
}
