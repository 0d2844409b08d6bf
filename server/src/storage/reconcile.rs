//! Makes the node's partitions those that the cluster image assigns to it.
//!
//! That a topic is missing from the image deletes nothing (T29): only a deletion that the image remembers moves a
//! partition's folder to the trash.

use std::path::Path;
use std::sync::Arc;

use wharf_log::data_dir::DataDirError;
use wharf_log::log::{Log, LogConfig};
use wharf_metadata::Image;
use wharf_types::{TopicId, TopicPartition};

use super::node::StorageNode;
use super::partition::{Partition, TopicSettings};

/// Follows the image until the node stops.
pub(super) async fn follow_image(node: Arc<StorageNode>) {
    let mut images = node.shared.controller.watch();
    loop {
        let image = Arc::clone(&images.borrow_and_update());
        reconcile(&node, &image).await;
        tokio::select! {
            biased;
            () = node.shared.stopping.cancelled() => return,
            changed = images.changed() => if changed.is_err() { return },
        }
    }
}

async fn reconcile(node: &Arc<StorageNode>, image: &Arc<Image>) {
    let me = node.shared.config.node_id;
    let mut opening = Vec::new();
    for assigned in image.partitions_of(me) {
        let Some(settings) = StorageNode::settings(image, assigned.id) else { continue };
        match node.partition(assigned.id) {
            Ok(partition) => follow(node, &partition, settings, image),
            Err(_) if node.unavailable.read().contains(&assigned.id) => {}
            Err(_) => {
                let id = assigned.id;
                let (node, image) = (Arc::clone(node), Arc::clone(image));
                opening.push(Arc::clone(&node).shared.io.run(move || open(&node, id, settings, &image)));
            }
        }
    }
    for opened in opening {
        // A job that panicked has said so.
        drop(opened.await);
    }
    remove_deleted(node, image).await;
}

/// Opens or creates a partition on an IO thread, and leads it if it is to be led here.
fn open(node: &Arc<StorageNode>, id: TopicPartition, settings: TopicSettings, image: &Image) {
    match open_log(node, id, &settings) {
        Ok(log) => {
            let partition = Partition::new(id, Arc::clone(&node.shared), log, settings.clone());
            node.insert(Arc::clone(&partition));
            follow(node, &partition, settings, image);
        }
        Err(error) => {
            tracing::error!(topic = %settings.name, partition = %id.partition, error = %error, "the partition cannot be opened; the others are served");
            node.unavailable.write().insert(id);
        }
    }
}

fn open_log(node: &StorageNode, id: TopicPartition, settings: &TopicSettings) -> anyhow::Result<Log> {
    let vfs = Arc::clone(&node.shared.vfs);
    let (dir, hint) = {
        let data_dir = node.data_dir.lock();
        (data_dir.partition_dir(id), data_dir.open_hint(id))
    };
    let config = LogConfig::from(&settings.config);
    let meta = super::meta::encode(id, settings, &[node.shared.config.node_id]);
    if !vfs.exists(&dir)? {
        return Ok(Log::create(vfs, &dir, id, config, &meta)?);
    }
    let (log, report) = Log::open(vfs, &dir, id, config, hint, node.shared.clock.now())?;
    if report.truncated_bytes > 0 {
        tracing::warn!(topic = %settings.name, partition = %id.partition, bytes = report.truncated_bytes, "an unfinished tail was cut off");
    }
    for range in report.damaged.iter().filter(|range| !range.skipped) {
        tracing::error!(topic = %settings.name, partition = %id.partition, from = %range.from, next_good = %range.next_good, "records are damaged; all outside of this range is served");
        node.shared.metrics.corruption_found();
    }
    Ok(log)
}

/// Takes over what the image says of a partition that is open.
fn follow(node: &StorageNode, partition: &Arc<Partition>, settings: TopicSettings, image: &Image) {
    let offsets = StorageNode::is_offsets(&settings);
    partition.update_settings(settings);
    let Some(assigned) = image.partition(partition.id()) else { return };
    if assigned.leader == Some(node.shared.config.node_id) {
        partition.take_office(assigned.leader_epoch);
        if offsets {
            node.coordinator.lead(Arc::clone(partition));
        }
    } else {
        partition.resign();
    }
}

async fn remove_deleted(node: &Arc<StorageNode>, image: &Image) {
    for deleted in image.deleted_topics() {
        if !node.discarded.write().insert(deleted.id) {
            continue;
        }
        node.unavailable.write().retain(|partition| partition.topic_id != deleted.id);
        let gone: Vec<Arc<Partition>> =
            node.partitions().into_iter().filter(|partition| partition.id().topic_id == deleted.id).collect();
        let mut folders: Vec<TopicPartition> = gone.iter().map(|partition| partition.id()).collect();
        for partition in gone {
            node.remove(partition.id());
            // Whether the last flush succeeds does not matter any more.
            drop(partition.close().await);
        }
        let of_topic = |partition: &&TopicPartition| partition.topic_id == deleted.id;
        folders.extend(node.data_dir.lock().partitions().iter().filter(of_topic));
        let had_folders = !folders.is_empty();
        let (id, purge, worker) = (deleted.id, deleted.purge, Arc::clone(node));
        let moved = node.shared.io.run(move || discard(&worker, id, folders, purge)).await;
        match moved {
            Ok(Ok(())) if !had_folders => {}
            Ok(Ok(())) => {
                node.coordinator.topic_deleted(id);
                tracing::info!(topic = %deleted.name, topic_id = %id, purge, "topic deleted");
            }
            // A job that panicked has said so.
            Err(_) => {}
            Ok(Err(error)) => {
                node.discarded.write().remove(&id);
                tracing::error!(topic = %deleted.name, error = %error, "the files of a deleted topic could not be moved to the trash");
            }
        }
    }
}

/// Moves the folders of a deleted topic to the trash, or removes them. One that is not there is no error.
fn discard(
    node: &StorageNode,
    topic_id: TopicId,
    folders: Vec<TopicPartition>,
    purge: bool,
) -> Result<(), DataDirError> {
    let mut data_dir = node.data_dir.lock();
    for folder in folders {
        data_dir.discard(folder, node.shared.clock.now())?;
    }
    if purge {
        let name = topic_id.to_string();
        let is_of_topic =
            |path: &Path| path.file_name().is_some_and(|file| file.to_string_lossy().contains(&name));
        for entry in data_dir.trash()?.iter().filter(|entry| is_of_topic(&entry.path)) {
            data_dir.purge(entry)?;
        }
    }
    Ok(())
}

/// Takes office where the image says so and it did not work before, for want of space.
pub(super) fn lead_what_is_assigned(node: &StorageNode) {
    let image = node.shared.controller.image();
    let me = node.shared.config.node_id;
    for assigned in image.partitions_of(me).filter(|assigned| assigned.leader == Some(me)) {
        if let Ok(partition) = node.partition(assigned.id)
            && partition.leader_epoch() != Some(assigned.leader_epoch)
        {
            partition.take_office(assigned.leader_epoch);
        }
    }
}
