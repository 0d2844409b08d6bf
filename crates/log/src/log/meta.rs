//! `partition.meta`: what the topic's owner wants to find again beside the segments (R3), opaque to the log.
//!
//! A framed file (magic `WPME`, version 1) whose payload is the owner's.

use std::io;
use std::path::Path;

use crate::framed::{self, FrameError, FrameKind};
use crate::vfs::Vfs;

const KIND: FrameKind = FrameKind { magic: *b"WPME", version: 1 };
/// Name of the file in a partition directory.
pub const PARTITION_META_FILE: &str = "partition.meta";

/// Replaces a partition directory's metadata durably.
///
/// # Errors
/// Those of the file system.
pub fn write_partition_meta(vfs: &dyn Vfs, dir: &Path, meta: &[u8]) -> io::Result<()> {
    framed::store(vfs, &dir.join(PARTITION_META_FILE), KIND, meta)
}

/// A partition directory's metadata; `None` if there is none.
///
/// # Errors
/// [`FrameError`].
pub fn read_partition_meta(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Vec<u8>>, FrameError> {
    framed::load(vfs, &dir.join(PARTITION_META_FILE), KIND)
}
