//! A clean stop.

use std::sync::Arc;

use super::Log;
use super::error::LogError;
use crate::checkpoint::CheckpointEntry;

impl Log {
    /// Makes everything durable, the producer state and the indexes included, so that the next open has nothing to
    /// scan. The entry belongs into the data directory's checkpoint before its clean marker is written (R1).
    ///
    /// # Errors
    /// [`LogError`]: no clean marker may be written then (T27).
    pub fn close(mut self) -> Result<CheckpointEntry, LogError> {
        self.prepare_close()
    }

    /// What [`Log::close`] does, for an owner that cannot give the log away. Nothing may be appended afterwards.
    ///
    /// # Errors
    /// As [`Log::close`].
    pub fn prepare_close(&mut self) -> Result<CheckpointEntry, LogError> {
        self.check_writable()?;
        self.take_snapshot()?;
        if let Some(active) = self.active() {
            let vfs = Arc::clone(&self.shared.vfs);
            match active.index().seal(&*vfs) {
                Ok(None) => {}
                Ok(Some(file)) => self.note_unsynced(file),
                Err(error) => return Err(self.out_of_space_or_poison("closing the index", error)),
            }
        }
        self.note_damage()?;
        self.flush()?;
        Ok(self.checkpoint_entry())
    }
}
