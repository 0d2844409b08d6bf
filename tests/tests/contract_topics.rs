//! Topics: create, look at, change, delete, and what is refused.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tonic::Code;
use wharf_proto::v1::{
    CreateTopicRequest, DeleteRecordsRequest, DeleteTopicRequest, ErrorReason, GetTopicRequest,
    ListTopicsRequest, RecordDeletion, SkipDamagedRequest, UpdateTopicRequest,
};
use wharf_tests::api::{Api, keyed, record, refused, settings};
use wharf_tests::broker::Broker;

fn creation(topic: &str) -> CreateTopicRequest {
    CreateTopicRequest { topic: topic.to_owned(), ..Default::default() }
}

fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// 32 hexadecimal digits in lower case, with or without hyphens.
fn is_uuid(text: &str) -> bool {
    let digits = text.replace('-', "");
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

async fn topic_names(api: &mut Api) -> Vec<String> {
    let listed = api.admin.list_topics(ListTopicsRequest::default()).await.unwrap().into_inner();
    listed.topics.into_iter().map(|topic| topic.topic).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_creations_are_refused() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    let long = "x".repeat(250);
    for name in ["", "/", "a/b", "..", ".", "__x", "__offsets", "ö", "a b", "a\nb", long.as_str()] {
        let answer = api.admin.create_topic(creation(name)).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidTopicName);
    }
    let bad_config = [
        ("nope", "1"),
        ("", ""),
        ("Retention.ms", "1"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "1d"),
        ("retention.ms", "99999999999999999999"),
        ("retention.bytes", "x"),
        ("segment.bytes", "0"),
        ("segment.bytes", "-1"),
        ("segment.ms", "0"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("compression.type", "gzip"),
        ("compression.type", "snappy"),
        ("compression.type", "brotli"),
        ("flush.policy", "never"),
        ("flush.interval.ms", "-5"),
        ("max.message.bytes", "2621441"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "maybe"),
        ("delete.retention.ms", "-1"),
        ("min.compaction.lag.ms", "x"),
        ("retain.for.groups", "a/b"),
    ];
    for (name, value) in bad_config {
        let request = CreateTopicRequest { config: config(&[(name, value)]), ..creation("t") };
        let answer = api.admin.create_topic(request).await;
        let error = refused(answer, Code::InvalidArgument, ErrorReason::InvalidConfig);
        assert!(error.message.contains(name), "{name}={value}: {error}");
    }
    let invalid = [
        CreateTopicRequest { partitions: -1, ..creation("t") },
        CreateTopicRequest { partitions: i32::MAX, ..creation("t") },
        CreateTopicRequest { replication_factor: -1, ..creation("t") },
        CreateTopicRequest { replication_factor: 2, ..creation("t") },
    ];
    for request in invalid {
        let answer = api.admin.create_topic(request).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    assert_eq!(topic_names(&mut api).await, [""; 0]);
    api.create("t", 1).await;
    let again = api.admin.create_topic(creation("t")).await;
    refused(again, Code::AlreadyExists, ErrorReason::TopicAlreadyExists);
    api.put("t", 0, "still served").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_topic_has_the_documented_defaults() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    let request = CreateTopicRequest { config: config(&[("retention.ms", "604800000")]), ..creation("t") };
    let created = api.admin.create_topic(request).await.unwrap().into_inner();
    let topic = created.topic.unwrap();
    assert_eq!((topic.topic.as_str(), topic.partition_count, topic.replication_factor), ("t", 1, 1));
    assert!(!topic.internal);
    assert!(is_uuid(&topic.topic_id), "{topic:?}");
    let shown =
        api.admin.get_topic(GetTopicRequest { topic: "t".into(), ..Default::default() }).await.unwrap();
    let shown = shown.into_inner();
    assert_eq!(shown.config, created.config);
    assert_eq!(shown.topic.unwrap(), topic);
    let settings = settings(&shown.config);
    let defaults = [
        ("cleanup.policy", "delete"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "-1"),
        ("segment.bytes", "1073741824"),
        ("segment.ms", "604800000"),
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "false"),
        ("unclean.wait.ms", "30000"),
        ("max.message.bytes", "1048576"),
        ("compression.type", "none"),
        ("flush.policy", "ack"),
        ("flush.interval.ms", "1000"),
        ("delete.retention.ms", "86400000"),
        ("min.compaction.lag.ms", "0"),
    ];
    for (name, value) in defaults {
        let is_default = name != "retention.ms";
        assert_eq!(settings.get(name), Some(&(value, is_default)), "{name}");
    }
    let partition = &shown.partitions[0];
    assert_eq!(
        (partition.partition, partition.log_start_offset, partition.high_watermark),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!((partition.replicas.len(), partition.isr.len()), (1, 1));
    assert_eq!(partition.leader, Some(partition.replicas[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validation_alone_changes_nothing() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    let request = CreateTopicRequest { validate_only: true, partitions: 7, ..creation("t") };
    let answer = api.admin.create_topic(request).await.unwrap().into_inner().topic.unwrap();
    assert_eq!((answer.partition_count, answer.topic_id.as_str()), (7, ""));
    assert_eq!(topic_names(&mut api).await, [""; 0]);
    let bad = CreateTopicRequest { validate_only: true, config: config(&[("x", "y")]), ..creation("t") };
    refused(api.admin.create_topic(bad).await, Code::InvalidArgument, ErrorReason::InvalidConfig);
    api.create("t", 2).await;
    api.put("t", 0, "kept").await;
    let twice = CreateTopicRequest { validate_only: true, ..creation("t") };
    refused(api.admin.create_topic(twice).await, Code::AlreadyExists, ErrorReason::TopicAlreadyExists);
    let update = UpdateTopicRequest {
        topic: "t".into(),
        partitions: Some(5),
        set_config: config(&[("retention.ms", "1000")]),
        validate_only: true,
        ..Default::default()
    };
    let answer = api.admin.update_topic(update).await.unwrap().into_inner();
    assert_eq!(answer.topic.unwrap().partition_count, 5);
    let deletion = DeleteTopicRequest { topic: "t".into(), validate_only: true, ..Default::default() };
    api.admin.delete_topic(deletion).await.unwrap();
    let records = DeleteRecordsRequest {
        topic: "t".into(),
        partitions: vec![RecordDeletion { partition: 0, before_offset: 1 }],
        validate_only: true,
    };
    api.admin.delete_records(records).await.unwrap();
    let shown =
        api.admin.get_topic(GetTopicRequest { topic: "t".into(), ..Default::default() }).await.unwrap();
    let shown = shown.into_inner();
    assert_eq!(shown.partitions.len(), 2);
    assert_eq!(settings(&shown.config)["retention.ms"], ("604800000", true));
    assert_eq!(api.read_all("t", 0).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    for n in 0..7 {
        api.create(&format!("page-{n}"), 1).await;
    }
    api.create("other", 5).await;
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let request = ListTopicsRequest {
            page_size: 3,
            page_token: token,
            prefix: "page-".into(),
            include_internal: false,
        };
        let page = api.admin.list_topics(request).await.unwrap().into_inner();
        assert!(page.topics.len() <= 3);
        names.extend(page.topics.into_iter().map(|topic| topic.topic));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, (0..7).map(|n| format!("page-{n}")).collect::<Vec<_>>());
    let mut partitions = Vec::new();
    let mut token = String::new();
    loop {
        let request = GetTopicRequest { topic: "other".into(), page_size: 2, page_token: token };
        let page = api.admin.get_topic(request).await.unwrap().into_inner();
        partitions.extend(page.partitions.iter().map(|partition| partition.partition.unwrap()));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(partitions, [0, 1, 2, 3, 4]);
    for bad in ["x", "\u{0}", "topics", "groups:a", "99999999999999999999999"] {
        let request = ListTopicsRequest { page_token: bad.into(), ..Default::default() };
        refused(api.admin.list_topics(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
        let request = GetTopicRequest { topic: "other".into(), page_token: bad.into(), ..Default::default() };
        refused(api.admin.get_topic(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let request = ListTopicsRequest { page_size: -1, ..Default::default() };
    refused(api.admin.list_topics(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let request = GetTopicRequest { topic: "other".into(), page_size: -1, ..Default::default() };
    refused(api.admin.get_topic(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    // A token of another call with other arguments is no token of this one.
    let request = ListTopicsRequest { page_size: 3, prefix: "page-".into(), ..Default::default() };
    let foreign = api.admin.list_topics(request).await.unwrap().into_inner().next_page_token;
    let request = ListTopicsRequest { page_token: foreign, prefix: "o".into(), ..Default::default() };
    refused(api.admin.list_topics(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_can_be_changed_and_survive_a_restart() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create_with("t", 1, &[("retention.ms", "1000000"), ("compression.type", "lz4")]).await;
    let update = UpdateTopicRequest {
        topic: "t".into(),
        set_config: config(&[("max.message.bytes", "1024")]),
        unset_config: vec!["retention.ms".into()],
        ..Default::default()
    };
    api.admin.update_topic(update).await.unwrap();
    broker.restart();
    let mut api = broker.api().await;
    let shown =
        api.admin.get_topic(GetTopicRequest { topic: "t".into(), ..Default::default() }).await.unwrap();
    let shown = shown.into_inner();
    let settings = settings(&shown.config);
    assert_eq!(settings["max.message.bytes"], ("1024", false));
    assert_eq!(settings["retention.ms"], ("604800000", true));
    assert_eq!(settings["compression.type"], ("lz4", false));
    let answer = api.produce("t", None, vec![record("x".repeat(961))]).await;
    refused(answer, Code::InvalidArgument, ErrorReason::RecordTooLarge);
    api.put("t", 0, "x".repeat(960)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_changes_are_refused_whole() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 3).await;
    let update = |topic: &str| UpdateTopicRequest { topic: topic.to_owned(), ..Default::default() };
    let good = config(&[("retention.ms", "1000")]);
    let invalid_config = [
        UpdateTopicRequest { set_config: config(&[("nope", "1"), ("retention.ms", "1000")]), ..update("t") },
        UpdateTopicRequest { set_config: good.clone(), unset_config: vec!["nope".into()], ..update("t") },
        UpdateTopicRequest {
            set_config: good.clone(),
            unset_config: vec!["retention.ms".into()],
            ..update("t")
        },
        UpdateTopicRequest { set_config: config(&[("min.insync.replicas", "3")]), ..update("t") },
    ];
    for request in invalid_config {
        refused(api.admin.update_topic(request).await, Code::InvalidArgument, ErrorReason::InvalidConfig);
    }
    for partitions in [0, -1, 2, i32::MAX] {
        let request =
            UpdateTopicRequest { partitions: Some(partitions), set_config: good.clone(), ..update("t") };
        refused(api.admin.update_topic(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    refused(api.admin.update_topic(update("x")).await, Code::NotFound, ErrorReason::TopicNotFound);
    refused(
        api.admin.update_topic(update("__offsets")).await,
        Code::InvalidArgument,
        ErrorReason::InvalidTopicName,
    );
    let shown =
        api.admin.get_topic(GetTopicRequest { topic: "t".into(), ..Default::default() }).await.unwrap();
    assert_eq!(settings(&shown.into_inner().config)["retention.ms"], ("604800000", true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_with_keys_grows_only_on_request() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create("keyed", 2).await;
    api.create("keyless", 2).await;
    api.produce("keyed", None, vec![keyed("k", "v")]).await.unwrap();
    api.produce("keyless", None, vec![record("v")]).await.unwrap();
    broker.restart();
    let mut api = broker.api().await;
    let grow = |topic: &str, allow_key_remap| UpdateTopicRequest {
        topic: topic.to_owned(),
        partitions: Some(4),
        allow_key_remap,
        ..Default::default()
    };
    let refusal = api.admin.update_topic(grow("keyed", false)).await;
    refused(refusal, Code::FailedPrecondition, ErrorReason::KeyRemapNotAllowed);
    api.admin.update_topic(grow("keyless", false)).await.unwrap();
    api.admin.update_topic(grow("keyed", true)).await.unwrap();
    for topic in ["keyed", "keyless"] {
        api.put(topic, 3, "in a new partition").await;
        assert_eq!(api.read_all(topic, 3).await.len(), 1);
    }
    broker.restart();
    let mut api = broker.api().await;
    assert_eq!(api.read_all("keyed", 3).await.len(), 1);
    assert_eq!(api.records_written("keyed").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_created_again_starts_empty() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    let first = api.create("t", 2).await;
    api.put("t", 0, "old").await;
    let missing =
        api.admin.delete_topic(DeleteTopicRequest { topic: "x".into(), ..Default::default() }).await;
    refused(missing, Code::NotFound, ErrorReason::TopicNotFound);
    let internal =
        api.admin.delete_topic(DeleteTopicRequest { topic: "__offsets".into(), ..Default::default() }).await;
    refused(internal, Code::InvalidArgument, ErrorReason::InvalidTopicName);
    for purge in [false, true] {
        let deletion = DeleteTopicRequest { topic: "t".into(), purge, validate_only: false };
        let deleted = api.admin.delete_topic(deletion).await.unwrap().into_inner();
        assert!(is_uuid(&deleted.topic_id), "{deleted:?}");
        refused(api.fetch("t", 0, 0).await, Code::NotFound, ErrorReason::TopicNotFound);
        refused(api.produce("t", None, vec![record("v")]).await, Code::NotFound, ErrorReason::TopicNotFound);
        let again = api.create("t", 2).await;
        assert_ne!(again.topic_id, first.topic_id);
        assert_eq!(api.high_watermark("t", 0).await, 0);
        api.put("t", 0, "new").await;
        broker.restart();
        api = broker.api().await;
        let read = api.read_all("t", 0).await;
        assert_eq!(
            read.iter().map(|record| record.value.as_deref()).collect::<Vec<_>>(),
            [Some(&b"new"[..])]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_can_be_deleted_up_to_the_end() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 2).await;
    for n in 0..6 {
        api.put("t", 0, format!("v{n}")).await;
    }
    let deletion = |partitions: &[(i32, i64)]| DeleteRecordsRequest {
        topic: "t".into(),
        partitions: partitions
            .iter()
            .map(|&(partition, before_offset)| RecordDeletion { partition, before_offset })
            .collect(),
        validate_only: false,
    };
    let above = api.admin.delete_records(deletion(&[(0, 2), (1, 1)])).await;
    refused(above, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    assert_eq!(api.read_all("t", 0).await.len(), 6, "one bad partition refuses all");
    for bad in [&[][..], &[(0, -1)][..], &[(-1, 0)][..], &[(0, 1), (0, 2)][..]] {
        let answer = api.admin.delete_records(deletion(bad)).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    refused(
        api.admin.delete_records(deletion(&[(2, 0)])).await,
        Code::NotFound,
        ErrorReason::PartitionNotFound,
    );
    let done = api.admin.delete_records(deletion(&[(1, 0), (0, 4)])).await.unwrap().into_inner();
    let starts: Vec<_> = done.partitions.iter().map(|p| (p.partition, p.log_start_offset)).collect();
    assert_eq!(starts, [(Some(1), Some(0)), (Some(0), Some(4))]);
    // Below the start nothing changes.
    let again = api.admin.delete_records(deletion(&[(0, 1)])).await.unwrap().into_inner();
    assert_eq!(again.partitions[0].log_start_offset, Some(4));
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    assert_eq!(api.read_all("t", 0).await[0].offset, Some(4));
    let all = api.admin.delete_records(deletion(&[(0, 6)])).await.unwrap().into_inner();
    assert_eq!(all.partitions[0].log_start_offset, Some(6));
    assert_eq!(api.put("t", 0, "next").await, 6);
    broker.restart();
    assert_eq!(broker.api().await.read_all("t", 0).await[0].offset, Some(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_damage_can_be_skipped() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    for n in 0..4 {
        api.put("t", 0, format!("v{n}")).await;
    }
    let skip = |from_offset, to_offset| SkipDamagedRequest {
        topic: "t".into(),
        partition: 0,
        from_offset,
        to_offset,
        validate_only: false,
    };
    for (from, to) in [(1, 2), (2, 1), (-1, 2), (1, 1)] {
        let answer = api.admin.skip_damaged(skip(from, to)).await;
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    assert_eq!(api.read_all("t", 0).await.len(), 4);
}
