//! Writes valid inputs for the targets to `corpus/`, which fuzzing starts from.

use std::path::Path;

use wharf_fuzz::{partition, sample_batch, seal};
use wharf_log::batch::{BatchKind, ControlRecord};
use wharf_log::checkpoint::{CHECKPOINT_FILE, Checkpoint};
use wharf_log::epochs::EpochCache;
use wharf_log::producer::ProducerStates;
use wharf_log::vfs::{MemoryVfs, OpenMode, Vfs};
use wharf_types::{Compression, LeaderEpoch, Offset, ProducerId, TimestampMs};

/// Length of the frame in front of a small file's payload.
const FRAME_BYTES: usize = 16;

fn write(target: &str, name: &str, bytes: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&dir).expect("the corpus folder can be created");
    std::fs::write(dir.join(format!("seed-{name}")), bytes).expect("a seed can be written");
}

/// The input that makes a batch target put the CRCs right.
fn with_mode(bytes: &[u8]) -> Vec<u8> {
    [&[1], bytes].concat()
}

fn batches() {
    let codecs = [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
    for (name, compression) in codecs {
        let batch = sample_batch(compression, 3);
        write("unsealed_batch", name, &with_mode(&batch.to_bytes()));
        let sealed = batch.seal(&seal(1_000, BatchKind::Data)).expect("far from the last offset");
        assert_eq!(sealed.header().partition, partition());
        write("sealed_batch", name, &with_mode(sealed.bytes()));
    }
    let producer_ids = vec![ProducerId::new(77), ProducerId::new(900)];
    for (name, record) in
        [("no-op", ControlRecord::NoOp), ("expiry", ControlRecord::ProducerExpiry { producer_ids })]
    {
        let batch = record.to_batch(TimestampMs::new(5)).expect("a small record fits");
        let sealed = batch.seal(&seal(1_000, BatchKind::Control)).expect("far from the last offset");
        write("sealed_batch", name, &with_mode(sealed.bytes()));
    }
    write("batch_build", "records", b"\x01\x08\x03\x01keyvalue of some length\x02\x02\x00k2\x04\x00\x01");
}

fn small_files() {
    let mut states = ProducerStates::new(Offset::new(1_000));
    let mut epochs = EpochCache::new();
    for sequence in 0..4 {
        let base = states.end_offset();
        let batch = sample_batch(Compression::None, sequence);
        let batch = batch.seal(&seal(base.value(), BatchKind::Data)).expect("far from the last offset");
        states.apply(&batch).expect("sequences rise");
        let epoch = LeaderEpoch::new(u32::try_from(sequence).expect("small") * 2);
        epochs.assign(epoch, base).expect("epochs rise");
    }
    write("producer_snapshot", "two-producers", &states.encode_snapshot()[FRAME_BYTES..]);
    write("epochs", "four", &[&[3], &epochs.encode()[FRAME_BYTES..]].concat());

    let (vfs, dir) = (MemoryVfs::new(), Path::new("/"));
    Checkpoint::default().store(&vfs, dir).expect("memory does not fail");
    let file = vfs.open(&dir.join(CHECKPOINT_FILE), OpenMode::Read).expect("it was just stored");
    let mut bytes = vec![0; usize::try_from(file.len().expect("memory does not fail")).expect("small")];
    file.read_at(&mut bytes, 0).expect("memory does not fail");
    write("checkpoint", "empty", &bytes[FRAME_BYTES..]);
    let one = [&1u32.to_le_bytes()[..], &5u16.to_le_bytes(), b"topic", &[9; 28]].concat();
    write("checkpoint", "one", &one);
}

/// Damage of each kind to each of the first files, under each way of opening.
fn damage() {
    for kind in 0..6u8 {
        for file in 0..12u8 {
            let change = [(file + kind) % 4, file, 7 * kind + file, 3, kind | 0x80, 0x41];
            write("segment_scan", &format!("{kind}-{file}"), &change);
        }
    }
    write("segment_scan", "whole", &[3]);
}

fn main() {
    batches();
    damage();
    small_files();
}
