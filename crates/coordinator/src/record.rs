//! What stands in the `__offsets` log, as values (R14). Bytes are the matter of [`crate::codec`].

use std::sync::Arc;

use wharf_types::{GroupName, LeaderEpoch, Offset, TimestampMs, TopicPartition};

use crate::ids::{CommitSequence, GroupEpoch, MemberEpoch};

/// Bytes that a record takes in the log beside its names and metadata: keys, lengths, numbers and its share of a
/// batch header, as a round upper estimate.
const RECORD_OVERHEAD_BYTES: u64 = 112;

/// Names one committed position: a group's, of one partition of a topic. The topic's identity, not its name, so that a
/// topic created again under the name starts without any (T56).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitKey {
    /// The group.
    pub group: GroupName,
    /// The partition that was read.
    pub topic_partition: TopicPartition,
}

/// A read position as it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The next record to read.
    pub offset: Offset,
    /// Leader epoch of the last record done, if the client told it.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The client's text, at most [`wharf_types::limits::COMMIT_METADATA_BYTES_MAX`] bytes. `None` is not `""`.
    pub metadata: Option<Arc<str>>,
    /// When it was accepted, by the coordinator's clock.
    pub commit_time: TimestampMs,
    /// Epoch of the member that committed; `None` for a commit without a member.
    pub member_epoch: Option<MemberEpoch>,
    /// Number of the commit within that epoch; `None` for a commit without a member.
    pub commit_sequence: Option<CommitSequence>,
}

/// Value of a commit record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitValue {
    /// The position.
    pub position: Position,
    /// Offset in `__offsets` of the record that first wrote the position; `None` in that record itself. A re-append (R15)
    /// sets it and changes nothing else.
    pub origin: Option<Offset>,
}

/// A committed position with the place of its first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The position.
    pub position: Position,
    /// Offset in `__offsets` of the record that first wrote it, which a re-append does not change (R14).
    pub origin: Offset,
}

/// Value of a group record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupValue {
    /// Rises with every change of the members or their partitions; 0 until the first member.
    pub group_epoch: GroupEpoch,
    /// When the group came to be.
    pub created_time: TimestampMs,
}

/// One record of `__offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A position, which replaces the earlier one of its key.
    Commit {
        /// Whose position.
        key: CommitKey,
        /// The position.
        value: CommitValue,
    },
    /// Deletes one position.
    CommitTombstone(CommitKey),
    /// A group, which replaces what was known of it.
    Group {
        /// Its name.
        group: GroupName,
        /// Its state.
        value: GroupValue,
    },
    /// Deletes a group and all its positions.
    GroupTombstone(GroupName),
}

impl Record {
    /// The group that the record is about.
    #[must_use]
    pub fn group(&self) -> &GroupName {
        match self {
            Record::Commit { key, .. } | Record::CommitTombstone(key) => &key.group,
            Record::Group { group, .. } | Record::GroupTombstone(group) => group,
        }
    }

    /// About how many bytes the record takes in the log; never less than its key and value. Live bytes (R15) are counted
    /// in it.
    #[must_use]
    pub fn log_bytes_estimate(&self) -> u64 {
        let metadata = match self {
            Record::Commit { value, .. } => value.position.metadata.as_deref().map_or(0, str::len),
            _ => 0,
        };
        RECORD_OVERHEAD_BYTES + (self.group().as_str().len() + metadata) as u64
    }
}

impl CommitValue {
    /// What is known of the position once this value was read at `record_offset`.
    #[must_use]
    pub fn into_committed(self, record_offset: Offset) -> Committed {
        Committed { position: self.position, origin: self.origin.unwrap_or(record_offset) }
    }
}

impl Committed {
    /// The value that a re-append writes (R15): the same position, with its origin.
    #[must_use]
    pub fn to_value(&self) -> CommitValue {
        CommitValue { position: self.position.clone(), origin: Some(self.origin) }
    }
}
