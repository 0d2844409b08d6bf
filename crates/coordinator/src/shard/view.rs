//! What answers show: the applied state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use wharf_types::{GroupName, TopicId, TopicPartition};

use crate::record::{Committed, GroupValue};

use super::{GroupShard, Stored};

/// The applied state of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Absent only while a replay has not met the group's own record yet.
    pub(super) metadata: Option<Stored<GroupValue>>,
    pub(super) offsets: BTreeMap<TopicPartition, Stored<Committed>>,
}

/// One line of a list of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// The group.
    pub name: GroupName,
    /// Its own state.
    pub metadata: Option<GroupValue>,
    /// How many partitions it has a position of.
    pub positions: usize,
}

impl Group {
    /// The group's own state; absent only while a replay has not met its record yet.
    #[must_use]
    pub fn metadata(&self) -> Option<GroupValue> {
        self.metadata.as_ref().map(|stored| stored.value)
    }

    /// What the group has committed of a partition; `None` if nothing.
    #[must_use]
    pub fn committed(&self, topic_partition: &TopicPartition) -> Option<&Committed> {
        self.offsets.get(topic_partition).map(|stored| &stored.value)
    }

    /// Every committed position, by topic id and partition.
    pub fn positions(&self) -> impl Iterator<Item = (TopicPartition, &Committed)> {
        self.offsets.iter().map(|(topic_partition, stored)| (*topic_partition, &stored.value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.metadata.is_none() && self.offsets.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        let own = self.metadata.as_ref().map_or(0, |stored| stored.bytes);
        own + self.offsets.values().map(|stored| stored.bytes).sum::<u64>()
    }
}

impl GroupShard {
    /// The group of this name, if it exists. "No such group" and "nothing committed" are answers only of a coordinator that
    /// has caught up (R14, T55).
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// At most `limit` groups in the order of their names, from the first after `after`, or from the first of all.
    #[must_use]
    pub fn list_groups(&self, after: Option<&str>, limit: usize) -> Vec<GroupSummary> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range::<str, _>((start, Bound::Unbounded)).take(limit);
        let summary = |(name, group): (&GroupName, &Group)| GroupSummary {
            name: name.clone(),
            metadata: group.metadata(),
            positions: group.offsets.len(),
        };
        groups.map(summary).collect()
    }

    /// Every topic that a position is committed of. A coordinator that takes office compares them with a cluster image at
    /// least as new as the log, for topics that were deleted meanwhile.
    #[must_use]
    pub fn referenced_topics(&self) -> BTreeSet<TopicId> {
        let positions = self.groups.values().flat_map(|group| group.offsets.keys());
        positions.map(|topic_partition| topic_partition.topic_id).collect()
    }
}

/// Two shards are equal if their applied states are: what answers and stores can tell.
impl PartialEq for GroupShard {
    fn eq(&self, other: &Self) -> bool {
        self.applied == other.applied && self.groups == other.groups
    }
}
