//! Keeps a failed request of a stream from being overtaken by the later ones of the same producer (R10).

use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the sequenced requests of one producer on one stream.
///
/// Once one of them has failed, nothing more of that producer on that stream is sent to a leader.
#[derive(Debug, Default)]
pub(crate) struct StreamFence {
    failed: AtomicBool,
}

impl StreamFence {
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}
