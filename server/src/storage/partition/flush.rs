//! Flushes: the disk's work happens outside of the partition's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_log::flush::FlushTarget;
use wharf_types::FlushPolicy;

use super::{Partition, State};

impl Partition {
    /// Asks the data directory's flush scheduler for a turn; asking twice before it comes is asking once.
    pub(crate) fn request_flush(self: &Arc<Self>) {
        // After the scheduler has stopped, the flush of the clean stop does its work.
        let _ = self.node.flush.submit(Arc::clone(self) as Arc<dyn FlushTarget>);
    }
}

impl FlushTarget for Partition {
    fn queued_flag(&self) -> &AtomicBool {
        &self.flush_queued
    }

    /// One flush of a log at a time: what is appended meanwhile shares the next one, which makes the groups of a group
    /// commit large.
    fn flush(&self) {
        self.flush_wanted.store(true, Ordering::SeqCst);
        while let Some(running) = self.flush_running.try_lock() {
            let wanted = self.flush_wanted.swap(false, Ordering::SeqCst);
            if wanted {
                self.flush_once();
            }
            drop(running);
            // Whoever could not take the lock has left its wish before trying, so it is seen here.
            if !self.flush_wanted.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

impl Partition {
    fn flush_once(&self) {
        let job = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            match state.log.begin_flush() {
                Ok(Some(job)) => job,
                // A turn on the log has flushed it meanwhile.
                Ok(None) => return self.after_flush(&mut state),
                Err(error) => return self.fail(&mut state, &error),
            }
        };
        let started = std::time::Instant::now();
        // The log looks at the job's outcome itself.
        drop(job.run());
        self.node.metrics.flushed(started.elapsed());
        let mut state = self.state.lock();
        let state = &mut *state;
        match state.log.complete_flush(job) {
            Ok(_) => self.after_flush(state),
            Err(error) => self.fail(state, &error),
        }
    }

    /// Waits until a flush that runs has ended; blocks.
    pub(crate) fn await_flush(&self) {
        drop(self.flush_running.lock());
    }

    /// What is durable now is committed, where durability is what commits.
    fn after_flush(&self, state: &mut State) {
        if state.leading.is_some() && state.log.config().flush_policy == FlushPolicy::Ack {
            self.advance_high_watermark(state, state.log.durable_end_offset());
        }
    }
}
