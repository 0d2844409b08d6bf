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
        self.released.notify_waiters();
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// Bytes of a request on its way into the pipelines; what was not handed on is given back, also when the call is
/// dropped half-way.
pub(crate) struct BudgetShare<'a> {
    budget: &'a BufferBudget,
    bytes: usize,
}

impl<'a> BudgetShare<'a> {
    /// Takes charge of bytes that were taken from the budget.
    pub(crate) fn new(budget: &'a BufferBudget, bytes: usize) -> Self {
        BudgetShare { budget, bytes }
    }

    /// Bytes that are left.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that somebody else is in charge of from now on.
    pub(crate) fn hand_on(&mut self, bytes: usize) {
        self.bytes -= bytes.min(self.bytes);
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.bytes);
        }
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
