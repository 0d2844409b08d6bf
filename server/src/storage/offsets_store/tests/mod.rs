#![allow(clippy::unwrap_used)]

mod behaviour;
mod damage;
mod reload;

use std::fs;
use std::path::Path;

use wharf_coordinator::{CommitKey, CommitValue, GroupEpoch, GroupShard, GroupValue, Position, Record};
use wharf_types::{GroupName, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, TopicPartition};

use super::load::{Loaded, WipeReason};
use super::*;

const OFFSETS: TopicId = TopicId::from_bytes([0xee; 16]);

fn partition(number: u32) -> PartitionIndex {
    PartitionIndex::new(number)
}

fn group(number: u32) -> GroupName {
    GroupName::new(&format!("group-{number}")).unwrap()
}

fn key(group_number: u32, partition_number: u32) -> CommitKey {
    let topic_id = TopicId::from_bytes([7; 16]);
    let topic_partition = TopicPartition { topic_id, partition: partition(partition_number) };
    CommitKey { group: group(group_number), topic_partition }
}

fn commit(group: u32, partition: u32, offset: u64) -> Record {
    let position = Position {
        offset: Offset::new(offset),
        leader_epoch: None,
        metadata: Some("some metadata".into()),
        commit_time: TimestampMs::new(offset),
        member_epoch: None,
        commit_sequence: None,
    };
    Record::Commit { key: key(group, partition), value: CommitValue { position, origin: None } }
}

fn group_record(number: u32) -> Record {
    let value = GroupValue { group_epoch: GroupEpoch::new(0), created_time: TimestampMs::new(1) };
    Record::Group { group: group(number), value }
}

fn meta(applied: u64) -> PartitionMeta {
    PartitionMeta {
        topic_id: OFFSETS,
        applied: Offset::new(applied),
        leader_epoch: LeaderEpoch::new(1),
        loss_generation: LossGeneration(0),
    }
}

fn view(end: u64) -> LogView {
    LogView {
        topic_id: OFFSETS,
        loss_generation: LossGeneration(0),
        log_start_offset: Offset::ZERO,
        log_end_offset: Offset::new(end),
    }
}

fn open(path: &Path) -> OffsetsStore {
    OffsetsStore::open(path, OffsetsStoreOptions::default()).unwrap()
}

/// The records with their offsets, from `base` on.
fn at(base: u64, records: Vec<Record>) -> Vec<(Offset, Record)> {
    (base..).map(Offset::new).zip(records).collect()
}

fn load(store: &OffsetsStore, number: u32, log_end: u64) -> Loaded {
    store.load(partition(number), &view(log_end), |_| Some(LeaderEpoch::new(1))).unwrap()
}

/// The shard that a replay of `records` below `end` gives.
fn fold(records: &[(Offset, Record)], end: Offset) -> GroupShard {
    let mut shard = GroupShard::new(Offset::ZERO);
    for (offset, record) in records.iter().filter(|(offset, _)| *offset < end) {
        shard.apply(*offset, record).unwrap();
    }
    shard.skipped(end);
    shard.apply_pending(end);
    shard
}

/// What a crash at this moment leaves of the files.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl OffsetsStore {
    fn flush_table(&self) {
        self.db.flush_cf(self.family().unwrap()).unwrap();
    }

    fn table_bytes(&self) -> u64 {
        let property = rocksdb::properties::TOTAL_SST_FILES_SIZE;
        self.db.property_int_value_cf(self.family().unwrap(), property).unwrap().unwrap()
    }

    fn compact(&self) {
        self.db.compact_range_cf(self.family().unwrap(), None::<&[u8]>, None::<&[u8]>);
    }
}
