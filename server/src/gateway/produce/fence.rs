//! Keeps a failed request of a stream from being overtaken by the later ones of the same producer (R10).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the first failure of one producer on one stream stands among its sequenced requests there.
#[derive(Clone, Debug)]
pub(crate) struct FirstFailure(Arc<AtomicU64>);

impl Default for FirstFailure {
    fn default() -> Self {
        FirstFailure(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

/// The place of one sequenced request among those of its producer on its stream.
///
/// Once one of them has failed, no later one is sent to a leader; those before it go on, since nothing overtakes there.
#[derive(Debug)]
pub(crate) struct StreamFence {
    first_failure: FirstFailure,
    place: u64,
}

impl StreamFence {
    pub(crate) fn new(first_failure: &FirstFailure, place: u64) -> Self {
        StreamFence { first_failure: first_failure.clone(), place }
    }

    /// This request has failed.
    pub(crate) fn fail(&self) {
        self.first_failure.0.fetch_min(self.place, Ordering::SeqCst);
    }

    /// Whether a request before this one has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.first_failure.0.load(Ordering::SeqCst) < self.place
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstFailure, StreamFence};

    #[test]
    fn a_failure_stops_what_follows_it_and_nothing_before() {
        let first_failure = FirstFailure::default();
        let [a, b, c] = [0, 1, 2].map(|place| StreamFence::new(&first_failure, place));
        b.fail();
        assert_eq!([a.has_failed(), b.has_failed(), c.has_failed()], [false, false, true]);
        c.fail();
        assert!(!b.has_failed());
        a.fail();
        assert!(b.has_failed());
    }
}
