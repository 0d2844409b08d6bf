//! The latest state: the applied one seen through the records that are appended and not applied yet.

use std::ops::RangeInclusive;

use wharf_types::{GroupName, Offset, PartitionIndex, TopicId, TopicPartition};

use crate::record::{CommitKey, CommitValue, GroupValue, Record};

use super::{Group, GroupShard};

/// A key of the log. In a group's order its own record comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) group: GroupName,
    /// The position, or nothing for the group's own record.
    pub(crate) topic_partition: Option<TopicPartition>,
}

/// The last pending record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) offset: Offset,
    /// Its size by [`Record::log_bytes_estimate`]; `None` if it deletes the key.
    bytes: Option<u64>,
}

impl Key {
    fn of_group(group: &GroupName) -> Self {
        Key { group: group.clone(), topic_partition: None }
    }

    fn of_position(key: &CommitKey) -> Self {
        Key { group: key.group.clone(), topic_partition: Some(key.topic_partition) }
    }

    /// Every key of a group.
    fn range(group: &GroupName) -> RangeInclusive<Key> {
        let last = TopicPartition {
            topic_id: TopicId::from_bytes([0xff; 16]),
            partition: PartitionIndex::new(u32::MAX),
        };
        Key::of_group(group)..=Key { group: group.clone(), topic_partition: Some(last) }
    }
}

impl GroupShard {
    /// Takes a record of the log's end into the overlay and the count of live bytes.
    pub(super) fn observe(&mut self, offset: Offset, record: &Record) {
        match record {
            Record::Commit { key, .. } => {
                self.overlay_key(Key::of_position(key), offset, Some(record.log_bytes_estimate()));
            }
            Record::CommitTombstone(key) => self.overlay_key(Key::of_position(key), offset, None),
            Record::Group { group, .. } => {
                self.overlay_key(Key::of_group(group), offset, Some(record.log_bytes_estimate()));
            }
            Record::GroupTombstone(group) => {
                for key in self.latest_keys(group) {
                    self.overlay_key(key, offset, None);
                }
            }
        }
    }

    /// Drops from the overlay what `record`, applied now, has made the applied state.
    pub(super) fn settle(&mut self, offset: Offset, record: &Record) {
        match record {
            Record::Commit { key, .. } | Record::CommitTombstone(key) => {
                self.settle_key(&Key::of_position(key), offset);
            }
            Record::Group { group, .. } => self.settle_key(&Key::of_group(group), offset),
            Record::GroupTombstone(group) => {
                let settled = |latest: &Latest| latest.offset <= offset;
                let keys: Vec<Key> = self
                    .overlay
                    .range(Key::range(group))
                    .filter(|(_, latest)| settled(latest))
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in keys {
                    self.overlay.remove(&key);
                }
            }
        }
    }

    /// The group's own state, if it has one.
    pub(super) fn latest_group(&self, group: &GroupName) -> Option<GroupValue> {
        if let Some(latest) = self.overlay.get(&Key::of_group(group)) {
            latest.bytes?;
            return match self.pending_at(latest.offset)? {
                Record::Group { value, .. } => Some(*value),
                _ => None,
            };
        }
        self.groups.get(group)?.metadata()
    }

    /// Whether the group has any live key.
    pub(super) fn latest_exists(&self, group: &GroupName) -> bool {
        if self.overlay.range(Key::range(group)).any(|(_, latest)| latest.bytes.is_some()) {
            return true;
        }
        let Some(applied) = self.groups.get(group) else { return false };
        applied_keys(group, applied).any(|(key, _)| !self.overlay.contains_key(&key))
    }

    /// The live keys of a group.
    pub(super) fn latest_keys(&self, group: &GroupName) -> Vec<Key> {
        let overlaid = self.overlay.range(Key::range(group)).filter(|(_, latest)| latest.bytes.is_some());
        let mut keys: Vec<Key> = overlaid.map(|(key, _)| key.clone()).collect();
        if let Some(applied) = self.groups.get(group) {
            let applied = applied_keys(group, applied).map(|(key, _)| key);
            keys.extend(applied.filter(|key| !self.overlay.contains_key(key)));
        }
        keys
    }

