//! Records, names and a log for the tests.
#![allow(dead_code, clippy::unwrap_used)]

use proptest::prelude::*;
use wharf_coordinator::{
    CommitKey, CommitRequest, CommitSequence, CommitValue, GroupEpoch, GroupShard, GroupValue, MemberEpoch,
    OffsetCommit, Position, Record,
};
use wharf_types::{GroupName, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

pub(crate) fn group(number: u32) -> GroupName {
    GroupName::new(&format!("group-{number}")).unwrap()
}

pub(crate) fn topic(number: u8) -> TopicId {
    TopicId::from_bytes([number; 16])
}

pub(crate) fn topic_partition(topic_number: u8, partition: u32) -> TopicPartition {
    TopicPartition { topic_id: topic(topic_number), partition: PartitionIndex::new(partition) }
}

pub(crate) fn commit(group_number: u32, topic_partition: TopicPartition, offset: u64) -> CommitRequest {
    let offset =
        OffsetCommit { topic_partition, offset: Offset::new(offset), leader_epoch: None, metadata: None };
    CommitRequest { group: group(group_number), offsets: vec![offset], member: None }
}

/// Any record that the codec can be given.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    let key = ("[A-Za-z0-9._-]{1,249}", any::<[u8; 16]>(), any::<u32>()).prop_map(|(name, id, partition)| {
        let topic_partition =
            TopicPartition { topic_id: TopicId::from_bytes(id), partition: PartitionIndex::new(partition) };
        CommitKey { group: GroupName::new(&name).unwrap(), topic_partition }
    });
    let position = (
        any::<u64>(),
        any::<Option<u32>>(),
        proptest::option::of(".{0,200}"),
        any::<u64>(),
        any::<Option<u32>>(),
        any::<Option<u64>>(),
    )
        .prop_map(|(offset, leader_epoch, metadata, time, member_epoch, sequence)| Position {
            offset: Offset::new(offset),
            leader_epoch: leader_epoch.map(LeaderEpoch::new),
            metadata: metadata.map(Into::into),
            commit_time: TimestampMs::new(time),
            member_epoch: member_epoch.map(MemberEpoch::new),
            commit_sequence: sequence.map(CommitSequence::new),
        });
    let origin = any::<Option<u64>>().prop_map(|origin| origin.map(Offset::new));
    let group = (any::<u32>(), any::<u64>()).prop_map(|(epoch, time)| GroupValue {
        group_epoch: GroupEpoch::new(epoch),
        created_time: TimestampMs::new(time),
    });
    (key, position, origin, group, 0..4).prop_map(|(key, position, origin, group, kind)| match kind {
        0 => Record::Commit { key, value: CommitValue { position, origin } },
        1 => Record::CommitTombstone(key),
        2 => Record::Group { group: key.group, value: group },
        _ => Record::GroupTombstone(key.group),
    })
}

/// A log that only keeps what it is given, from a start offset on.
#[derive(Debug, Default)]
pub(crate) struct TestLog {
    pub(crate) start: Offset,
    pub(crate) records: Vec<(Offset, Record)>,
    pub(crate) end: Offset,
}

impl TestLog {
    /// Appends and tells the shard, as a leader does: half of the records by a draft.
    pub(crate) fn append(&mut self, shard: &mut GroupShard, records: Vec<Record>) {
        let (drafted, others) = records.split_at(records.len() / 2);
        shard.draft(drafted.to_vec());
        shard.appended(self.end, others.to_vec()).unwrap();
        for record in records {
            self.records.push((self.end, record));
            self.end = self.end.next();
        }
    }

    pub(crate) fn truncate_prefix(&mut self, start: Offset) {
        self.start = start;
        self.records.retain(|(offset, _)| *offset >= start);
    }

    /// The shard that a replica without a store builds, up to `end`.
    pub(crate) fn replay(&self, end: Offset) -> GroupShard {
        let mut shard = GroupShard::new(self.start);
        for (offset, record) in self.records.iter().filter(|(offset, _)| *offset < end) {
            shard.apply(*offset, record).unwrap();
        }
        shard.skipped(end);
        shard.apply_pending(end);
        shard
    }
}
