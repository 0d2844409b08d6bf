//! The disk reserve: below it produce is refused, and everything else goes on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wharf_log::vfs::Vfs;

use crate::storage_api::StorageError;

/// The reserve where none is configured: max(5%, 256 MiB) of the file system, but never more than half of it.
fn default_reserve(total_bytes: u64) -> u64 {
    (total_bytes / 20).max(256 << 20).min(total_bytes / 2)
}

/// What is known of the file system that holds the data directory.
pub(crate) struct DiskMonitor {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    configured_reserve: Option<u64>,
    total_bytes: AtomicU64,
    available_bytes: AtomicU64,
    /// Set by a write that found no space, until a later look finds the reserve free again.
    found_full: AtomicBool,
}

impl DiskMonitor {
    /// Looks at the disk for the first time.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        path: PathBuf,
        configured_reserve: Option<u64>,
    ) -> std::io::Result<Self> {
        let monitor = DiskMonitor {
            vfs,
            path,
            configured_reserve,
            total_bytes: AtomicU64::new(0),
            available_bytes: AtomicU64::new(0),
            found_full: AtomicBool::new(false),
        };
        monitor.refresh()?;
        Ok(monitor)
    }

    /// Looks at the disk again; blocks.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn refresh(&self) -> std::io::Result<()> {
        let space = self.vfs.disk_space(&self.path)?;
        self.total_bytes.store(space.total_bytes, Ordering::Relaxed);
        self.available_bytes.store(space.available_bytes, Ordering::Relaxed);
        if space.available_bytes >= self.reserve_bytes() {
            self.found_full.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn available_bytes(&self) -> u64 {
        self.available_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.configured_reserve.unwrap_or_else(|| default_reserve(self.total_bytes()))
    }

    /// Whether produce is refused now.
    pub(crate) fn is_full(&self) -> bool {
        self.found_full.load(Ordering::Relaxed) || self.available_bytes() < self.reserve_bytes()
    }

    /// Counts bytes that were appended since the last look, so that a fast writer cannot pass the reserve between
    /// two looks.
    pub(crate) fn used(&self, bytes: u64) {
        let less = |available: u64| Some(available.saturating_sub(bytes));
        // The closure never refuses.
        let _ = self.available_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// # Errors
    /// [`StorageError::StorageFull`] while the reserve is touched.
    pub(crate) fn check_reserve(&self) -> Result<(), StorageError> {
        if self.is_full() { Err(self.full()) } else { Ok(()) }
    }

    /// Takes note that a write found no space.
    pub(crate) fn found_full(&self) -> StorageError {
        self.found_full.store(true, Ordering::Relaxed);
        self.full()
    }

    fn full(&self) -> StorageError {
        StorageError::StorageFull {
            available_bytes: self.available_bytes(),
            reserve_bytes: self.reserve_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::default_reserve;

    #[test]
    fn the_default_reserve_is_bounded_on_small_and_large_disks() {
        assert_eq!(default_reserve(64 << 20), 32 << 20);
        assert_eq!(default_reserve(1 << 30), 256 << 20);
        assert_eq!(default_reserve(1 << 40), (1 << 40) / 20);
    }
}
