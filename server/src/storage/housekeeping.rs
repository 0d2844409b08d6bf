//! What a storage node does by the clock: looks at the disk, flushes by interval, writes the checkpoint, applies
//! retention and compaction, purges the trash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use wharf_log::checkpoint::CheckpointEntry;
use wharf_types::{GroupName, Offset, TopicPartition};

use super::node::StorageNode;
use super::partition::Partition;
use super::wall_clock_guard::WallClockGuard;

const TICK: Duration = Duration::from_millis(200);
/// Ticks between two looks at the disk.
const DISK_TICKS: u64 = 1;
/// Ticks between two checkpoints, 5 s (R17).
const CHECKPOINT_TICKS: u64 = 25;
/// Ticks between two rounds of retention, 5 s.
const RETENTION_TICKS: u64 = 25;
/// Ticks between two rounds of compaction, 15 s.
const COMPACTION_TICKS: u64 = 75;

/// Runs until the node stops.
pub(super) async fn run(node: Arc<StorageNode>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count = 0_u64;
    let mut guard = WallClockGuard::new(node.shared.clock.now());
    loop {
        tokio::select! {
            () = node.shared.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        count += 1;
        let clock = guard.look(node.shared.clock.now(), node.shared.started.elapsed());
        if count.is_multiple_of(DISK_TICKS) {
            look_at_disk(&node).await;
        }
        flush_by_interval(&node, count);
        if count.is_multiple_of(CHECKPOINT_TICKS) {
            let worker = Arc::clone(&node);
            // A job that panicked has said so; so below.
            let stored =
                node.shared.io.run(move || store_checkpoint(&worker, entries(&worker), Others::Keep));
            drop(stored.await);
        }
        if count.is_multiple_of(RETENTION_TICKS) {
            super::reconcile::lead_what_is_assigned(&node);
            for partition in node.partitions() {
                drop(partition.maintain(clock, unread_from(&node, &partition)).await);
            }
            let worker = Arc::clone(&node);
            drop(node.shared.io.run(move || purge_trash(&worker)).await);
        }
        if count.is_multiple_of(COMPACTION_TICKS) {
            super::compaction::run_once(&node).await;
        }
    }
}

/// Where the slowest of the groups of `retain.for.groups` stands on the partition; none where no group is named. A
/// group that is not known, or has committed nothing, has read nothing.
fn unread_from(node: &StorageNode, partition: &Partition) -> Option<Offset> {
    let settings = partition.settings();
    let groups = settings.config.retain_for_groups.iter().filter_map(|name| GroupName::new(name).ok());
    let committed = groups.map(|group| {
        let found = node.coordinator.committed(&group, &[partition.id()]);
        let position = found.ok().flatten().and_then(|positions| positions.first()?.offset);
        position.unwrap_or_default()
    });
    committed.min()
}

async fn look_at_disk(node: &Arc<StorageNode>) {
    let worker = Arc::clone(node);
    let looked = node.shared.io.run(move || worker.shared.disk.refresh()).await;
    if let Ok(Err(error)) = looked {
        tracing::warn!(error = %error, "the disk's free space cannot be read");
    }
}

fn flush_by_interval(node: &StorageNode, count: u64) {
    for partition in node.partitions() {
        let interval = partition.settings().config.flush_interval_ms;
        let every = (interval / u64::try_from(TICK.as_millis()).unwrap_or(1)).max(1);
        if count.is_multiple_of(every) {
            partition.flush_by_interval();
        }
    }
}

/// The checkpoint entries of all open partitions.
fn entries(node: &StorageNode) -> Vec<(TopicPartition, CheckpointEntry)> {
    node.partitions().iter().map(|partition| (partition.id(), partition.checkpoint_entry())).collect()
}

/// What becomes of the checkpoint entries of folders that are not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// They stay: recovery needs them to tell rot from a torn tail.
    Keep,
    /// They go: a clean marker must not speak for logs that were not closed.
    Forget,
}

/// Writes the checkpoint, if it changed; tells whether it stands.
pub(super) fn store_checkpoint(
    node: &StorageNode,
    mut entries: Vec<(TopicPartition, CheckpointEntry)>,
    others: Others,
) -> bool {
    let mut data_dir = node.data_dir.lock();
    if others == Others::Keep {
        let open: HashSet<TopicPartition> = entries.iter().map(|(id, _)| *id).collect();
        let discarded = node.discarded.read();
        let of_others =
            data_dir.partitions().iter().filter(|id| !open.contains(id) && !discarded.contains(&id.topic_id));
        entries.extend(of_others.filter_map(|id| Some((*id, data_dir.open_hint(*id).checkpoint?))));
    }
    let stored = data_dir.store_checkpoint(entries);
    if let Err(error) = &stored {
        tracing::warn!(error = %error, "the checkpoint was not written; a restart after a crash would read more");
    }
    stored.is_ok()
}

/// How long a deleted topic stays in the trash, in milliseconds: 24 h (T29), unless the disk reserve is touched.
const TRASH_MS: u64 = 86_400_000;

/// Purges what is too old, and below the disk reserve the oldest until the reserve is free again.
fn purge_trash(node: &StorageNode) {
    let data_dir = node.data_dir.lock();
    let trash = match data_dir.trash() {
        Ok(trash) => trash,
        Err(error) => return tracing::warn!(error = %error, "the trash cannot be read"),
    };
    let now = node.shared.clock.now();
    for entry in trash {
        if now.since(entry.discarded_at) < TRASH_MS && !node.shared.disk.is_full() {
            break;
        }
        match data_dir.purge(&entry).map(|()| node.shared.disk.refresh()) {
            Ok(Ok(())) => tracing::info!(path = %entry.path.display(), "purged from the trash"),
            Ok(Err(error)) => tracing::warn!(error = %error, "the disk's free space cannot be read"),
            Err(error) => return tracing::warn!(error = %error, "the trash was not purged"),
        }
    }
}
