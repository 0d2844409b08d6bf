//! One voter: commands, restarts, refusals.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::time::Duration;

use common::{config, create, names, open, register, registration};
use wharf_controller::{
    AlterTopicRequest, Bootstrap, CommandError, Controller, CreateTopicRequest, DeleteTopicRequest,
    NoTransport, OpenError, Validation,
};
use wharf_metadata::ApplyError;
use wharf_types::{BrokerEpoch, ConfigError, FlushPolicy, NodeId, PartitionEpoch};

#[tokio::test]
async fn topics_survive_a_restart_under_the_same_cluster_id() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let created = controller.create_topic(create("clicks", 3)).await.unwrap().topic;
    assert_eq!((created.partition_count(), created.replication_factor, created.min_isr), (3, 1, 1));
    let cluster = controller.image().cluster_id().unwrap();
    controller.shutdown().await;

    let controller = open(dir.path()).await;
    let image = controller.image();
    assert_eq!(image.cluster_id(), Some(cluster));
    assert_eq!(*image.topic_by_name("clicks").unwrap(), created);
    assert_eq!(image.feature(wharf_metadata::METADATA_VERSION_FEATURE), wharf_metadata::METADATA_VERSION);
    controller.shutdown().await;
}

#[tokio::test]
async fn a_taken_name_is_refused_and_free_again_after_deletion_under_another_id() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let first = controller.create_topic(create("a", 1)).await.unwrap().topic;
    let again = controller.create_topic(create("a", 1)).await;
    assert!(matches!(again, Err(CommandError::TopicExists { topic_id, .. }) if topic_id == first.id));
    let deleted = DeleteTopicRequest { name: "a".into(), purge: true, ..Default::default() };
    controller.delete_topic(deleted.clone()).await.unwrap();
    assert!(matches!(controller.delete_topic(deleted).await, Err(CommandError::TopicNotFound { .. })));
    let second = controller.create_topic(create("a", 1)).await.unwrap().topic;
    assert_ne!(first.id, second.id);
    let image = controller.image();
    assert!(image.deleted_topic(first.id).unwrap().purge);
    controller.shutdown().await;
}

#[tokio::test]
async fn simultaneous_creations_of_one_name_make_one_topic() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let controller = controller.clone();
            tokio::spawn(async move { controller.create_topic(create("same", 1)).await })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => made += 1,
            Err(error) => assert!(matches!(error, CommandError::TopicExists { .. }), "{error}"),
        }
    }
    assert_eq!((made, controller.image().topic_count()), (1, 1));
    controller.shutdown().await;
}

#[tokio::test]
async fn bad_requests_are_refused_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    let without_nodes = controller.create_topic(create("a", 1)).await;
    assert!(matches!(without_nodes, Err(CommandError::Placement(_))));
    register(&controller, 1, None).await;
    let with = |name: &str, partitions, replication_factor, config: &[(&str, &str)]| CreateTopicRequest {
        name: name.to_owned(),
        partitions,
        replication_factor,
        config: config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        validation: Validation::Execute,
    };
    let cases = [
        (with("__x", 1, 0, &[]), "reserved"),
        (with("a/b", 1, 0, &[]), "character"),
        (with("a", 16_385, 0, &[]), "partitions are not possible"),
        (with("a", 1, 2, &[]), "there are 1"),
        (with("a", 1, 16, &[]), "replication factor 16"),
        (with("a", 1, 0, &[("retention", "1")]), "unknown topic config"),
        (with("a", 1, 0, &[("min.insync.replicas", "2")]), "more than the replication factor"),
    ];
    for (request, text) in cases {
        let error = controller.create_topic(request).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(controller.image().topic_count(), 0);
    controller.shutdown().await;
}

#[tokio::test]
async fn validation_alone_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let index = controller.image().applied_index();
    let request = CreateTopicRequest { validation: Validation::ValidateOnly, ..create("a", 4) };
    assert_eq!(controller.create_topic(request).await.unwrap().topic.partition_count(), 4);
    assert_eq!((controller.image().topic_count(), controller.image().applied_index()), (0, index));
    controller.shutdown().await;
}

