//! What a log needs to know of its topic's configuration.

use wharf_types::{CleanupPolicy, FlushPolicy, TopicConfig};

/// A partition's settings. May change while the log is open ([`super::Log::set_config`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A segment is closed before it would grow beyond this, in bytes.
    pub segment_bytes: u32,
    /// A segment is closed when its first batch is so old, in milliseconds.
    pub segment_ms: u64,
    /// How long records are kept, in milliseconds; `None` without bound.
    pub retention_ms: Option<u64>,
    /// How much is kept, in bytes; `None` without bound.
    pub retention_bytes: Option<u64>,
    /// Whether old segments are deleted, compacted, or both.
    pub cleanup: CleanupPolicy,
    /// When an append counts.
    pub flush_policy: FlushPolicy,
    /// How long compaction keeps tombstones, in milliseconds.
    pub delete_retention_ms: u64,
    /// How long a record cannot be compacted away, in milliseconds.
    pub min_compaction_lag_ms: u64,
    /// Largest record, in bytes.
    pub max_message_bytes: u32,
}

impl From<&TopicConfig> for LogConfig {
    fn from(config: &TopicConfig) -> Self {
        LogConfig {
            segment_bytes: config.segment_bytes,
            segment_ms: config.segment_ms,
            retention_ms: config.retention_ms,
            retention_bytes: config.retention_bytes,
            cleanup: config.cleanup_policy,
            flush_policy: config.flush_policy,
            delete_retention_ms: config.delete_retention_ms,
            min_compaction_lag_ms: config.min_compaction_lag_ms,
            max_message_bytes: config.max_message_bytes,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig::from(&TopicConfig::default())
    }
}
