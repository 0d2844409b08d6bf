//! Admission by bytes: what a gateway holds of unanswered produce requests is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Bytes that unanswered requests may hold.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    released: Notify,
}

impl BufferBudget {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        BufferBudget { limit_bytes, used_bytes: AtomicUsize::new(0), released: Notify::new() }
    }

    /// Takes bytes, if they are there.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.limit_bytes || used == 0);
        self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// Takes bytes as soon as they are there.
    pub(crate) async fn take(&self, bytes: usize) {
        loop {
            if self.try_take(bytes) {
                return;
            }
            let released = self.released.notified();
            // Between the first try and the registration something may have been given back.
            if self.try_take(bytes) {
                return;
            }
            released.await;
        }
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes);
        if before.saturating_add(bytes) > self.limit_bytes / 2 {
            self.released.notify_waiters();
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::BufferBudget;

    #[tokio::test]
    async fn a_waiter_gets_what_is_given_back() {
        let budget = BufferBudget::new(100);
        assert!(budget.try_take(80));
        assert!(!budget.try_take(40));
        let (_, ()) = tokio::join!(budget.take(40), async { budget.release(80) });
        assert_eq!(budget.used_bytes(), 40);
    }

    #[test]
    fn one_request_above_the_limit_passes_alone() {
        let budget = BufferBudget::new(100);
        assert!(budget.try_take(150));
        assert!(!budget.try_take(1));
    }
}
