//! Compaction: of each key the latest record stays, at its offset (R16).
//!
//! A pass maps the keys of the dirty part to their latest offsets, then rewrites all segments from the first closed one
//! to the end of the dirty part and leaves out every record that the map supersedes. The log swaps the result in
//! by its manifest; until then nothing that readers see has changed.
//!
//! # What a pass reads and what it promises
//! - Only closed segments that lie wholly below `bound` = min(high watermark, last stable offset) and whose newest batch
//!   is older than `min.compaction.lag.ms`; the caller lowers `bound` to the first damaged offset, if there is one.
//! - `clean_below` is where the last pass of *this replica* ended. It is the caller's to keep durable; a lower value is
//!   always safe (the pass then reads more), a higher one is not: a tombstone could go while an older value stays. So
//!   it is capped by every truncation, and what a leader's compaction did to fetched batches does not count.
//!
//! # Invariants
//! - Offsets, epochs, append times and encodings of kept records do not change. A record goes only if a later
//!   record of its key is in the same log below the pass's end. Records without a key stay.
//! - The map is exact: it holds whole keys, so that no collision loses a record. When its memory is used up the
//!   pass ends there, and the next one goes on.
//! - A tombstone stays until the delete horizon of its batch: `delete.retention.ms` after the first pass that kept
//!   it. The horizon is in the batch, so it survives restarts.
//! - Control batches stay (T48). A batch without records stays while a request entry of it is in the window of its
//!   producer, so that producer state remains the fold of the log (I11), and where it is the last of an output segment,
//!   so that segments still adjoin each other.
//! - Batches of transactions are refused as long as there are no transactions: whether they are superseded depends on
//!   their outcome.

mod job;
mod keys;
mod plan;
mod rewrite;
#[cfg(test)]
mod tests;

pub(crate) use job::{CompactedSegment, CompactionJob, CompactionOutput};
pub use job::{CompactionError, CompactionStats};
pub(crate) use plan::{CompactionInput, plan};

/// Memory of the key map of one pass, unless the owner has another budget.
pub const COMPACTION_MAP_BYTES_DEFAULT: usize = 64 << 20;
