//! The groups of one `__offsets` partition.
//!
//! Two states are kept apart:
//!
//! * the **applied** state, the fold of every record below `applied`: all that answers show (T52);
//! * the **latest** state, the applied one plus the records that were appended and are not applied yet: what requests
//!   are fenced against, and what a re-append copies.
//!
//! Invariants:
//!
//! * `applied` ≤ `seen_end`; both only rise, but for [`GroupShard::clear_pending`], which lowers `seen_end` to `applied`.
//! * The pending records lie in `[applied, seen_end)`, in rising order of their offsets; after them comes the draft, the
//!   records of the batch that is being gathered, numbered from `seen_end` on until their place is known.
//! * The overlay holds exactly the keys that pending records touch, each with the last such record.
//! * `live_bytes` is the sum of the sizes of all live keys of the latest state.
//! * A group exists while it has any live key; an empty [`Group`] is never kept.
//! * Nothing here depends on the order of calls, on time or on hashing: the same records give the same shard.

mod draft;
mod handle;
mod latest;
mod restore;
mod view;

use std::collections::{BTreeMap, VecDeque};

use wharf_types::{GroupName, Offset, TopicPartition};

use crate::record::{Committed, GroupValue, Record};

pub use handle::{
    CommitError, CommitMember, CommitRequest, DeleteGroupError, OffsetCommit, OffsetReset, ResetError,
    TopicDeletion,
};
pub(crate) use latest::Key;
use latest::Latest;
pub use restore::ShardRestore;
pub use view::{Group, GroupSummary};

/// What [`GroupShard::apply`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The record changed the state.
    Now,
    /// The record lies below `applied`: it had been applied before, and nothing changed.
    Before,
}

/// Records were told to a shard out of the log's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("records appended at {actual}, but the shard has seen the log up to {expected_min}")]
pub struct AppendOutOfOrder {
    /// The lowest offset that the next record can have.
    pub expected_min: Offset,
    /// The offset that was told.
    pub actual: Offset,
}

/// A key's last applied record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<V> {
    pub(crate) value: V,
    /// Where that record stands in the log.
    pub(crate) record_offset: Offset,
    /// What it takes there, by [`Record::log_bytes_estimate`].
    pub(crate) bytes: u64,
}

/// The state of one `__offsets` partition. See the module's invariants.
#[derive(Clone, Debug)]
pub struct GroupShard {
    groups: BTreeMap<GroupName, Group>,
    /// Exclusive end of the applied records.
    applied: Offset,
    /// Exclusive end of the log as the shard knows it.
    seen_end: Offset,
    pending: VecDeque<(Offset, Record)>,
    /// How many of the last pending records are the draft.
    draft_len: usize,
    overlay: BTreeMap<Key, Latest>,
    live_bytes: u64,
    /// Rises when pending records were taken back, so that what was planned on them is not carried on.
    generation: u64,
}

impl GroupShard {
    /// A shard without groups whose log is read from `start`: the log start offset of a replica that replays.
    #[must_use]
    pub fn new(start: Offset) -> Self {
        GroupShard {
            groups: BTreeMap::new(),
            applied: start,
            seen_end: start,
            pending: VecDeque::new(),
            draft_len: 0,
            overlay: BTreeMap::new(),
            live_bytes: 0,
            generation: 0,
        }
    }

    /// Exclusive end of the applied records. Answers may be given when it has reached the high watermark that was seen
    /// after taking office (R14).
    #[must_use]
    pub fn applied(&self) -> Offset {
        self.applied
    }

    /// Exclusive end of the log as far as it was told.
    #[must_use]
    pub fn seen_end(&self) -> Offset {
        self.seen_end
    }

