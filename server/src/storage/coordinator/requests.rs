//! What a shard can be asked to change, and the records that follow from it.

use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_coordinator::{
    CommitMember, CommitRequest, CommitSequence, DeleteGroupError, GroupShard, MemberEpoch, OffsetCommit,
    OffsetReset, Record, ResetError,
};
use wharf_types::{GroupName, TimestampMs, TopicId};

use crate::storage_api::{CommitError, GroupCommit, OffsetToCommit, StorageError};

/// Tombstones written for a deleted topic in one batch.
pub(super) const TOMBSTONES_PER_STEP: usize = 1_000;

/// A change that somebody waits for.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<(), CommitError>>,
}

/// A change of a shard.
pub(super) enum Change {
    Commit(GroupCommit),
    Reset { group: GroupName, offsets: Vec<OffsetToCommit> },
    Delete(GroupName),
    TopicDeleted(TopicId),
}

/// The records that make the change.
pub(super) fn records_for(
    shard: &GroupShard,
    change: &Change,
    now: TimestampMs,
) -> Result<Vec<Record>, CommitError> {
    match change {
        Change::Commit(commit) => {
            shard.handle_commit(&commit_request(commit), now).map_err(|error| commit_error(commit, error))
        }
        Change::Reset { group, offsets } => {
            let resets: Vec<OffsetReset> = offsets
                .iter()
                .map(|offset| OffsetReset {
                    topic_partition: offset.partition,
                    offset: offset.offset,
                    leader_epoch: offset.leader_epoch,
                })
                .collect();
            shard.handle_reset(group, &resets, now).map_err(|error| match error {
                ResetError::GroupNotFound { group } => CommitError::GroupNotFound(group),
                ResetError::TooManyOffsets { .. } => CommitError::Storage(StorageError::Overloaded),
            })
        }
        Change::Delete(group) => shard.handle_delete_group(group).map_err(|error| match error {
            DeleteGroupError::GroupNotFound { group } => CommitError::GroupNotFound(group),
            DeleteGroupError::GroupNotEmpty { group, .. } => CommitError::GroupNotEmpty(group),
        }),
        Change::TopicDeleted(topic_id) => {
            Ok(shard.handle_topic_deleted(*topic_id, None, TOMBSTONES_PER_STEP).records)
        }
    }
}

fn commit_request(commit: &GroupCommit) -> CommitRequest {
    let offset = |offset: &OffsetToCommit| OffsetCommit {
        topic_partition: offset.partition,
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: (!offset.metadata.is_empty()).then(|| Arc::from(offset.metadata.as_str())),
    };
    let member = |(id, epoch, sequence): &(String, u32, Option<u64>)| CommitMember {
        member_id: Arc::from(id.as_str()),
        member_epoch: MemberEpoch::new(*epoch),
        commit_sequence: sequence.map(CommitSequence::new),
    };
    CommitRequest {
        group: commit.group.clone(),
        offsets: commit.offsets.iter().map(offset).collect(),
        member: commit.member.as_ref().map(member),
    }
}

fn commit_error(commit: &GroupCommit, error: wharf_coordinator::CommitError) -> CommitError {
    use wharf_coordinator::CommitError as Refused;
    match error {
        Refused::UnknownMember { group, member_id } => {
            CommitError::UnknownMember { group, member_id: member_id.to_string() }
        }
        Refused::GroupNotEmpty { group, .. } => CommitError::GroupNotEmpty(group),
        // The gateway has checked the limits; a request that passed it and fails here is not ours.
        Refused::NoOffsets { .. } | Refused::TooManyOffsets { .. } | Refused::MetadataTooLarge { .. } => {
            tracing::warn!(group = %commit.group, error = %error, "a commit beyond the limits reached its coordinator");
            CommitError::Storage(StorageError::Overloaded)
        }
    }
}
