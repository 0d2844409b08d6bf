//! `wharf recover metadata`: a new controller store from what the partition folders say (R3).
//!
//! Nothing is deleted: the damaged store is moved aside, and the logs are only checked, as a start would do.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use wharf_controller::{Existing, RecoveryReport, recover_metadata};
use wharf_log::data_dir::DataDir;
use wharf_log::log::{Log, LogConfig, read_partition_meta};
use wharf_log::vfs::{RealVfs, Vfs};
use wharf_metadata::{ClusterId, RebuildNote, RecoveredMetadata, RecoveredPartition};
use wharf_types::{BrokerEpoch, TopicConfig, TopicPartition};

use crate::clock::WallClock;
use crate::standalone::NODE_ID;
use crate::storage::meta;

/// Rebuilds the controller's store of a stopped server, if it is damaged, and prints what was done.
///
/// # Errors
/// If the server runs, the store is not damaged, or the folders cannot be read. Nothing was changed then.
pub fn metadata(path: &Path) -> anyhow::Result<()> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    anyhow::ensure!(
        vfs.exists(path)?,
        "{} does not exist; name the server's folder with --data-dir",
        path.display()
    );
    let data_dir = DataDir::open(Arc::clone(&vfs), path)
        .with_context(|| format!("the data directory {} cannot be used", path.display()))?;
    let (found, unreadable) = find(&vfs, &data_dir);
    let report = recover_metadata(path, NODE_ID, &found, Existing::Damaged)?;
    print_report(&report, &unreadable);
    Ok(())
}

fn find(vfs: &Arc<dyn Vfs>, data_dir: &DataDir) -> (RecoveredMetadata, Vec<String>) {
    let mut found = RecoveredMetadata {
        cluster_id: data_dir
            .identity()
            .and_then(|identity| uuid::Uuid::parse_str(&identity.cluster_id).ok())
            .map(|id| ClusterId::from_bytes(*id.as_bytes())),
        highest_broker_epoch: data_dir.clean_marker().unwrap_or(BrokerEpoch::new(0)),
        ..RecoveredMetadata::default()
    };
    let mut unreadable = Vec::new();
    for &id in data_dir.partitions() {
        match find_partition(vfs, data_dir, id) {
            Ok((partition, highest_producer_id)) => {
                found.partitions.push(partition);
                found.highest_producer_id = found.highest_producer_id.max(highest_producer_id);
            }
            Err(error) => unreadable.push(format!("{id}: {error:#}")),
        }
    }
    (found, unreadable)
}

fn find_partition(
    vfs: &Arc<dyn Vfs>,
    data_dir: &DataDir,
    id: TopicPartition,
) -> anyhow::Result<(RecoveredPartition, Option<u64>)> {
    let dir = data_dir.partition_dir(id);
    let bytes = read_partition_meta(&**vfs, &dir)?.context("it has no partition.meta")?;
    let mut partition = meta::decode(&bytes).context("its partition.meta is of another version")?;
    anyhow::ensure!(partition.id == id, "its partition.meta is that of {}", partition.id);
    let entries = partition.config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let config = TopicConfig::from_entries(entries).unwrap_or_default();
    let hint = data_dir.open_hint(id);
    let opened = Log::open(Arc::clone(vfs), &dir, id, LogConfig::from(&config), hint, WallClock.now());
    let (log, _) = opened?;
    partition.leader_epoch = partition.leader_epoch.max(log.leader_epoch());
    Ok((partition, log.producer_states().highest_producer_id().map(|id| id.value())))
}

fn print_report(report: &RecoveryReport, unreadable: &[String]) {
    println!("The controller store was rebuilt: {} topics, {} partitions.", report.topics, report.partitions);
    if let Some(moved_to) = &report.moved_to {
        println!("The damaged store is kept in {}.", moved_to.display());
    }
    println!("Producer ids go on at {}.", report.next_producer_id);
    for note in &report.notes {
        println!("Note: {}", describe(note));
    }
    for partition in unreadable {
        println!("Note: a partition folder was left as it is, {partition}");
    }
    println!("Lost, if there were any: {}.", report.lost.join(", "));
    println!("Start the server again.");
}

fn describe(note: &RebuildNote) -> String {
    match note {
        RebuildNote::Renamed { topic_id, from, to } => {
            format!("two topics were called {from}; the one with id {topic_id} is now {to}")
        }
        RebuildNote::MissingPartition { id } => {
            format!("no folder of partition {id} was found; it starts empty")
        }
        RebuildNote::Ignored { id } => {
            format!("the folder of partition {id} says nothing usable and was left as it is")
        }
        RebuildNote::ConfigDropped { topic_id, name } => {
            format!("the config {name} of topic {topic_id} is not valid and went back to its default")
        }
    }
}
