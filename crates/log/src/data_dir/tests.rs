#![allow(clippy::unwrap_used)]

use wharf_types::{LeaderEpoch, NodeId, Offset, TimestampMs};

use super::*;
use crate::vfs::{CrashPolicy, MemoryVfs};

const DIR: &str = "/disk/wharf";

fn open(vfs: &MemoryVfs) -> DataDir {
    DataDir::open(Arc::new(vfs.clone()), Path::new(DIR)).unwrap()
}

fn partition(index: u32) -> TopicPartition {
    TopicPartition { topic_id: TopicId::from_bytes([7; 16]), partition: PartitionIndex::new(index) }
}

fn entry() -> CheckpointEntry {
    CheckpointEntry {
        durable_end: Offset::new(5),
        high_watermark: Offset::new(4),
        leader_epoch: LeaderEpoch::new(1),
        generation: 0,
    }
}

#[test]
fn a_second_process_is_kept_off() {
    let vfs = MemoryVfs::new();
    let first = open(&vfs);
    let second = DataDir::open(Arc::new(vfs.clone()), Path::new(DIR));
    assert!(matches!(second, Err(DataDirError::Locked { .. })));
    drop(first);
    open(&vfs);
}

#[test]
fn identity_is_set_once_and_survives_a_crash() {
    let vfs = MemoryVfs::new();
    let mut dir = open(&vfs);
    assert_eq!(dir.identity(), None);
    let identity = DirIdentity { dir_id: [9; 16], node_id: NodeId::new(3), cluster_id: "c".to_owned() };
    dir.set_identity(identity.clone()).unwrap();
    let other = DirIdentity { node_id: NodeId::new(4), ..identity.clone() };
    assert!(dir.set_identity(other).is_err());
    let dir = open(&vfs.crash(CrashPolicy::LoseAll));
    assert_eq!(dir.identity(), Some(&identity));
}

#[test]
fn a_clean_marker_counts_once() {
    let vfs = MemoryVfs::new();
    let mut dir = open(&vfs);
    assert_eq!(dir.clean_marker(), None);
    dir.store_checkpoint([(partition(0), entry())]).unwrap();
    dir.write_clean_marker(BrokerEpoch::new(12)).unwrap();
    drop(dir);
    let vfs = vfs.crash(CrashPolicy::LoseAll);
    let dir = open(&vfs);
    assert_eq!(dir.clean_marker(), Some(BrokerEpoch::new(12)));
    assert_eq!(dir.open_hint(partition(0)), OpenHint { clean: true, checkpoint: Some(entry()) });
    assert!(!dir.open_hint(partition(1)).clean, "a log that no checkpoint knows is scanned");
    let dir = open(&vfs.crash(CrashPolicy::LoseAll));
    assert_eq!(dir.clean_marker(), None);
    assert_eq!(dir.open_hint(partition(0)), OpenHint { clean: false, checkpoint: Some(entry()) });
}

#[test]
fn a_damaged_checkpoint_costs_only_the_scan() {
    let vfs = MemoryVfs::new();
    let mut dir = open(&vfs);
    dir.store_checkpoint([(partition(0), entry())]).unwrap();
    drop(dir);
    vfs.flip_bit(&Path::new(DIR).join("checkpoint"), 300).unwrap();
    let dir = open(&vfs);
    assert!(dir.checkpoint_is_damaged());
    assert_eq!(dir.open_hint(partition(0)), OpenHint::default());
}

#[test]
fn discarded_partitions_go_to_the_trash_and_are_purged_oldest_first() {
    let vfs = MemoryVfs::new();
    let mut dir = open(&vfs);
    for index in 0..3 {
        vfs.create_dir_all(&dir.partition_dir(partition(index))).unwrap();
    }
    vfs.create_dir_all(&Path::new(DIR).join("data/lost+found")).unwrap();
    vfs.sync_dir(&Path::new(DIR).join("data")).unwrap();
    drop(dir);
    dir = open(&vfs);
    assert_eq!(dir.partitions(), [partition(0), partition(1), partition(2)]);
    dir.discard(partition(1), TimestampMs::new(2000)).unwrap();
    dir.discard(partition(0), TimestampMs::new(900)).unwrap();
    dir.discard(partition(0), TimestampMs::new(900)).unwrap();
    drop(dir);
    let vfs = vfs.crash(CrashPolicy::LoseAll);
    let dir = open(&vfs);
    assert_eq!(dir.partitions(), [partition(2)]);
    let trash = dir.trash().unwrap();
    assert_eq!(trash.iter().map(|entry| entry.discarded_at.value()).collect::<Vec<_>>(), [900, 2000]);
    dir.purge(&trash[0]).unwrap();
    assert_eq!(dir.trash().unwrap(), trash[1..]);
}
