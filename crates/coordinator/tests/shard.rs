//! What each handler accepts, writes and refuses, and what is visible when.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{TestLog, commit, group, topic, topic_partition};
use wharf_coordinator::{
    AppendOutOfOrder, Applied, CommitError, CommitMember, DeleteGroupError, GroupShard, MemberEpoch,
    OffsetReset, Record, ResetError,
};
use wharf_types::{Offset, TimestampMs};

const NOW: TimestampMs = TimestampMs::new(1_000);

fn commit_now(shard: &mut GroupShard, log: &mut TestLog, group: u32, partition: u32, offset: u64) {
    let records = shard.handle_commit(&commit(group, topic_partition(1, partition), offset), NOW).unwrap();
    log.append(shard, records);
}

#[test]
fn the_first_commit_makes_the_group() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    commit_now(&mut shard, &mut log, 1, 0, 6);
    assert!(matches!(log.records[0].1, Record::Group { .. }));
    assert_eq!(log.records.len(), 3, "the group's own record is written once, though it is not applied yet");
}

#[test]
fn a_commit_is_visible_once_it_is_below_the_high_watermark() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    assert!(shard.group("group-1").is_none());
    assert_eq!(shard.apply_pending(Offset::new(1)).len(), 1);
    assert!(shard.group("group-1").unwrap().committed(&topic_partition(1, 0)).is_none());
    assert_eq!(shard.apply_pending(Offset::new(2)).len(), 1);
    let committed = shard.group("group-1").unwrap().committed(&topic_partition(1, 0)).unwrap().clone();
    assert_eq!(committed.position.offset, Offset::new(5));
    assert_eq!(committed.position.commit_time, NOW);
    assert_eq!(committed.origin, Offset::new(1));
    assert_eq!(shard.applied(), Offset::new(2));
}

#[test]
fn the_last_accepted_wins_even_when_it_goes_back() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 9);
    commit_now(&mut shard, &mut log, 1, 0, 3);
    shard.apply_pending(log.end);
    let group = shard.group("group-1").unwrap();
    assert_eq!(group.committed(&topic_partition(1, 0)).unwrap().position.offset, Offset::new(3));
}

#[test]
fn the_applied_end_passes_records_that_are_not_the_shards() {
    let mut shard = GroupShard::new(Offset::ZERO);
    shard.skipped(Offset::new(4));
    assert_eq!(shard.apply_pending(Offset::new(9)), []);
    assert_eq!(shard.applied(), Offset::new(4));
}

#[test]
fn records_are_told_in_the_logs_order() {
    let mut shard = GroupShard::new(Offset::new(5));
    let error = shard.appended(Offset::new(4), [Record::GroupTombstone(group(1))]).unwrap_err();
    assert_eq!(error, AppendOutOfOrder { expected_min: Offset::new(5), actual: Offset::new(4) });
    shard.appended(Offset::new(5), [Record::GroupTombstone(group(1))]).unwrap();
    assert!(shard.apply(Offset::new(6), &Record::GroupTombstone(group(1))).is_err());
}

#[test]
fn applying_a_record_again_changes_nothing() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    shard.apply_pending(log.end);
    let before = shard.clone();
    for (offset, record) in &log.records {
        assert_eq!(shard.apply(*offset, record).unwrap(), Applied::Before);
    }
    assert_eq!(shard, before);
}

#[test]
fn bad_commits_are_refused() {
    let shard = GroupShard::new(Offset::ZERO);
    let mut request = commit(1, topic_partition(1, 0), 5);
    request.member = Some(CommitMember {
        member_id: "m".into(),
        member_epoch: MemberEpoch::new(1),
        commit_sequence: None,
    });
    assert_eq!(
        shard.handle_commit(&request, NOW),
        Err(CommitError::UnknownMember { group: group(1), member_id: "m".into() })
    );
    request.member = None;
    request.offsets[0].metadata = Some(Arc::from("x".repeat(4097)));
    assert_eq!(
        shard.handle_commit(&request, NOW),
        Err(CommitError::MetadataTooLarge { topic_partition: topic_partition(1, 0), actual: 4097 })
    );
    request.offsets[0].metadata = Some(Arc::from("x".repeat(4096)));
    assert!(shard.handle_commit(&request, NOW).is_ok());
    request.offsets = vec![request.offsets[0].clone(); 10_001];
    assert!(matches!(shard.handle_commit(&request, NOW), Err(CommitError::TooManyOffsets { .. })));
    request.offsets.clear();
    assert!(matches!(shard.handle_commit(&request, NOW), Err(CommitError::NoOffsets { .. })));
}

#[test]
fn deleting_a_group_deletes_its_positions_and_a_new_one_starts_without() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    commit_now(&mut shard, &mut log, 2, 0, 5);
    let tombstone = shard.handle_delete_group(&group(1)).unwrap();
    log.append(&mut shard, tombstone);
    assert_eq!(
        shard.handle_delete_group(&group(1)),
        Err(DeleteGroupError::GroupNotFound { group: group(1) }),
        "the deletion counts before it is applied"
    );
    commit_now(&mut shard, &mut log, 1, 7, 1);
    assert!(matches!(log.records[5].1, Record::Group { .. }), "the group comes to be again");
    shard.apply_pending(log.end);
    let positions: Vec<_> = shard.group("group-1").unwrap().positions().collect();
    assert_eq!(positions.len(), 1);
    assert_eq!(positions[0].0, topic_partition(1, 7));
    assert!(shard.group("group-2").is_some());
}