#[tokio::test]
async fn a_topic_grows_and_changes_its_rules() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    controller.create_topic(create("a", 2)).await.unwrap();
    let grow = AlterTopicRequest {
        name: "a".into(),
        partitions: Some(5),
        has_keyed_records: true,
        ..AlterTopicRequest::default()
    };
    let refused = controller.alter_topic(grow.clone()).await;
    assert!(matches!(refused, Err(CommandError::KeyRemapNotAllowed { partitions: 5, .. })));
    let allowed = AlterTopicRequest {
        allow_key_remap: true,
        set: vec![("flush.policy".into(), "interval".into())],
        ..grow
    };
    let topic = controller.alter_topic(allowed).await.unwrap().topic;
    assert_eq!(topic.partition_count(), 5);
    assert!(topic.partitions().iter().all(|partition| partition.durability == FlushPolicy::Interval));
    let epochs: Vec<u32> = topic.partitions().iter().map(|p| p.partition_epoch.value()).collect();
    assert_eq!(epochs, [1, 1, 0, 0, 0]);
    let shrink = AlterTopicRequest { name: "a".into(), partitions: Some(4), ..AlterTopicRequest::default() };
    let refused = controller.alter_topic(shrink).await;
    assert!(matches!(refused, Err(CommandError::InvalidPartitions { given: 4, min: 5, .. })));
    let set = vec![("min.insync.replicas".into(), "2".into())];
    let above = AlterTopicRequest { name: "a".into(), set, ..AlterTopicRequest::default() };
    let refused = controller.alter_topic(above).await;
    assert!(matches!(refused, Err(CommandError::Config(ConfigError::MinInsyncAboveReplicas { .. }))));
    controller.shutdown().await;
}

#[tokio::test]
async fn the_offsets_topic_is_made_once_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let name = wharf_types::limits::OFFSETS_TOPIC;
    let (a, b) = tokio::join!(controller.ensure_internal_topic(name), controller.ensure_internal_topic(name));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!((a.id, a.partition_count()), (b.id, 16));
    assert_eq!(a.config.retention_ms, None);
    let grow = AlterTopicRequest { name: name.into(), partitions: Some(17), ..AlterTopicRequest::default() };
    let refused = controller.alter_topic(grow).await;
    assert!(matches!(refused, Err(CommandError::Refused(ApplyError::InternalTopic { .. }))));
    let delete = DeleteTopicRequest { name: name.into(), ..DeleteTopicRequest::default() };
    let refused = controller.delete_topic(delete).await;
    assert!(matches!(refused, Err(CommandError::Refused(ApplyError::InternalTopic { .. }))));
    controller.shutdown().await;
}

#[tokio::test]
async fn producer_ids_are_never_handed_out_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = wharf_metadata::PRODUCER_ID_FIRST;
    for _ in 0..3 {
        let controller = open(dir.path()).await;
        for _ in 0..3 {
            let ids = controller.allocate_producer_ids(1_000).await.unwrap();
            assert_eq!(ids, next..next + 1_000);
            next = ids.end;
        }
        controller.shutdown().await;
    }
    let controller = open(dir.path()).await;
    for count in [0, 1 << 53, u64::MAX] {
        let refused = controller.allocate_producer_ids(count).await;
        assert!(matches!(refused, Err(CommandError::Refused(ApplyError::ProducerIds { .. }))), "{count}");
    }
    controller.shutdown().await;
}

#[tokio::test]
async fn registration_fences_the_older_incarnation_and_moves_epochs() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    let first = register(&controller, 1, None).await;
    assert_eq!(register(&controller, 1, None).await, first, "a retry changes nothing");
    controller.create_topic(create("a", 1)).await.unwrap();
    let second = register(&controller, 2, Some(first)).await;
    assert!(second > first);
    let partition = controller.image().topic_by_name("a").unwrap().partitions()[0].clone();
    assert_eq!((partition.leader, partition.leader_epoch.value()), (Some(NodeId::new(1)), 1));
    let stale = controller.controlled_stop(NodeId::new(1), first).await;
    assert!(matches!(stale, Err(CommandError::Refused(ApplyError::StaleBrokerEpoch { .. }))));
    controller.controlled_stop(NodeId::new(1), second).await.unwrap();
    let partition = controller.image().topic_by_name("a").unwrap().partitions()[0].clone();
    assert_eq!((partition.leader, partition.isr.len(), partition.elr.len()), (None, 0, 1));
    let third = register(&controller, 3, Some(second)).await;
    assert!(third > second);
    let partition = controller.image().topic_by_name("a").unwrap().partitions()[0].clone();
    assert_eq!((partition.leader, partition.leader_epoch.value()), (Some(NodeId::new(1)), 3));
    controller.shutdown().await;
}

#[tokio::test]
async fn another_log_dir_under_a_live_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let mut other = registration(2, None);
    other.log_dirs = vec![wharf_metadata::LogDirId::from_bytes([9; 16])];
    let refused = controller.register_storage(other).await;
    assert!(matches!(refused, Err(CommandError::Refused(ApplyError::NodeIdInUse { .. }))));
    controller.shutdown().await;
}

