//! Whatever happens in whatever order: the shard is the fold of its log, and prefix truncation keeps exactly that.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{TestLog, commit, group, topic, topic_partition};
use proptest::prelude::*;
use wharf_coordinator::{
    Committed, GroupShard, OffsetReset, ShardRestore, Truncation, TruncationPolicy, TruncationStep,
};
use wharf_types::{GroupName, Offset, TimestampMs, TopicPartition};

const POLICY: TruncationPolicy =
    TruncationPolicy { log_bytes_min: 0, live_factor: 0, step_records_max: 3, step_bytes_max: 1 << 20 };

#[derive(Clone, Debug)]
enum Step {
    Commit {
        group: u32,
        topic: u8,
        partition: u32,
        offset: u64,
    },
    Reset {
        group: u32,
        partition: u32,
        offset: u64,
    },
    DeleteGroup {
        group: u32,
    },
    DeleteTopic {
        topic: u8,
    },
    /// Another record that is not the shard's.
    NoOp,
    /// The high watermark comes to this many records below the end.
    Advance {
        behind: u64,
    },
    /// One step of truncation, which begins where none is under way.
    Truncate,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..4u32, 0..3u8, 0..3u32, any::<u64>()).prop_map(|(group, topic, partition, offset)|
            Step::Commit { group, topic, partition, offset }),
        2 => (0..4u32, 0..3u32, any::<u64>()).prop_map(|(group, partition, offset)|
            Step::Reset { group, partition, offset }),
        1 => (0..4u32).prop_map(|group| Step::DeleteGroup { group }),
        1 => (0..3u8).prop_map(|topic| Step::DeleteTopic { topic }),
        1 => Just(Step::NoOp),
        5 => (0..6u64).prop_map(|behind| Step::Advance { behind }),
        6 => Just(Step::Truncate),
    ]
}

#[derive(Debug)]
struct World {
    shard: GroupShard,
    log: TestLog,
    truncation: Option<Truncation>,
    /// The same commits in a plain map: group → partition → offset.
    model: BTreeMap<GroupName, BTreeMap<TopicPartition, u64>>,
    truncated: usize,
}

impl World {
    fn new() -> Self {
        World {
            shard: GroupShard::new(Offset::ZERO),
            log: TestLog::default(),
            truncation: None,
            model: BTreeMap::new(),
            truncated: 0,
        }
    }

    fn run(&mut self, step: &Step, now: TimestampMs) {
        match *step {
            Step::Commit { group: number, topic, partition, offset } => {
                let request = commit(number, topic_partition(topic, partition), offset);
                let records = self.shard.handle_commit(&request, now).unwrap();
                self.log.append(&mut self.shard, records);
                let offsets = self.model.entry(group(number)).or_default();
                offsets.insert(topic_partition(topic, partition), Offset::new(offset).value());
            }
            Step::Reset { group: number, partition, offset } => {
                let topic_partition = topic_partition(0, partition);
                let reset = OffsetReset { topic_partition, offset: Offset::new(offset), leader_epoch: None };
                let result = self.shard.handle_reset(&group(number), &[reset], now);
                assert_eq!(result.is_ok(), self.model.contains_key(&group(number)));
                if let Ok(records) = result {
                    self.log.append(&mut self.shard, records);
                    let offsets = self.model.get_mut(&group(number)).unwrap();
                    offsets.insert(topic_partition, Offset::new(offset).value());
                }
            }
            Step::DeleteGroup { group: number } => {
                let result = self.shard.handle_delete_group(&group(number));
                assert_eq!(result.is_ok(), self.model.remove(&group(number)).is_some());
                self.log.append(&mut self.shard, result.unwrap_or_default());
            }
            Step::DeleteTopic { topic: number } => {
                let step = self.shard.handle_topic_deleted(topic(number), None, usize::MAX);
                self.log.append(&mut self.shard, step.records);
                for offsets in self.model.values_mut() {
                    offsets.retain(|topic_partition, _| topic_partition.topic_id != topic(number));
                }
            }
            Step::NoOp => {
                self.log.end = self.log.end.next();
                self.shard.skipped(self.log.end);
            }
            Step::Advance { behind } => {
                let high_watermark = Offset::new(self.log.end.value().saturating_sub(behind));
                self.shard.apply_pending(high_watermark);
            }
            Step::Truncate => self.truncate(),
        }
    }

    fn truncate(&mut self) {
        if self.truncation.is_none() {
            self.truncation = self.shard.plan_truncation(1, self.log.start, self.log.end, POLICY);
        }
        let Some(truncation) = &mut self.truncation else { return };
        match truncation.next_step(&self.shard) {
            TruncationStep::Rewrite(records) => {
                assert!(records.len() <= POLICY.step_records_max);
                self.log.append(&mut self.shard, records);
            }
            TruncationStep::Advance { new_start, covered_by } => {
                if self.shard.applied() >= covered_by {
                    self.log.truncate_prefix(new_start);
                    self.truncation = None;
                    self.truncated += 1;
                }
            }
            TruncationStep::Abandoned => panic!("nobody left office"),
        }
    }