#[test]
fn resets_need_a_group() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    let reset =
        OffsetReset { topic_partition: topic_partition(1, 0), offset: Offset::new(42), leader_epoch: None };
    assert_eq!(
        shard.handle_reset(&group(1), &[reset], NOW),
        Err(ResetError::GroupNotFound { group: group(1) })
    );
    commit_now(&mut shard, &mut log, 1, 0, 5);
    let records = shard.handle_reset(&group(1), &[reset], NOW).unwrap();
    log.append(&mut shard, records);
    shard.apply_pending(log.end);
    let group = shard.group("group-1").unwrap();
    assert_eq!(group.committed(&topic_partition(1, 0)).unwrap().position.offset, Offset::new(42));
}

#[test]
fn a_deleted_topic_loses_its_positions_in_bounded_steps_and_groups_stay() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    for number in 0..10 {
        commit_now(&mut shard, &mut log, number, 0, 1);
        let other = shard.handle_commit(&commit(number, topic_partition(2, 0), 1), NOW).unwrap();
        log.append(&mut shard, other);
        if number == 5 {
            shard.apply_pending(log.end);
        }
    }
    assert_eq!(shard.referenced_topics().len(), 2);
    let mut next = None;
    let mut steps = 0;
    loop {
        let step = shard.handle_topic_deleted(topic(1), next.as_ref(), 3);
        assert!(step.records.len() <= 3);
        log.append(&mut shard, step.records);
        steps += 1;
        next = step.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(steps, 4);
    shard.apply_pending(log.end);
    assert_eq!(shard.referenced_topics().into_iter().collect::<Vec<_>>(), [topic(2)]);
    assert_eq!(shard.group_count(), 10);
    assert!(shard.handle_topic_deleted(topic(1), None, 3).records.is_empty());
}

#[test]
fn groups_are_listed_by_name_in_pages() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    for number in [3, 1, 2] {
        commit_now(&mut shard, &mut log, number, 0, 1);
    }
    shard.apply_pending(log.end);
    let names = |after: Option<&str>, limit| -> Vec<String> {
        shard.list_groups(after, limit).iter().map(|group| group.name.to_string()).collect()
    };
    assert_eq!(names(None, 2), ["group-1", "group-2"]);
    assert_eq!(names(Some("group-2"), 2), ["group-3"]);
    assert_eq!(names(Some("zzz"), 2), [""; 0]);
}

#[test]
fn what_a_leader_could_not_commit_is_forgotten() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    shard.apply_pending(log.end);
    let before = shard.clone();
    let tombstone = shard.handle_delete_group(&group(1)).unwrap();
    log.append(&mut shard, tombstone);
    assert_eq!(shard.live_bytes(), 0);
    shard.clear_pending();
    assert_eq!(shard, before);
    assert_eq!(shard.live_bytes(), before.live_bytes());
    assert_eq!(shard.seen_end(), before.applied());
    assert!(shard.handle_delete_group(&group(1)).is_ok());
}

#[test]
fn requests_of_one_batch_see_each_other() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    shard.apply_pending(log.end);
    let deletion = shard.handle_delete_group(&group(1)).unwrap();
    shard.draft(deletion);
    let records = shard.handle_commit(&commit(1, topic_partition(1, 1), 6), NOW).unwrap();
    assert_eq!(records.len(), 2, "the group is gone, so its record is written again");
    shard.draft(records);
    assert_eq!(shard.handle_commit(&commit(1, topic_partition(1, 2), 6), NOW).unwrap().len(), 1);
    // The batch stands above records of others, which were told before or are not.
    shard.skipped(Offset::new(4));
    assert_eq!(shard.apply_pending(Offset::new(20)), [], "a draft is never applied");
    let drafted: Vec<Record> = shard.drafted().cloned().collect();
    assert_eq!(drafted.len(), 3);
    shard.appended(Offset::new(10), []).unwrap();
    assert_eq!(shard.seen_end(), Offset::new(13));
    assert_eq!(shard.drafted().count(), 0);
    for (offset, record) in (10..).map(Offset::new).zip(drafted) {
        log.records.push((offset, record));
    }
    assert_eq!(shard.apply_pending(Offset::new(13)), log.records[2..]);
    assert_eq!(shard, log.replay(Offset::new(13)));
    assert_eq!(shard.live_bytes(), log.replay(Offset::new(13)).live_bytes());
}

#[test]
fn a_draft_that_was_not_appended_leaves_nothing() {
    let mut shard = GroupShard::new(Offset::ZERO);
    let mut log = TestLog::default();
    commit_now(&mut shard, &mut log, 1, 0, 5);
    shard.apply_pending(Offset::new(1));
    let live_bytes = shard.live_bytes();
    shard.draft(shard.handle_delete_group(&group(1)).unwrap());
    assert!(shard.handle_delete_group(&group(1)).is_err());
    shard.discard_draft();
    assert_eq!(shard.live_bytes(), live_bytes);
    assert!(shard.handle_delete_group(&group(1)).is_ok());
    commit_now(&mut shard, &mut log, 1, 1, 5);
    shard.apply_pending(log.end);
    assert_eq!(shard, log.replay(log.end));
}