#[tokio::test]
async fn a_node_that_lost_its_log_dir_leads_nothing_until_an_operator_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    let first = register(&controller, 1, None).await;
    controller.create_topic(create("a", 1)).await.unwrap();
    controller.fence_node(NodeId::new(1), first).await.unwrap();
    let partition = || controller.image().topic_by_name("a").unwrap().partitions()[0].clone();
    assert_eq!((partition().leader, partition().elr.len()), (None, 1));
    // Nobody knows whether it will come with its directory or without.
    for incarnation in [2, 3] {
        let mut other = registration(incarnation, Some(first));
        other.log_dirs = vec![wharf_metadata::LogDirId::from_bytes([9; 16])];
        controller.register_storage(other).await.unwrap();
        assert_eq!(
            (partition().leader, partition().elr.len(), partition().last_known_elr.len()),
            (None, 0, 0)
        );
    }
    let stale = controller.elect_unclean(partition().id, PartitionEpoch::new(0), NodeId::new(1)).await;
    assert!(matches!(stale, Err(CommandError::Refused(ApplyError::StalePartitionEpoch { .. }))));
    controller.elect_unclean(partition().id, partition().partition_epoch, NodeId::new(1)).await.unwrap();
    assert_eq!((partition().leader, partition().loss_generation), (Some(NodeId::new(1)), 1));
    controller.shutdown().await;
}

#[tokio::test]
async fn a_sole_replica_leads_again_after_any_crash_and_loss_is_counted_where_it_is_possible() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    controller.create_topic(create("ack", 1)).await.unwrap();
    let mut lazy = create("lazy", 1);
    lazy.config = vec![("flush.policy".into(), "os".into())];
    controller.create_topic(lazy).await.unwrap();
    // (incarnation, boot id, io error) → loss generation of `lazy`.
    for (incarnation, boot, io_error, expected) in [
        (2, "boot", false, 0),
        (3, "boot", true, 1),
        (4, "other", false, 2),
        (5, "", false, 3),
        (6, "", false, 4),
    ] {
        let mut crashed = registration(incarnation, Some(BrokerEpoch::new(99_999)));
        crashed.boot_id = boot.into();
        crashed.io_error_recorded = io_error;
        controller.register_storage(crashed).await.unwrap();
        let image = controller.image();
        let partition = |name: &str| image.topic_by_name(name).unwrap().partitions()[0].clone();
        assert_eq!(partition("ack").leader, Some(NodeId::new(1)));
        assert_eq!(partition("ack").loss_generation, 0);
        assert_eq!(partition("ack").leader_epoch.value(), u32::from(incarnation) - 1);
        assert_eq!(
            (partition("lazy").leader, partition("lazy").loss_generation),
            (Some(NodeId::new(1)), expected)
        );
    }
    controller.shutdown().await;
}

#[tokio::test]
async fn the_log_is_compacted_and_opens_from_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = config(dir.path());
    small.compact_after_entries = 10;
    let controller = Controller::open(small, NoTransport).await.unwrap();
    register(&controller, 1, None).await;
    for number in 0..35 {
        controller.create_topic(create(&format!("t{number}"), 2)).await.unwrap();
    }
    let before = controller.image();
    controller.shutdown().await;
    let controller = open(dir.path()).await;
    let after = controller.image();
    assert_eq!(names(&after), names(&before));
    assert!(after.topics().zip(before.topics()).all(|(a, b)| a == b));
    controller.shutdown().await;
}

#[tokio::test]
async fn a_log_is_open_once_and_belongs_to_one_voter() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    let second = Controller::open(config(dir.path()), NoTransport).await;
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    controller.shutdown().await;
    assert!(controller.stopped().await.is_ok());
    assert_eq!(controller.allocate_producer_ids(1).await, Err(CommandError::Stopped));
    let mut other = config(dir.path());
    (other.node_id, other.voters) = (NodeId::new(2), vec![NodeId::new(2)]);
    let other = Controller::open(other, NoTransport).await;
    assert!(matches!(other, Err(OpenError::WrongNode { expected: 2, actual: 1, .. })), "{other:?}");
}

#[tokio::test]
async fn a_missing_log_is_no_first_start_where_data_exists() {
    let dir = tempfile::tempdir().unwrap();
    let mut refusing = config(dir.path());
    refusing.bootstrap = Bootstrap::Refuse;
    let opened = Controller::open(refusing, NoTransport).await;
    assert!(matches!(opened, Err(OpenError::Missing { .. })), "{opened:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_watch_sees_what_an_answered_command_did() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    let mut watch = controller.watch();
    register(&controller, 1, None).await;
    let seen =
        tokio::time::timeout(Duration::from_secs(10), watch.wait_for(|image| image.nodes().len() == 1));
    seen.await.unwrap().unwrap();
    controller.shutdown().await;
}
