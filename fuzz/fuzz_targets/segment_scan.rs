//! Damage to the files of a log: whatever is served afterwards was written, and what can be written is served.
#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wharf_fuzz::{partition, sample_batch_of};
use wharf_log::checkpoint::CheckpointEntry;
use wharf_log::log::{
    LeaderAppend, LeaderAppendOutcome, Log, LogConfig, LogReader, OpenHint, ReadError, ReadLimit,
};
use wharf_log::vfs::{MemoryVfs, OpenMode, Vfs};
use wharf_types::{Compression, LeaderEpoch, Offset, TimestampMs};

const DIR: &str = "/p";
const BATCHES: u64 = 60;
/// Length of an index block, and of its header.
const BLOCK_BYTES: usize = 4096;
const BLOCK_HEADER_BYTES: usize = 24;

/// A log of several segments, stopped cleanly.
struct Pristine {
    vfs: MemoryVfs,
    batches: BTreeMap<Offset, Bytes>,
    files: Vec<PathBuf>,
    checkpoint: CheckpointEntry,
}

static PRISTINE: LazyLock<Pristine> = LazyLock::new(|| {
    let vfs = MemoryVfs::new();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut log =
        Log::create(shared, Path::new(DIR), partition(), config(), b"meta").expect("memory does not fail");
    let mut batches = BTreeMap::new();
    for sequence in 0..BATCHES {
        append(&mut log, sequence, &mut batches);
    }
    log.flush().expect("memory does not fail");
    let end = log.log_end_offset();
    log.advance_high_watermark(end);
    let checkpoint = log.checkpoint_entry();
    log.close().expect("memory does not fail");
    let names = vfs.read_dir(Path::new(DIR)).expect("memory does not fail");
    let files = names.into_iter().map(|entry| Path::new(DIR).join(entry.name)).collect();
    Pristine { vfs, batches, files, checkpoint }
});

fn config() -> LogConfig {
    LogConfig { segment_bytes: 16 << 10, ..LogConfig::default() }
}

fn append(log: &mut Log, sequence: u64, batches: &mut BTreeMap<Offset, Bytes>) {
    let context = LeaderAppend {
        leader_epoch: LeaderEpoch::new(u32::try_from(1 + sequence / 25).expect("small")),
        high_watermark: log.high_watermark(),
        now: TimestampMs::new(1_000 + sequence),
    };
    match log.append_leader(sample_batch_of(Compression::None, sequence, 400), &context) {
        Ok(LeaderAppendOutcome::Appended { base_offset, batch, .. }) => {
            batches.insert(base_offset, batch.bytes().clone());
        }
        other => panic!("not appended: {other:?}"),
    }
}

/// Damages a file as five bytes say: which file, where (2), how, and a value.
fn damage(vfs: &MemoryVfs, path: &Path, &[_, low, high, kind, value]: &[u8; 5]) {
    let file = vfs.open(path, OpenMode::ReadWrite).expect("it exists");
    let length = usize::try_from(file.len().expect("memory does not fail")).expect("small");
    if length == 0 {
        return;
    }
    let mut bytes = vec![0; length];
    file.read_at(&mut bytes, 0).expect("memory does not fail");
    let place = usize::from(u16::from_le_bytes([low, high]));
    match kind % 6 {
        0 => bytes[place % length] ^= value.max(1),
        1 => bytes.truncate(place % length),
        2 => bytes.iter_mut().skip(place % length).take(usize::from(value)).for_each(|byte| *byte = 0),
        3 => {
            let from = usize::from(value) * 64 % length;
            let moved: Vec<u8> = bytes[from..].iter().copied().take(512).collect();
            let to = place % length;
            let end = (to + moved.len()).min(length);
            bytes[to..end].copy_from_slice(&moved[..end - to]);
        }
        4 => bytes.extend(std::iter::repeat_n(value, place % 2_000)),
        _ => bytes[place % BLOCK_BYTES % length] ^= value.max(1),
    }
    if kind & 0x80 != 0 && path.extension().is_some_and(|extension| extension == "index") {
        fix_index(&mut bytes);
    }
    file.set_len(0).expect("memory does not fail");
    file.write_all_at(&bytes, 0).expect("memory does not fail");
    file.sync_data().expect("memory does not fail");
}

/// Puts the CRCs of index blocks right, so that their entries are believed.
fn fix_index(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK_BYTES) {
        let count = usize::from(u16::from_le_bytes([block[6], block[7]]));
        let end = (BLOCK_HEADER_BYTES + 16 * count).min(BLOCK_BYTES);
        let crc = crc32c::crc32c(&block[4..end]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Reads as a consumer does that passes over damage; every batch must be one that was written.
fn read_all(reader: &LogReader, batches: &BTreeMap<Offset, Bytes>) -> usize {
    let mut next = reader.log_start_offset();
    let end = reader.log_end_offset();
    let mut found = 0;
    while next < end {
        match reader.read(next, ReadLimit { max_bytes: 4_000, end }) {
            Ok(outcome) => {
                for batch in &outcome.batches {
                    assert_eq!(
                        Some(batch.bytes()),
                        batches.get(&batch.base_offset()),
                        "served what was not written"
                    );
                    found += 1;
                }
                assert!(outcome.next_offset > next, "a read does not get on at {next}");
                next = outcome.next_offset;
            }
            Err(ReadError::Corrupted { from, next_good, .. }) => {
                assert!(from <= next && next < next_good, "damage {from} to {next_good} reported at {next}");
                next = next_good;
            }
            Err(error) => panic!("{error}"),
        }
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let pristine = &*PRISTINE;
    let vfs = pristine.vfs.fork();
    let (changes, _) = rest.as_chunks::<5>();
    let mut manifest_is_whole = true;
    for change in changes.iter().take(8) {
        let path = &pristine.files[usize::from(change[0]) % pristine.files.len()];
        manifest_is_whole &= !path.ends_with("manifest");
        damage(&vfs, path, change);
    }
    let checkpoint = (mode & 2 != 0).then_some(pristine.checkpoint);
    let hint = OpenHint { clean: mode & 1 != 0, checkpoint };
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let opened = Log::open(shared, Path::new(DIR), partition(), config(), hint, TimestampMs::new(5_000));
    let Ok((mut log, report)) = opened else { return };
    if changes.is_empty() {
        assert_eq!(log.log_end_offset(), pristine.checkpoint.durable_end);
        assert!(report.damaged.is_empty());
    }
    if let Some(checkpoint) = checkpoint.filter(|_| manifest_is_whole) {
        assert!(log.log_end_offset() >= checkpoint.durable_end, "recovery discarded what was durable (I19)");
    }
    let mut batches = pristine.batches.clone();
    let found = read_all(&log.reader(), &batches);
    assert!(!changes.is_empty() || found == pristine.batches.len());

    batches.retain(|offset, _| *offset < log.log_end_offset());
    append(&mut log, 1_000, &mut batches);
    let before = read_all(&log.reader(), &batches);
    log.flush().expect("memory does not fail");
    let hint = OpenHint { clean: false, checkpoint: Some(log.checkpoint_entry()) };
    drop(log);
    let shared: Arc<dyn Vfs> = Arc::new(vfs);
    let (log, _) = Log::open(shared, Path::new(DIR), partition(), config(), hint, TimestampMs::new(5_000))
        .expect("what was opened once is opened again");
    assert!(read_all(&log.reader(), &batches) >= before.min(1), "the last batch is still served");
});
