//! Finishing an operation on several files that a crash cut short.
//!
//! Each step can be repeated: a second crash in the middle leads here again.

use std::io;
use std::path::Path;

use wharf_types::Offset;

use super::manifest::{Manifest, Pending};
use crate::segment::{CLEANED_SUFFIX, LOG_SUFFIX, file_name, index_path, remove_if_there};
use crate::vfs::Vfs;

/// Does what the manifest announces, then stores it without. Returns whether there was anything.
pub(super) fn finish(
    vfs: &dyn Vfs,
    dir: &Path,
    manifest: &mut Manifest,
    segments: &[Offset],
) -> io::Result<bool> {
    match &manifest.pending {
        Pending::None => return Ok(false),
        Pending::Truncate { cut, keep } => {
            for base in segments.iter().rev().filter(|base| **base >= *cut) {
                remove_segment(vfs, dir, *base)?;
            }
            if let Some((base, bytes)) = keep {
                truncate_last(vfs, dir, *base, *bytes)?;
            }
        }
        Pending::Reset(_) => {
            for base in segments.iter().rev() {
                remove_segment(vfs, dir, *base)?;
            }
        }
        Pending::Swap { removed, installed } => swap(vfs, dir, removed, installed)?,
    }
    vfs.sync_dir(dir)?;
    manifest.pending = Pending::None;
    manifest.store(vfs, dir)?;
    Ok(true)
}

/// Cuts the segment that holds the cut to its length below it.
fn truncate_last(vfs: &dyn Vfs, dir: &Path, base: Offset, bytes: u64) -> io::Result<()> {
    let path = dir.join(file_name(base, LOG_SUFFIX));
    match vfs.open(&path, crate::vfs::OpenMode::ReadWrite) {
        Ok(file) => {
            if file.len()? > bytes {
                file.set_len(bytes)?;
            }
            file.sync_data()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the new segments their names and removes those that they replace.
pub(super) fn swap(vfs: &dyn Vfs, dir: &Path, removed: &[Offset], installed: &[Offset]) -> io::Result<()> {
    for base in removed {
        // The index goes first: beside the new segment it would be that of another file.
        remove_if_there(vfs, &index_path(dir, *base))?;
        if !installed.contains(base) {
            remove_if_there(vfs, &dir.join(file_name(*base, LOG_SUFFIX)))?;
        }
    }
    for base in installed {
        let cleaned = dir.join(file_name(*base, CLEANED_SUFFIX));
        match vfs.rename(&cleaned, &dir.join(file_name(*base, LOG_SUFFIX))) {
            // It was renamed before the crash.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    vfs.sync_dir(dir)
}

/// Removes the files of a segment. Its producer snapshot is not one of them.
pub(super) fn remove_segment(vfs: &dyn Vfs, dir: &Path, base: Offset) -> io::Result<()> {
    remove_if_there(vfs, &index_path(dir, base))?;
    remove_if_there(vfs, &dir.join(file_name(base, LOG_SUFFIX)))
}
