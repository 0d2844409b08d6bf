//! raft-rs logs through slog; this passes its lines on to `tracing`.

use slog::{Drain, Level, Never, OwnedKVList, Record};

struct Tracing;

impl Drain for Tracing {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, _values: &OwnedKVList) -> Result<(), Never> {
        let message = record.msg();
        match record.level() {
            // raft-rs panics after a critical line; the driver turns that into its own end.
            Level::Critical | Level::Error => tracing::error!(target: "raft", "{message}"),
            Level::Warning => tracing::warn!(target: "raft", "{message}"),
            // Elections and role changes: the driver tells of those that matter.
            Level::Info | Level::Debug => tracing::debug!(target: "raft", "{message}"),
            Level::Trace => tracing::trace!(target: "raft", "{message}"),
        }
        Ok(())
    }
}

/// A logger for one raft node.
pub(crate) fn logger() -> slog::Logger {
    slog::Logger::root(Tracing, slog::o!())
}
