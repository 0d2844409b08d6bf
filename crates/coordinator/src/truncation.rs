//! Prefix truncation of an `__offsets` log (R15).
//!
//! The log may lose everything below X once every live key has a record at or above X. So the coordinator appends the
//! live keys again whose last record lies below X, a bounded step at a time and under the group lock, and then lets the
//! log start at X. Nothing else is deleted from this log: key compaction would drop staged records that a later marker
//! needs.
//!
//! Invariants:
//! * X never lies above the last stable offset, so no staged record lies below it.
//! * Offsets only rise: once a key has a record at or above X, it has one for good, or is deleted. So the keys that a run
//!   starts with are all that it ever has to look at.
//! * A re-append keeps every field and the origin: replaying it gives the state that was there before.

use std::collections::VecDeque;

use wharf_types::Offset;

use crate::record::Record;
use crate::shard::{GroupShard, Key};

/// When a log is truncated, and in which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationPolicy {
    /// Logs up to this size, in bytes, are left alone.
    pub log_bytes_min: u64,
    /// Logs up to this many times the live bytes are left alone.
    pub live_factor: u64,
    /// Most records in one step.
    pub step_records_max: usize,
    /// About the most bytes in one step; one record may exceed it.
    pub step_bytes_max: u64,
}

impl Default for TruncationPolicy {
    /// R15: above 64 MiB and 4 × the live bytes; in steps of 1,000 records or 512 KiB.
    fn default() -> Self {
        TruncationPolicy {
            log_bytes_min: 64 << 20,
            live_factor: 4,
            step_records_max: 1_000,
            step_bytes_max: 512 << 10,
        }
    }
}

/// What a [`Truncation`] wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TruncationStep {
    /// Append these in one batch, tell the shard, and ask again. Other requests may be handled in between.
    Rewrite(Vec<Record>),
    /// Every live key has a record at or above `new_start`. When the high watermark and `durable_applied` of all ISR members
    /// have reached `covered_by`, set the log start offset to `new_start`.
    Advance {
        /// X: the log start offset to be.
        new_start: Offset,
        /// The end of the log that has to be safe before.
        covered_by: Offset,
    },
    /// The shard left office since the run began; drop the run.
    Abandoned,
}

/// One run of prefix truncation. It is the leader's own and in memory only: a leader that leaves office, or whose append
/// of a step failed, drops it, and the next one starts afresh.
#[derive(Clone, Debug)]
pub struct Truncation {
    new_start: Offset,
    todo: VecDeque<Key>,
    covered_by: Option<Offset>,
    policy: TruncationPolicy,
    generation: u64,
}

impl GroupShard {
    /// A run of prefix truncation, if the log has grown enough (`log_bytes`, its size on disk) and would lose anything: X is
    /// the end of the log now, or `last_stable_offset` if that is lower.
    #[must_use]
    pub fn plan_truncation(
        &self,
        log_bytes: u64,
        log_start: Offset,
        last_stable_offset: Offset,
        policy: TruncationPolicy,
    ) -> Option<Truncation> {
        let live_bytes = self.live_bytes().saturating_mul(policy.live_factor);
        if log_bytes <= policy.log_bytes_min || log_bytes <= live_bytes {
            return None;
        }
        let new_start = self.seen_end().min(last_stable_offset);
        if new_start <= log_start {
            return None;
        }
        let todo = self.live_keys_below(new_start).into_iter().map(|(_, key)| key).collect();
        Some(Truncation { new_start, todo, covered_by: None, policy, generation: self.generation() })
    }
}

impl Truncation {
    /// X: where the log will start.
    #[must_use]
    pub fn new_start(&self) -> Offset {
        self.new_start
    }

    /// The next step. The records of the step before must have been told to the shard ([`GroupShard::appended`]).
    pub fn next_step(&mut self, shard: &GroupShard) -> TruncationStep {
        if shard.generation() != self.generation {
            return TruncationStep::Abandoned;
        }
        let mut records = Vec::new();
        let mut bytes = 0;
        while records.len() < self.policy.step_records_max && bytes < self.policy.step_bytes_max {
            let Some(key) = self.todo.pop_front() else { break };
            // Committed again or deleted since the run began: nothing to do.
            let Some((record_offset, record)) = shard.rewrite_of(&key) else { continue };
            if record_offset < self.new_start {
                bytes += record.log_bytes_estimate();
                records.push(record);
            }
        }
        if !records.is_empty() {
            return TruncationStep::Rewrite(records);
        }
        let covered_by = *self.covered_by.get_or_insert(shard.seen_end());
        debug_assert!(shard.live_keys_below(self.new_start).is_empty());
        TruncationStep::Advance { new_start: self.new_start, covered_by }
    }
}
