//! `wharf recover metadata`: a new log from the partition folders.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{config, create, open, register, registration};
use wharf_controller::{
    Controller, Existing, NoTransport, OpenError, RecoverError, RecoveredMetadata, RecoveredPartition,
    recover_metadata,
};
use wharf_metadata::Image;
use wharf_types::NodeId;

/// What the partition folders of a storage node would say about this image.
fn found(image: &Image) -> RecoveredMetadata {
    let partition =
        |topic: &wharf_metadata::Topic, partition: &wharf_metadata::Partition| RecoveredPartition {
            id: partition.id,
            topic: topic.name.clone(),
            config: topic
                .config
                .overrides()
                .map(|(key, value)| (key.name().to_owned(), value.to_owned()))
                .collect(),
            replicas: partition.replicas.clone(),
            partition_epoch: partition.partition_epoch,
            leader_epoch: partition.leader_epoch,
            loss_generation: partition.loss_generation,
        };
    let of = |topic: &wharf_metadata::Topic| {
        topic.partitions().iter().map(|p| partition(topic, p)).collect::<Vec<_>>()
    };
    RecoveredMetadata {
        cluster_id: image.cluster_id(),
        partitions: image.topics().flat_map(|topic| of(topic)).collect(),
        highest_broker_epoch: image.node(NodeId::new(1)).unwrap().broker_epoch,
        highest_producer_id: Some(image.next_producer_id()),
    }
}

#[tokio::test]
async fn a_damaged_log_is_moved_aside_and_rebuilt_above_everything_found() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    let mut lazy = create("lazy", 2);
    lazy.config = vec![("flush.policy".into(), "os".into()), ("retention.ms".into(), "5000".into())];
    controller.create_topic(lazy).await.unwrap();
    controller.create_topic(create("clicks", 3)).await.unwrap();
    controller.ensure_internal_topic("__offsets").await.unwrap();
    controller.allocate_producer_ids(1_000).await.unwrap();
    let before = controller.image();
    controller.shutdown().await;
    let found = found(&before);

    let healthy = recover_metadata(dir.path(), NodeId::new(1), &found, Existing::Damaged);
    assert!(matches!(healthy, Err(RecoverError::NotDamaged { .. })), "{healthy:?}");
    std::fs::remove_file(dir.path().join("metadata/db/CURRENT")).unwrap();
    let opened = Controller::open(config(dir.path()), NoTransport).await;
    assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{opened:?}");

    let report = recover_metadata(dir.path(), NodeId::new(1), &found, Existing::Damaged).unwrap();
    assert_eq!((report.topics, report.partitions, report.notes.len()), (3, 21, 0));
    assert!(report.moved_to.unwrap().join("db").is_dir());
    assert!(!dir.path().join("metadata.probe").exists());

    let controller = open(dir.path()).await;
    let epoch = controller.register_storage(registration(9, None)).await.unwrap();
    assert!(epoch > found.highest_broker_epoch);
    let after = controller.image();
    assert_eq!(after.cluster_id(), before.cluster_id());
    for topic in before.topics() {
        let rebuilt = after.topic(topic.id).unwrap();
        assert_eq!((&rebuilt.name, &rebuilt.config), (&topic.name, &topic.config));
        for (old, new) in topic.partitions().iter().zip(rebuilt.partitions()) {
            assert_eq!(new.leader, Some(NodeId::new(1)));
            assert!(new.leader_epoch > old.leader_epoch && new.partition_epoch > old.partition_epoch);
            // Only where the log may lack what was acknowledged.
            let lossy = u32::from(topic.name.as_str() == "lazy");
            assert_eq!(new.loss_generation, old.loss_generation + lossy, "{}", topic.name);
        }
    }
    assert!(controller.allocate_producer_ids(1).await.unwrap().start > before.next_producer_id() + (1 << 20));
    controller.shutdown().await;
}

#[tokio::test]
async fn a_missing_log_is_rebuilt_too() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = RecoveredMetadata::default();
    let report = recover_metadata(dir.path(), NodeId::new(1), &nothing, Existing::Damaged).unwrap();
    assert_eq!((report.moved_to, report.topics), (None, 0));
    let controller = open(dir.path()).await;
    register(&controller, 1, None).await;
    controller.create_topic(create("a", 1)).await.unwrap();
    controller.shutdown().await;
    let report = recover_metadata(dir.path(), NodeId::new(1), &nothing, Existing::Any).unwrap();
    assert!(report.moved_to.is_some());
}
