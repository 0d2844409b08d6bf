//! Faults on demand.

use std::io;

use crate::vfs::DiskSpace;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write fails with EIO: the `nth` from now, the next being 1. So many of its bytes get written before.
    WriteError {
        /// Which write.
        nth: u64,
        /// How much of it is written.
        written_bytes: usize,
    },
    /// A sync of a file or directory fails with EIO: the `nth` from now, the next being 1.
    SyncError {
        /// Which sync.
        nth: u64,
    },
    /// Files can grow by so many bytes from now on; then ENOSPC, after writing what fits.
    Space {
        /// Bytes left.
        bytes: u64,
    },
    /// Reads of files whose path contains this text fail with EIO.
    ReadError {
        /// Part of the path.
        path_part: String,
    },
}

#[derive(Clone, Default)]
pub(super) struct Faults {
    write: Option<(u64, usize)>,
    sync: Option<u64>,
    space: Option<u64>,
    read: Option<String>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        match fault {
            Fault::WriteError { nth, written_bytes } => self.write = Some((nth, written_bytes)),
            Fault::SyncError { nth } => self.sync = Some(nth),
            Fault::Space { bytes } => self.space = Some(bytes),
            Fault::ReadError { path_part } => self.read = Some(path_part),
        }
    }

    /// How many of a write's bytes get written, and how it ends.
    pub(super) fn on_write(&mut self, bytes: usize, grows: u64) -> (usize, io::Result<()>) {
        if let Some((nth, written_bytes)) = self.write {
            if nth <= 1 {
                self.write = None;
                return (written_bytes.min(bytes), Err(io::Error::from_raw_os_error(EIO)));
            }
            self.write = Some((nth - 1, written_bytes));
        }
        if let Err(error) = self.on_allocate(grows) {
            let left = self.space.replace(0).unwrap_or(0);
            let within = bytes.saturating_sub(usize::try_from(grows - left).unwrap_or(usize::MAX));
            return (within, Err(error));
        }
        if let Some(space) = &mut self.space {
            *space -= grows;
        }
        (bytes, Ok(()))
    }

    pub(super) fn on_allocate(&self, grows: u64) -> io::Result<()> {
        match self.space {
            Some(space) if grows > space => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ => Ok(()),
        }
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        if let Some(space) = &mut self.space {
            *space += bytes;
        }
    }

    pub(super) fn on_sync(&mut self) -> io::Result<()> {
        match &mut self.sync {
            None => Ok(()),
            Some(nth) if *nth > 1 => {
                *nth -= 1;
                Ok(())
            }
            Some(_) => {
                self.sync = None;
                Err(io::Error::from_raw_os_error(EIO))
            }
        }
    }

    pub(super) fn on_read(&self, path: &str) -> io::Result<()> {
        match &self.read {
            Some(part) if path.contains(part) => Err(io::Error::from_raw_os_error(EIO)),
            _ => Ok(()),
        }
    }

    pub(super) fn disk_space(&self) -> DiskSpace {
        const TOTAL_BYTES: u64 = 1 << 40;
        DiskSpace { total_bytes: TOTAL_BYTES, available_bytes: self.space.unwrap_or(TOTAL_BYTES / 2) }
    }
}
