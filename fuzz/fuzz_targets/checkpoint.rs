//! The checkpoint of a data directory.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wharf_log::checkpoint::{CHECKPOINT_FILE, Checkpoint};
use wharf_log::vfs::{MemoryVfs, OpenMode, Vfs};

fn load(bytes: &[u8]) -> Option<Checkpoint> {
    let (vfs, dir) = (MemoryVfs::new(), Path::new("/"));
    let file = vfs.open(&dir.join(CHECKPOINT_FILE), OpenMode::CreateNew).expect("a new file");
    file.write_all_at(bytes, 0).expect("memory does not fail");
    let checkpoint = Checkpoint::load(&vfs, dir).ok()?;
    checkpoint.store(&vfs, dir).expect("memory does not fail");
    assert_eq!(Checkpoint::load(&vfs, dir).expect("it was just stored"), checkpoint);
    Some(checkpoint)
}

fuzz_target!(|data: &[u8]| {
    load(data);
    load(&wharf_fuzz::framed(b"WCKP", 1, data));
});