    /// Every group with a live key or a pending record, from `from` on, each once and in order.
    pub(super) fn latest_groups<'a>(&'a self, from: Option<&'a GroupName>) -> Vec<&'a GroupName> {
        let wanted = |group: &&GroupName| from.is_none_or(|from| *group >= from);
        let overlaid = self.overlay.keys().map(|key| &key.group);
        let mut names: Vec<&GroupName> = self.groups.keys().chain(overlaid).filter(wanted).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Every live key whose last record lies below `bound`, with that record's offset, in the records' order.
    pub(crate) fn live_keys_below(&self, bound: Offset) -> Vec<(Offset, Key)> {
        let applied = self.groups.iter().flat_map(|(name, group)| applied_keys(name, group));
        let applied = applied.filter(|(key, offset)| *offset < bound && !self.overlay.contains_key(key));
        let pending = self.overlay.iter().filter(|(_, latest)| latest.bytes.is_some());
        let pending = pending.map(|(key, latest)| (key.clone(), latest.offset));
        let mut keys: Vec<(Offset, Key)> = applied
            .chain(pending.filter(|(_, offset)| *offset < bound))
            .map(|(key, offset)| (offset, key))
            .collect();
        keys.sort_unstable();
        keys
    }

    /// The record that would write the key's latest state again, with its origin (R15), and where its last record stands;
    /// nothing if the key is not live.
    pub(crate) fn rewrite_of(&self, key: &Key) -> Option<(Offset, Record)> {
        if let Some(latest) = self.overlay.get(key) {
            latest.bytes?;
            let record = match self.pending_at(latest.offset)?.clone() {
                Record::Commit { key, value } => {
                    Record::Commit { key, value: value.into_committed(latest.offset).to_value() }
                }
                other => other,
            };
            return Some((latest.offset, record));
        }
        let group = self.groups.get(&key.group)?;
        match key.topic_partition {
            Some(topic_partition) => {
                let stored = group.offsets.get(&topic_partition)?;
                let key = CommitKey { group: key.group.clone(), topic_partition };
                let value: CommitValue = stored.value.to_value();
                Some((stored.record_offset, Record::Commit { key, value }))
            }
            None => {
                let stored = group.metadata.as_ref()?;
                Some((stored.record_offset, Record::Group { group: key.group.clone(), value: stored.value }))
            }
        }
    }

    fn overlay_key(&mut self, key: Key, offset: Offset, bytes: Option<u64>) {
        let before = self.latest_bytes(&key).unwrap_or(0);
        self.live_bytes = self.live_bytes.saturating_sub(before) + bytes.unwrap_or(0);
        self.overlay.insert(key, Latest { offset, bytes });
    }

    fn settle_key(&mut self, key: &Key, offset: Offset) {
        if self.overlay.get(key).is_some_and(|latest| latest.offset <= offset) {
            self.overlay.remove(key);
        }
    }

    fn latest_bytes(&self, key: &Key) -> Option<u64> {
        if let Some(latest) = self.overlay.get(key) {
            return latest.bytes;
        }
        let group = self.groups.get(&key.group)?;
        match &key.topic_partition {
            Some(topic_partition) => group.offsets.get(topic_partition).map(|stored| stored.bytes),
            None => group.metadata.as_ref().map(|stored| stored.bytes),
        }
    }

    fn pending_at(&self, offset: Offset) -> Option<&Record> {
        let index = self.pending.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.pending.get(index).map(|(_, record)| record)
    }
}

/// The keys of a group in the applied state, with the offsets of their last records.
fn applied_keys<'a>(name: &'a GroupName, group: &'a Group) -> impl Iterator<Item = (Key, Offset)> + 'a {
    let own = group.metadata.iter().map(|stored| (Key::of_group(name), stored.record_offset));
    own.chain(group.offsets.iter().map(|(topic_partition, stored)| {
        let key = Key { group: name.clone(), topic_partition: Some(*topic_partition) };
        (key, stored.record_offset)
    }))
}
