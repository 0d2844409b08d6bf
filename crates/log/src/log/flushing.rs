//! Flushing: what must be synced for the durable end to move, done outside of the log's lock.
//!
//! A job holds file handles and the offset that they cover. It is begun and completed under the log's lock and run
//! between the two. Invariant (T24): completing moves the durable end only in the generation in which the job began,
//! and only up.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use wharf_types::Offset;

use super::Log;
use super::error::LogError;
use super::shared::Shared;
use crate::vfs::VfsFile;

/// A file, other than the active segment, that was written since it was synced.
pub(super) struct Unsynced {
    pub(super) dirt: u64,
    pub(super) file: Arc<dyn VfsFile>,
}

const NOT_RUN: u8 = 0;
const SYNCED: u8 = 1;
const FAILED: u8 = 2;

/// What has to be synced to make a log durable up to an offset.
pub struct FlushJob {
    shared: Arc<Shared>,
    generation: u64,
    target: Offset,
    dirt: u64,
    files: Vec<Arc<dyn VfsFile>>,
    directory: Option<PathBuf>,
    outcome: AtomicU8,
}

impl FlushJob {
    /// Syncs. To be called once, without the log's lock.
    ///
    /// # Errors
    /// The first error of a sync; the log is poisoned when the job is completed.
    pub fn run(&self) -> io::Result<()> {
        let result = self.sync_all();
        if result.is_err() {
            self.shared.note_sync_failure();
        }
        let outcome = if result.is_ok() { SYNCED } else { FAILED };
        self.outcome.store(outcome, Ordering::Release);
        result
    }

    /// The offset that is durable once the job has run.
    #[must_use]
    pub fn target(&self) -> Offset {
        self.target
    }

    fn sync_all(&self) -> io::Result<()> {
        for file in &self.files {
            file.sync_data()?;
        }
        self.directory.as_ref().map_or(Ok(()), |directory| self.shared.vfs.sync_dir(directory))
    }
}

impl Log {
    /// What has to be synced now; `None` if all is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], and [`LogError::Io`] if the active segment cannot be opened.
    pub fn begin_flush(&mut self) -> Result<Option<FlushJob>, LogError> {
        self.check_writable()?;
        let target = self.log_end_offset();
        let directory_is_dirty = self.directory_dirt.0 > self.directory_dirt.1;
        if self.durable_end_offset() >= target && self.unsynced.is_empty() && !directory_is_dirty {
            return Ok(None);
        }
        let mut files: Vec<_> = self.unsynced.iter().map(|entry| Arc::clone(&entry.file)).collect();
        if let Some(active) = self.active().filter(|active| active.bytes() > 0) {
            match active.file(&*self.shared.vfs) {
                Ok(file) => files.push(file),
                Err(error) => return Err(self.poison("opening the active segment", error)),
            }
        }
        Ok(Some(FlushJob {
            shared: Arc::clone(&self.shared),
            generation: self.manifest.generation,
            target,
            dirt: self.dirt,
            files,
            directory: directory_is_dirty.then(|| self.dir.clone()),
            outcome: AtomicU8::new(NOT_RUN),
        }))
    }

    /// Takes over what a job has synced and returns the durable end offset.
    ///
    /// # Errors
    /// [`LogError::FlushNotRun`]; [`LogError::Poisoned`] after a failed sync.
    pub fn complete_flush(&mut self, job: FlushJob) -> Result<Offset, LogError> {
        match job.outcome.load(Ordering::Acquire) {
            SYNCED if !self.shared.has_sync_failed() => {}
            SYNCED | FAILED => {
                self.is_poisoned = true;
                return Err(LogError::Poisoned { partition: self.partition() });
            }
            _ => return Err(LogError::FlushNotRun),
        }
        self.unsynced.retain(|entry| entry.dirt > job.dirt);
        if job.directory.is_some() {
            self.directory_dirt.1 = self.directory_dirt.1.max(job.dirt);
        }
        if job.generation == self.manifest.generation && job.target > self.durable_end_offset() {
            self.shared.set_durable_end(job.target);
        }
        if self.unsynced.is_empty() && self.directory_dirt.0 == self.directory_dirt.1 {
            self.prune_snapshots()?;
        }
        Ok(self.durable_end_offset())
    }

    /// Makes everything durable, in the calling thread.
    ///
    /// # Errors
    /// [`LogError::Io`] and [`LogError::Poisoned`].
    pub fn flush(&mut self) -> Result<Offset, LogError> {
        let Some(job) = self.begin_flush()? else {
            return Ok(self.durable_end_offset());
        };
        if let Err(error) = job.run() {
            return Err(self.poison("flushing", error));
        }
        self.complete_flush(job)
    }
}
