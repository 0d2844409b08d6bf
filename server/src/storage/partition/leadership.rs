//! Taking office and leaving it (R5).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wharf_types::{LeaderEpoch, Offset};

use super::inbox::Job;
use super::{Partition, State};
use crate::storage_api::StorageError;

impl Partition {
    /// Leads in this epoch from now on. The epoch's entry is durable before the first append; what the log held
    /// before is committed once it is durable, since this replica is the only one in sync.
    pub(crate) fn take_office(self: &Arc<Self>, epoch: LeaderEpoch) {
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            if state.closed || state.leading.is_some_and(|current| current >= epoch) {
                return;
            }
            state.pipelines.clear();
            // What an earlier epoch has appended may stay or not; its waiters learn that nobody knows (R7).
            partition.give_up_waiters(state);
            if let Err(error) = state.log.begin_leader_epoch(epoch) {
                // Without space the office is taken later: the housekeeper asks again.
                partition.append_failed(state, error);
                return;
            }
            state.leading = Some(epoch);
            partition.leader_epoch.store(epoch.value(), Ordering::Release);
            let durable_end: Offset = state.log.durable_end_offset();
            partition.advance_high_watermark(state, durable_end);
            tracing::debug!(partition = %partition.id, leader_epoch = %epoch, "leading");
        })));
    }

    /// Leads no more; those who wait for an answer get none that says committed.
    pub(crate) fn resign(self: &Arc<Self>) {
        let partition = Arc::clone(self);
        self.submit(Job::Work(Box::new(move |state| {
            state.leading = None;
            partition.leader_epoch.store(super::NOT_LEADING, Ordering::Release);
            state.pipelines.clear();
            partition.give_up_waiters(state);
        })));
    }

    fn give_up_waiters(&self, state: &mut State) {
        for waiter in state.waiters.drain(..) {
            waiter.answer(Err(StorageError::LeaderNotAvailable(self.id)));
        }
    }
}
