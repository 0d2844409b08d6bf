//! The wall clock of a role.

use std::time::{SystemTime, UNIX_EPOCH};

use wharf_types::TimestampMs;

/// Reads the wall clock. Append times come from it, made monotonic for each partition by its log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallClock;

impl WallClock {
    pub(crate) fn now(self) -> TimestampMs {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        TimestampMs::new(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}