    fn check(&self) {
        assert_eq!(visible(&self.shard), visible(&self.log.replay(self.shard.applied())));
        assert_eq!(self.log.replay(self.log.end).live_bytes(), self.shard.live_bytes());
        let latest = self.log.replay(self.log.end);
        let latest: BTreeMap<GroupName, BTreeMap<TopicPartition, u64>> = visible(&latest)
            .into_iter()
            .map(|(group, offsets)| {
                let offset =
                    |(key, committed): (TopicPartition, Committed)| (key, committed.position.offset.value());
                (group, offsets.into_iter().map(offset).collect())
            })
            .collect();
        assert_eq!(latest, self.model);
    }
}

/// All that answers can show. Two replicas of which one replayed a shorter log differ only in where records stand.
fn visible(shard: &GroupShard) -> BTreeMap<GroupName, BTreeMap<TopicPartition, Committed>> {
    let groups = shard.list_groups(None, usize::MAX);
    let of = |name: &GroupName| {
        let group = shard.group(name.as_str()).unwrap();
        group.positions().map(|(key, committed)| (key, committed.clone())).collect()
    };
    groups.iter().map(|group| (group.name.clone(), of(&group.name))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_shard_is_the_fold_of_its_log(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for (time, step) in steps.iter().enumerate() {
            world.run(step, TimestampMs::new(time as u64));
            world.check();
        }
        world.shard.apply_pending(world.log.end);
        world.check();
        prop_assert_eq!(&world.shard, &world.log.replay(world.log.end));
    }
}

#[test]
fn the_default_policy_waits_for_64_mib_and_4_times_the_live_bytes() {
    let mut world = World::new();
    world.run(&Step::Commit { group: 1, topic: 1, partition: 1, offset: 1 }, TimestampMs::new(1));
    let plan = |log_bytes| {
        let (start, end) = (world.log.start, world.log.end);
        world.shard.plan_truncation(log_bytes, start, end, TruncationPolicy::default()).is_some()
    };
    assert!(!plan(64 << 20));
    assert!(plan((64 << 20) + 1));
    let policy = TruncationPolicy { log_bytes_min: 0, ..TruncationPolicy::default() };
    let live = world.shard.live_bytes();
    let plan = |log_bytes| world.shard.plan_truncation(log_bytes, Offset::ZERO, world.log.end, policy);
    assert!(plan(4 * live).is_none());
    assert!(plan(4 * live + 1).is_some());
}

#[test]
fn a_truncation_does_not_outlive_its_leader() {
    let mut world = World::new();
    world.run(&Step::Commit { group: 1, topic: 1, partition: 1, offset: 1 }, TimestampMs::new(1));
    let mut truncation = world.shard.plan_truncation(1, Offset::ZERO, world.log.end, POLICY).unwrap();
    world.shard.clear_pending();
    assert_eq!(truncation.next_step(&world.shard), TruncationStep::Abandoned);
}

#[test]
fn a_truncation_stays_below_the_last_stable_offset() {
    let mut world = World::new();
    for offset in 0..3 {
        world.run(&Step::Commit { group: 1, topic: 1, partition: 1, offset }, TimestampMs::new(1));
    }
    let truncation = world.shard.plan_truncation(1, Offset::ZERO, Offset::new(2), POLICY).unwrap();
    assert_eq!(truncation.new_start(), Offset::new(2));
}

#[test]
fn truncation_keeps_a_much_committed_log_short() {
    let mut world = World::new();
    for round in 0..2_000u64 {
        let step = Step::Commit { group: 1, topic: 1, partition: (round % 3) as u32, offset: round };
        world.run(&step, TimestampMs::new(round));
        world.run(&Step::Advance { behind: 0 }, TimestampMs::new(round));
        world.run(&Step::Truncate, TimestampMs::new(round));
    }
    assert!(world.truncated > 100);
    assert!(world.log.records.len() < 20, "{} records are left", world.log.records.len());
    world.check();
}

#[test]
fn a_restored_shard_goes_on_as_the_one_that_was_stored() {
    let mut world = World::new();
    for (group, partition) in [(1, 0), (1, 1), (2, 0)] {
        world.run(&Step::Commit { group, topic: 1, partition, offset: 7 }, TimestampMs::new(1));
    }
    world.shard.apply_pending(world.log.end);
    let mut restore = ShardRestore::new(world.shard.applied());
    for (offset, record) in world.log.records.iter().rev() {
        restore.put(*offset, record.clone());
    }
    let stored = std::mem::replace(&mut world.shard, restore.finish());
    assert_eq!(world.shard, stored);
    assert_eq!(world.shard.live_bytes(), stored.live_bytes());
    world.run(&Step::Commit { group: 1, topic: 1, partition: 0, offset: 8 }, TimestampMs::new(2));
    world.check();
}