    /// What the live keys of the latest state take in the log, in bytes, estimated (R15).
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Takes note that a batch of the draft, if there is one, and then `records` was appended to the log at `base_offset`.
    /// From then on requests are fenced against them; answers show them only once they are applied.
    ///
    /// # Errors
    /// [`AppendOutOfOrder`] if the shard has already seen the log beyond `base_offset`; nothing changes.
    pub fn appended(
        &mut self,
        base_offset: Offset,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<(), AppendOutOfOrder> {
        self.check_order(base_offset)?;
        let mut offset = self.place_draft(base_offset);
        for record in records {
            self.observe(offset, &record);
            self.pending.push_back((offset, record));
            offset = offset.next();
        }
        self.seen_end = offset;
        Ok(())
    }

    /// Takes note that what lies between the last record told and `end` holds nothing for the shard: control records,
    /// no-ops of the leader.
    pub fn skipped(&mut self, end: Offset) {
        if end > self.seen_end {
            self.move_draft(end);
            self.seen_end = end;
        }
    }

    /// Applies every record told below `high_watermark` and returns those applied now, in order, for the store. `applied`
    /// becomes the lower of `high_watermark` and [`GroupShard::seen_end`], if it is not there yet.
    pub fn apply_pending(&mut self, high_watermark: Offset) -> Vec<(Offset, Record)> {
        let mut records = Vec::new();
        let end = high_watermark.min(self.seen_end);
        while let Some((offset, record)) = self.pending.pop_front_if(|(offset, _)| *offset < end) {
            self.mutate(offset, &record);
            records.push((offset, record));
        }
        self.applied = self.applied.max(end);
        records
    }

    /// Applies the record at `offset`, as a replay does, and drops a draft. A record below `applied` changes nothing, so
    /// replaying a part again is harmless.
    ///
    /// # Errors
    /// [`AppendOutOfOrder`] if a record before `offset` was told to be appended and is not applied; nothing changes.
    pub fn apply(&mut self, offset: Offset, record: &Record) -> Result<Applied, AppendOutOfOrder> {
        if offset < self.applied {
            return Ok(Applied::Before);
        }
        self.discard_draft();
        if let Some((first, _)) = self.pending.front().filter(|(first, _)| *first < offset) {
            return Err(AppendOutOfOrder { expected_min: *first, actual: offset });
        }
        if offset >= self.seen_end {
            self.observe(offset, record);
            self.seen_end = offset.next();
        }
        self.pending.pop_front_if(|(first, _)| *first == offset);
        self.mutate(offset, record);
        Ok(Applied::Now)
    }

    /// Forgets every record that is not applied, for a leader that left office: the log may lose them. What is kept of
    /// them by the next leader comes back by [`GroupShard::apply`].
    pub fn clear_pending(&mut self) {
        self.pending.clear();
        self.draft_len = 0;
        self.overlay.clear();
        self.seen_end = self.applied;
        self.live_bytes = self.groups.values().map(Group::bytes).sum();
        self.generation += 1;
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn check_order(&self, offset: Offset) -> Result<(), AppendOutOfOrder> {
        if offset < self.seen_end {
            return Err(AppendOutOfOrder { expected_min: self.seen_end, actual: offset });
        }
        Ok(())
    }

    /// The only place where the applied state changes.
    fn mutate(&mut self, offset: Offset, record: &Record) {
        debug_assert!(offset >= self.applied);
        match record {
            Record::Commit { key, value } => {
                let stored = Stored {
                    value: value.clone().into_committed(offset),
                    record_offset: offset,
                    bytes: record.log_bytes_estimate(),
                };
                self.put_position(key.group.clone(), key.topic_partition, stored);
            }
            Record::CommitTombstone(key) => {
                if let Some(group) = self.groups.get_mut(&key.group) {
                    group.offsets.remove(&key.topic_partition);
                    if group.is_empty() {
                        self.groups.remove(&key.group);
                    }
                }
            }
            Record::Group { group, value } => {
                let stored =
                    Stored { value: *value, record_offset: offset, bytes: record.log_bytes_estimate() };
                self.put_group(group.clone(), stored);
            }
            Record::GroupTombstone(group) => {
                self.groups.remove(group);
            }
        }
        self.settle(offset, record);
        self.applied = offset.next();
    }

    fn put_group(&mut self, group: GroupName, stored: Stored<GroupValue>) {
        self.groups.entry(group).or_default().metadata = Some(stored);
    }

    fn put_position(&mut self, group: GroupName, topic_partition: TopicPartition, stored: Stored<Committed>) {
        self.groups.entry(group).or_default().offsets.insert(topic_partition, stored);
    }
}
