//! The order in which work on one partition is done.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::append::PendingAppend;
use super::{Partition, State};

/// Jobs done before the partition lets others have the IO thread.
const JOBS_PER_TURN: usize = 64;

/// One piece of work on the partition.
pub(super) enum Job {
    /// A batch to append.
    Append(Box<PendingAppend>),
    /// Anything else.
    Work(Box<dyn FnOnce(&mut State) + Send>),
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Whether the partition stands in the pool's queue or is being worked on.
    scheduled: bool,
}

/// Jobs that wait for their turn.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
}

impl Partition {
    /// Queues a job behind those that are there.
    pub(super) fn submit(self: &Arc<Self>, job: Job) {
        let mut waiting = self.inbox.waiting.lock();
        waiting.jobs.push_back(job);
        if !waiting.scheduled {
            waiting.scheduled = true;
            drop(waiting);
            self.schedule();
        }
    }

    fn schedule(self: &Arc<Self>) {
        let partition = Arc::clone(self);
        self.node.io.submit(move || partition.take_turn());
    }

    /// Works through the inbox on an IO thread.
    fn take_turn(self: &Arc<Self>) {
        let jobs: Vec<Job> = {
            let mut waiting = self.inbox.waiting.lock();
            let count = waiting.jobs.len().min(JOBS_PER_TURN);
            waiting.jobs.drain(..count).collect()
        };
        let mut state = self.state.lock();
        for job in jobs {
            match job {
                Job::Append(append) => self.append_now(&mut state, *append),
                Job::Work(work) => work(&mut state),
            }
        }
        self.after_turn(&mut state);
        drop(state);
        let mut waiting = self.inbox.waiting.lock();
        if waiting.jobs.is_empty() {
            waiting.scheduled = false;
        } else {
            drop(waiting);
            self.schedule();
        }
    }
}
