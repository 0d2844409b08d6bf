//! Recovery: where a log ends after a crash, and what of it is damaged (R17, T26, T28).
//!
//! Segments wholly below the checkpoint's durable end are trusted but for their last few batches; the rest is
//! scanned batch by batch. A bad batch at offset x is judged by m, the larger of the checkpoint's durable end and the
//! largest high watermark hint in any valid header behind x that was written in `ack` mode:
//!
//! - x ≥ m: a torn or unordered tail of writes that nobody relied on: the log is cut at x;
//! - x < m: committed data rotted. Nothing is cut; `[x, next good batch)` is a damaged range, and what follows is
//!   served. If nothing good follows, the log ends at m.
//!
//! Invariants: nothing below m is discarded (I19); recovery only ever removes bytes at and behind the first bad batch
//! that is not below m, so that a crash inside recovery leaves a state that recovers to the same log.

mod scan;
mod tail;

pub(crate) use self::scan::{BadBatch, ScanOutcome, Scanner, SeenEpoch};
pub(crate) use self::tail::segment_end;

use wharf_types::Offset;

/// What is to be done about the bad batches of a scan.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Damaged ranges to be quarantined, in order.
    pub(crate) quarantined: Vec<BadBatch>,
    /// Where the log is to be cut.
    pub(crate) torn: Option<BadBatch>,
    /// m: nothing below it may be discarded.
    pub(crate) committed: Offset,
}

/// Judges bad batches by R17.
pub(crate) fn judge(scan: &mut ScanOutcome, checkpoint_durable_end: Offset) -> Verdict {
    let committed = checkpoint_durable_end.max(scan.max_hint);
    let mut quarantined = std::mem::take(&mut scan.bad);
    let torn_at = quarantined.iter().position(|bad| bad.from >= committed);
    let torn = torn_at.map(|at| {
        let torn = quarantined.swap_remove(at);
        quarantined.truncate(at);
        torn
    });
    Verdict { quarantined, torn, committed }
}
