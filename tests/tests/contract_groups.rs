//! Groups: commits, lag, resets, and what is refused.

#![allow(clippy::unwrap_used)]

use tonic::Code;
use wharf_proto::v1::reset_offsets_request::Target;
use wharf_proto::v1::{
    CommitRequest, DeleteGroupRequest, DeleteRecordsRequest, DeleteTopicRequest, DescribeGroupRequest,
    ErrorReason, GetCommittedRequest, GroupMember, GroupPartition, ListGroupsRequest, OffsetCommit,
    RecordDeletion, ResetOffsetsRequest, StartPosition, TopicPartition,
};
use wharf_tests::api::{Api, refused};
use wharf_tests::broker::Broker;

async fn broker_with_records(count: usize) -> (Broker, Api) {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 2).await;
    for n in 0..count {
        api.put("t", 0, format!("v{n}")).await;
    }
    (broker, api)
}

fn offset(topic: &str, partition: i32, offset: i64) -> OffsetCommit {
    OffsetCommit { topic: topic.to_owned(), partition, offset, ..Default::default() }
}

fn commit(group: &str, offsets: Vec<OffsetCommit>) -> CommitRequest {
    CommitRequest { group: group.to_owned(), offsets, member: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_commits_are_refused_whole() {
    let (_broker, mut api) = broker_with_records(3).await;
    api.commit("g", "t", 0, 1).await.unwrap();
    let long = "x".repeat(250);
    for group in ["", "a/b", "ö", "a b", long.as_str()] {
        let answer = api.broker.commit(commit(group, vec![offset("t", 0, 2)])).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let good = || offset("t", 0, 2);
    let metadata = |bytes| OffsetCommit { metadata: Some("m".repeat(bytes)), ..good() };
    let invalid = [
        vec![],
        vec![good(), offset("t", 0, -1)],
        vec![good(), offset("t", -1, 0)],
        vec![metadata(4_097)],
        vec![OffsetCommit { leader_epoch: Some(-1), ..good() }],
    ];
    for offsets in invalid {
        let answer = api.broker.commit(commit("g", offsets)).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let answer = api.broker.commit(commit("g", vec![good(), offset("x", 0, 0)])).await;
    refused(answer, Code::NotFound, ErrorReason::TopicNotFound);
    let answer = api.broker.commit(commit("g", vec![good(), offset("t", 2, 0)])).await;
    refused(answer, Code::NotFound, ErrorReason::PartitionNotFound);
    let answer = api.broker.commit(commit("g", vec![good(), offset("__offsets", 0, 0)])).await;
    refused(answer, Code::InvalidArgument, ErrorReason::InvalidTopicName);
    let answer = api.broker.commit(commit("g", vec![good(), offset("t", 1, 1)])).await;
    let error = refused(answer, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    assert_eq!(error.metadata_value("high_watermark"), Some("0"));
    let member = |member_id: &str, member_epoch, commit_sequence| GroupMember {
        member_id: member_id.into(),
        member_epoch,
        commit_sequence,
    };
    let as_member = |member| CommitRequest { member: Some(member), ..commit("g", vec![good()]) };
    let answer = api.broker.commit(as_member(member("m", 1, None))).await;
    refused(answer, Code::FailedPrecondition, ErrorReason::UnknownMember);
    for bad in [member("", 1, None), member("a/b", 1, None), member("m", -1, None), member("m", 1, Some(-1))]
    {
        refused(api.broker.commit(as_member(bad)).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    assert_eq!(api.committed("g", "t", 0).await, Some(1), "a refused commit changes nothing");
    api.broker.commit(commit("g", vec![metadata(4_096)])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_commit_wins_and_survives() {
    let (mut broker, mut api) = broker_with_records(5).await;
    let with_text =
        OffsetCommit { leader_epoch: Some(1), metadata: Some("here".into()), ..offset("t", 0, 3) };
    api.broker.commit(commit("g", vec![with_text, offset("t", 1, 0)])).await.unwrap();
    api.commit("other", "t", 0, 5).await.unwrap();
    let ask = |group: &str| GetCommittedRequest { group: group.to_owned(), partitions: vec![] };
    let all = api.broker.get_committed(ask("g")).await.unwrap().into_inner().offsets;
    let numbers: Vec<_> = all.iter().map(|o| (o.topic.as_str(), o.partition, o.offset)).collect();
    assert_eq!(numbers, [("t", Some(0), Some(3)), ("t", Some(1), Some(0))]);
    assert_eq!((all[0].metadata.as_str(), all[0].leader_epoch), ("here", Some(1)));
    assert!(all[0].commit_time_ms.is_some_and(|time| time > 1_600_000_000_000));
    // A rewind is accepted; of two positions for one partition the later counts.
    api.commit("g", "t", 0, 1).await.unwrap();
    assert_eq!(api.committed("g", "t", 0).await, Some(1));
    api.broker.commit(commit("g", vec![offset("t", 0, 4), offset("t", 0, 2)])).await.unwrap();
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    assert_eq!(api.committed("g", "t", 0).await, Some(2));
    assert_eq!(api.committed("other", "t", 0).await, Some(5));
    assert_eq!(api.committed("nobody", "t", 0).await, None);
    refused(api.broker.get_committed(ask("nobody")).await, Code::NotFound, ErrorReason::GroupNotFound);
    refused(api.broker.get_committed(ask("a/b")).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let unknown = GetCommittedRequest {
        group: "g".into(),
        partitions: vec![TopicPartition { topic: "x".into(), partition: 0 }],
    };
    refused(api.broker.get_committed(unknown).await, Code::NotFound, ErrorReason::TopicNotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_topic_takes_its_commits_along() {
    let (mut broker, mut api) = broker_with_records(3).await;
    api.create("kept", 1).await;
    api.commit("g", "t", 0, 2).await.unwrap();
    api.commit("g", "kept", 0, 0).await.unwrap();
    api.admin.delete_topic(DeleteTopicRequest { topic: "t".into(), ..Default::default() }).await.unwrap();
    api.create("t", 2).await;
    assert_eq!(api.committed("g", "t", 0).await, None);
    assert_eq!(api.committed("g", "kept", 0).await, Some(0));
    api.put("t", 0, "new").await;
    api.commit("g", "t", 0, 1).await.unwrap();
    broker.restart();
    assert_eq!(broker.api().await.committed("g", "t", 0).await, Some(1));
}

async fn describe(api: &mut Api, group: &str) -> Vec<GroupPartition> {
    let request = DescribeGroupRequest { group: group.to_owned(), ..Default::default() };
    api.admin.describe_group(request).await.unwrap().into_inner().partitions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_of_a_group_is_told() {
    let (_broker, mut api) = broker_with_records(10).await;
    api.broker.commit(commit("g", vec![offset("t", 0, 4), offset("t", 1, 0)])).await.unwrap();
    let partitions = describe(&mut api, "g").await;
    let [behind, done] = partitions.as_slice() else { panic!("{partitions:?}") };
    assert_eq!(
        (behind.partition, behind.committed_offset, behind.end_offset, behind.lag),
        (Some(0), Some(4), Some(10), Some(6))
    );
    let age = behind.lag_time.as_ref().expect("unread records have an age");
    assert!(age.seconds >= 0 && age.seconds < 60, "{age:?}");
    assert!(behind.retention_used.is_some_and(|share| (0.0..0.01).contains(&share)), "{behind:?}");
    assert_eq!((done.partition, done.lag), (Some(1), Some(0)));
    assert_eq!(done.lag_time.as_ref().map(|age| (age.seconds, age.nanos)), Some((0, 0)));
    let unknown = DescribeGroupRequest { group: "x".into(), ..Default::default() };
    refused(api.admin.describe_group(unknown).await, Code::NotFound, ErrorReason::GroupNotFound);
    let bad = DescribeGroupRequest { group: "g".into(), page_size: -1, ..Default::default() };
    refused(api.admin.describe_group(bad).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let bad = DescribeGroupRequest { group: "g".into(), page_token: "x".into(), ..Default::default() };
    refused(api.admin.describe_group(bad).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let request = DescribeGroupRequest { group: "g".into(), page_size: 1, page_token: token };
        let page = api.admin.describe_group(request).await.unwrap().into_inner();
        seen.extend(page.partitions.iter().map(|partition| partition.partition.unwrap()));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_listed_and_deleted() {
    let (mut broker, mut api) = broker_with_records(2).await;
    for n in 0..5 {
        api.commit(&format!("g{n}"), "t", 0, 1).await.unwrap();
    }
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let request = ListGroupsRequest { page_size: 2, page_token: token, prefix: "g".into() };
        let page = api.admin.list_groups(request).await.unwrap().into_inner();
        names.extend(page.groups.into_iter().map(|group| group.group));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["g0", "g1", "g2", "g3", "g4"]);
    for request in [
        ListGroupsRequest { page_size: -1, ..Default::default() },
        ListGroupsRequest { page_token: "bad".into(), ..Default::default() },
    ] {
        refused(api.admin.list_groups(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let deletion = |group: &str, validate_only| DeleteGroupRequest { group: group.to_owned(), validate_only };
    api.admin.delete_group(deletion("g0", true)).await.unwrap();
    assert_eq!(api.committed("g0", "t", 0).await, Some(1));
    api.admin.delete_group(deletion("g0", false)).await.unwrap();
    refused(api.admin.delete_group(deletion("g0", false)).await, Code::NotFound, ErrorReason::GroupNotFound);
    refused(
        api.admin.delete_group(deletion("", false)).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
    broker.restart();
    let mut api = broker.api().await;
    assert_eq!(api.committed("g0", "t", 0).await, None);
    assert_eq!(api.committed("g1", "t", 0).await, Some(1));
    api.commit("g0", "t", 0, 2).await.unwrap();
    assert_eq!(api.committed("g0", "t", 0).await, Some(2));
}

fn reset(topic: &str, target: Target) -> ResetOffsetsRequest {
    ResetOffsetsRequest {
        group: "g".into(),
        topic: topic.to_owned(),
        target: Some(target),
        ..Default::default()
    }
}

/// Resets and gives, for each partition: number, before, after.
async fn moved(api: &mut Api, request: ResetOffsetsRequest) -> Vec<(i32, Option<i64>, i64)> {
    let answer = api.admin.reset_offsets(request).await.unwrap().into_inner();
    answer.offsets.iter().map(|o| (o.partition.unwrap(), o.before_offset, o.after_offset.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_can_be_reset_to_every_target() {
    let (_broker, mut api) = broker_with_records(10).await;
    let deletion = DeleteRecordsRequest {
        topic: "t".into(),
        partitions: vec![RecordDeletion { partition: 0, before_offset: 2 }],
        validate_only: false,
    };
    api.admin.delete_records(deletion).await.unwrap();
    api.commit("g", "t", 0, 5).await.unwrap();
    let earliest = Target::Start(StartPosition::Earliest as i32);
    let latest = Target::Start(StartPosition::Latest as i32);
    // Without a topic: what the group has.
    let only_check = ResetOffsetsRequest { validate_only: true, ..reset("", earliest) };
    assert_eq!(moved(&mut api, only_check).await, [(0, Some(5), 2)]);
    assert_eq!(api.committed("g", "t", 0).await, Some(5));
    assert_eq!(moved(&mut api, reset("", earliest)).await, [(0, Some(5), 2)]);
    assert_eq!(moved(&mut api, reset("", latest)).await, [(0, Some(2), 10)]);
    assert_eq!(moved(&mut api, reset("", Target::ShiftBy(-3))).await, [(0, Some(10), 7)]);
    assert_eq!(moved(&mut api, reset("", Target::ShiftBy(1))).await, [(0, Some(7), 8)]);
    assert_eq!(moved(&mut api, reset("", Target::ShiftBy(i64::MAX))).await, [(0, Some(8), 10)]);
    assert_eq!(moved(&mut api, reset("", Target::ShiftBy(i64::MIN))).await, [(0, Some(10), 2)]);
    // Where nothing is committed there is nothing to shift.
    assert_eq!(moved(&mut api, reset("t", Target::ShiftBy(1))).await, [(0, Some(2), 3)]);
    let one = |target| ResetOffsetsRequest { partitions: vec![0], ..reset("t", target) };
    assert_eq!(moved(&mut api, one(Target::Offset(6))).await, [(0, Some(3), 6)]);
    assert_eq!(
        moved(&mut api, one(Target::Offset(0))).await,
        [(0, Some(6), 2)],
        "below the start it becomes the start"
    );
    let time = api.fetch("t", 0, 4).await.unwrap().records[0].append_time_ms.unwrap();
    let found = moved(&mut api, one(Target::AppendTimeMs(time))).await[0].2;
    let there = api.fetch("t", 0, found).await.unwrap().records[0].append_time_ms.unwrap();
    assert_eq!(there, time, "the first record of that time");
    assert_eq!(moved(&mut api, one(Target::AppendTimeMs(i64::MAX / 2))).await[0].2, 10);
    let hour = Target::Duration(prost_types::Duration { seconds: 3_600, nanos: 0 });
    assert_eq!(moved(&mut api, one(hour)).await[0].2, 2);
    let now = Target::Duration(prost_types::Duration { seconds: 0, nanos: 0 });
    assert!(moved(&mut api, one(now)).await[0].2 >= 9);
    // All partitions of a topic, also those without a position.
    let all = moved(&mut api, reset("t", latest)).await;
    assert_eq!(all.iter().map(|m| (m.0, m.2)).collect::<Vec<_>>(), [(0, 10), (1, 0)]);
    // A group need not exist where the topic is named.
    let new = ResetOffsetsRequest { group: "new".into(), ..one(Target::Offset(5)) };
    assert_eq!(moved(&mut api, new).await, [(0, None, 5)]);
    assert_eq!(api.committed("new", "t", 0).await, Some(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_resets_are_refused_whole() {
    let (_broker, mut api) = broker_with_records(3).await;
    api.commit("g", "t", 0, 2).await.unwrap();
    let earliest = || Target::Start(StartPosition::Earliest as i32);
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let invalid = [
        ResetOffsetsRequest { target: None, ..reset("t", earliest()) },
        ResetOffsetsRequest { group: "a/b".into(), ..reset("t", earliest()) },
        ResetOffsetsRequest { group: String::new(), ..reset("t", earliest()) },
        ResetOffsetsRequest { partitions: vec![0], ..reset("", earliest()) },
        ResetOffsetsRequest { partitions: vec![-1], ..reset("t", earliest()) },
        reset("t", Target::Start(0)),
        reset("t", Target::Start(9)),
        reset("t", Target::Offset(-1)),
        reset("", Target::Offset(1)),
        reset("t", Target::AppendTimeMs(-1)),
        reset("t", Target::Duration(negative)),
    ];
    for request in invalid {
        let what = format!("{request:?}");
        let answer = api.admin.reset_offsets(request).await;
        assert!(answer.is_err(), "{what} was accepted");
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let unknown = ResetOffsetsRequest { group: "x".into(), ..reset("", earliest()) };
    refused(api.admin.reset_offsets(unknown).await, Code::NotFound, ErrorReason::GroupNotFound);
    refused(
        api.admin.reset_offsets(reset("x", earliest())).await,
        Code::NotFound,
        ErrorReason::TopicNotFound,
    );
    let missing = ResetOffsetsRequest { partitions: vec![2], ..reset("t", earliest()) };
    refused(api.admin.reset_offsets(missing).await, Code::NotFound, ErrorReason::PartitionNotFound);
    let above = ResetOffsetsRequest { partitions: vec![0], ..reset("t", Target::Offset(4)) };
    refused(api.admin.reset_offsets(above).await, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    assert_eq!(api.committed("g", "t", 0).await, Some(2));
}
