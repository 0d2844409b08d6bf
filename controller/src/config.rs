//! Configuration of one voter.

use std::path::PathBuf;
use std::time::Duration;

use wharf_types::NodeId;

use crate::storage::SyncMode;

/// What a missing log means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// A first start: an empty log is made.
    IfMissing,
    /// Damage: there is data that a log must have described.
    Refuse,
}

/// Configuration of one voter.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The data directory. The log is its folder [`crate::METADATA_DIR`].
    pub data_dir: PathBuf,
    /// Id of this voter, at least 1.
    pub node_id: NodeId,
    /// All voters of a new cluster, the same on each, this one included. Used only when the log is made.
    pub voters: Vec<NodeId>,
    /// What a missing log means. Refuse where partition folders exist: then the log was lost.
    pub bootstrap: Bootstrap,
    /// How writes reach the disk.
    pub sync_mode: SyncMode,
    /// Time of a raft tick; an election takes 10 to 20 of them, a heartbeat 2.
    pub tick: Duration,
    /// Longest wait for the result of a command, and for the first leader at start.
    pub command_timeout: Duration,
    /// Commands that may wait for the driver; more are refused as overload.
    pub queue: usize,
    /// Entries after which the log is compacted.
    pub compact_after_entries: u64,
    /// Bytes of entries after which the log is compacted. The retained log is held in memory.
    pub compact_after_bytes: usize,
    /// Entries that stay after a compaction, for voters that lag; none are kept for a sole voter.
    pub compact_keep_entries: u64,
}

impl ControllerConfig {
    /// The defaults of a sole voter.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>, node_id: NodeId) -> Self {
        ControllerConfig {
            data_dir: data_dir.into(),
            node_id,
            voters: vec![node_id],
            bootstrap: Bootstrap::IfMissing,
            sync_mode: SyncMode::Normal,
            tick: Duration::from_millis(100),
            command_timeout: Duration::from_secs(10),
            queue: 1_024,
            compact_after_entries: 10_000,
            compact_after_bytes: 4 << 20,
            compact_keep_entries: 1_000,
        }
    }

    /// The settings of raft-rs, whose defaults are unfit (facts.md section 2).
    pub(crate) fn raft(&self, applied: u64) -> raft::Config {
        raft::Config {
            id: u64::from(self.node_id.value()),
            election_tick: 10,
            heartbeat_tick: 2,
            applied,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 256,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: 16 << 20,
            max_committed_size_per_ready: 16 << 20,
            ..raft::Config::default()
        }
    }
}
