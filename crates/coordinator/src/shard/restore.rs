//! Building a shard from a store of its applied state, in place of a replay of the whole log (R15).

use wharf_types::{GroupName, Offset};

use crate::record::{CommitKey, CommitValue, GroupValue, Record};

use super::{Group, GroupShard, Stored};

/// A shard that is being filled from a store. What is put in must be the fold of the log below `applied`.
#[derive(Debug)]
pub struct ShardRestore {
    shard: GroupShard,
}

impl ShardRestore {
    /// An empty shard whose store reached `applied` (exclusive).
    #[must_use]
    pub fn new(applied: Offset) -> Self {
        ShardRestore { shard: GroupShard::new(applied) }
    }

    /// Puts in the live record that stands at `record_offset`. Tombstones are ignored: they leave nothing.
    pub fn put(&mut self, record_offset: Offset, record: Record) {
        let bytes = record.log_bytes_estimate();
        match record {
            Record::Commit { key, value } => self.put_position(key, value, record_offset, bytes),
            Record::Group { group, value } => self.put_group(group, value, record_offset, bytes),
            Record::CommitTombstone(_) | Record::GroupTombstone(_) => {}
        }
    }

    /// The shard, with nothing pending.
    #[must_use]
    pub fn finish(mut self) -> GroupShard {
        self.shard.live_bytes = self.shard.groups.values().map(Group::bytes).sum();
        self.shard
    }

    fn put_position(&mut self, key: CommitKey, value: CommitValue, record_offset: Offset, bytes: u64) {
        let stored = Stored { value: value.into_committed(record_offset), record_offset, bytes };
        self.shard.put_position(key.group, key.topic_partition, stored);
    }

    fn put_group(&mut self, group: GroupName, value: GroupValue, record_offset: Offset, bytes: u64) {
        self.shard.put_group(group, Stored { value, record_offset, bytes });
    }
}
