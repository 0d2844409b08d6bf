//! Loss of everything unsynced: what was answered stays.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{config, copy_dir, create, register};
use wharf_controller::{Controller, NoTransport, SyncMode};

#[tokio::test]
async fn what_was_answered_survives_a_power_loss() {
    let mut dir = tempfile::tempdir().unwrap();
    let mut made: Vec<(wharf_types::TopicId, String)> = Vec::new();
    let mut next_id = wharf_metadata::PRODUCER_ID_FIRST;
    for round in 0..8_u8 {
        let mut config = config(dir.path());
        config.sync_mode = SyncMode::PowerLossTest;
        config.compact_after_entries = 25;
        let controller = Controller::open(config, NoTransport).await.unwrap();
        let image = controller.image();
        for (id, name) in &made {
            assert_eq!(image.topic_by_name(name).map(|topic| topic.id), Some(*id), "round {round}");
        }
        register(&controller, round, None).await;
        for number in 0..7 {
            let name = format!("r{round}-{number}");
            let topic = controller.create_topic(create(&name, 2)).await.unwrap().topic;
            made.push((topic.id, name));
            let ids = controller.allocate_producer_ids(1_000).await.unwrap();
            assert!(ids.start >= next_id, "{ids:?} was handed out before {next_id}");
            next_id = ids.end;
        }
        // What the process holds in memory is not in the copy: this is the power loss.
        let after = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), after.path());
        controller.shutdown().await;
        dir = after;
    }
    assert_eq!(made.len(), 56);
}
