//! A new log for a sole voter whose log is lost (R3): `wharf recover metadata`.
//!
//! Invariants: nothing of the old log is deleted; a log that opens is not replaced; the new log is complete and synced
//! before the old one moves, so a crash leaves the one or the other, or neither in place, never a half.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wharf_metadata::{ClusterId, RebuildError, RebuildNote, RecoveredMetadata, rebuild};
use wharf_types::NodeId;

use crate::open::{first_snapshot, open_log};
use crate::storage::{METADATA_DIR, RaftStore, SyncMode, WriteError, exists, sync_dir};

/// Where the copy lies on which the old log is tried.
const PROBE_DIR: &str = "metadata.probe";
/// Name of an old log that was moved aside, before its number.
const DAMAGED_DIR: &str = "metadata.damaged-";

/// What may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Only a log that does not open.
    #[default]
    Damaged,
    /// Also one that does. What it knows beyond the partition folders is no longer in force.
    Any,
}

/// What a recovery did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Where the old log lies now; none if there was none.
    pub moved_to: Option<PathBuf>,
    /// Topics in the new log.
    pub topics: usize,
    /// Partitions in the new log.
    pub partitions: usize,
    /// The index from which the new log starts; above every broker epoch found.
    pub first_index: u64,
    /// The next producer id; above every one found by 2^20.
    pub next_producer_id: u64,
    /// What a person should know.
    pub notes: Vec<RebuildNote>,
    /// What partition folders do not hold, and so is lost if it was there.
    pub lost: &'static [&'static str],
}

/// Why a recovery did nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The id of a controller is at least 1.
    #[error("the id of a controller is at least 1")]
    InvalidNodeId,
    /// The log opens: there is nothing to recover.
    #[error("the metadata log in {path} is not damaged; it was left as it is")]
    NotDamaged {
        /// Folder of the log.
        path: PathBuf,
    },
    /// What was found makes no image.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// The new log could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A folder could not be copied or moved.
    #[error("{path}: {source}")]
    File {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Replaces the log of a sole voter by one made from what the partition folders say. The old one is moved aside, never
/// deleted. Blocks; the caller holds the lock of the data directory.
///
/// # Errors
/// [`RecoverError`]; the old log is still in its place then, or beside it if the last step failed.
pub fn recover_metadata(
    data_dir: &Path,
    node_id: NodeId,
    found: &RecoveredMetadata,
    existing: Existing,
) -> Result<RecoveryReport, RecoverError> {
    if node_id.value() == 0 {
        return Err(RecoverError::InvalidNodeId);
    }
    let path = data_dir.join(METADATA_DIR);
    if existing == Existing::Damaged && exists(data_dir) && opens(data_dir)? {
        return Err(RecoverError::NotDamaged { path });
    }
    let (image, notes) = rebuild(found, ClusterId::from_bytes(*uuid::Uuid::new_v4().as_bytes()))?;
    let voter = u64::from(node_id.value());
    RaftStore::build(data_dir, voter, &first_snapshot(&image, &[voter]))?;
    let moved_to = if exists(data_dir) { Some(move_aside(data_dir)?) } else { None };
    RaftStore::publish(data_dir)?;
    Ok(RecoveryReport {
        moved_to,
        topics: image.topic_count(),
        partitions: image.topics().map(|topic| topic.partitions().len()).sum(),
        first_index: image.applied_index(),
        next_producer_id: image.next_producer_id(),
        notes,
        lost: &["ACLs", "quotas", "deletions that a node had not yet carried out"],
    })
}

/// Whether the log opens. Tried on a copy, since opening a damaged database changes it.
fn opens(data_dir: &Path) -> Result<bool, RecoverError> {
    let probe = data_dir.join(PROBE_DIR);
    let clear = |probe: &Path| match fs::remove_dir_all(probe) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    clear(&probe).map_err(at(&probe))?;
    let copied = copy(&data_dir.join(METADATA_DIR), &probe.join(METADATA_DIR));
    let opens = copied.is_ok() && open_log(&probe, SyncMode::Normal).is_ok();
    clear(&probe).map_err(at(&probe))?;
    copied.map_err(at(&probe))?;
    Ok(opens)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn move_aside(data_dir: &Path) -> Result<PathBuf, RecoverError> {
    let free = (1_u32..)
        .map(|number| data_dir.join(format!("{DAMAGED_DIR}{number}")))
        .find(|path| path.symlink_metadata().is_err());
    // The numbers do not end before the file system does.
    let target = free.unwrap_or_else(|| data_dir.join(DAMAGED_DIR));
    fs::rename(data_dir.join(METADATA_DIR), &target).map_err(at(&target))?;
    sync_dir(data_dir).map_err(at(data_dir))?;
    Ok(target)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RecoverError {
    let path = path.to_owned();
    move |source| RecoverError::File { path, source }
}
