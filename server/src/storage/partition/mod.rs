//! One partition replica: the only owner of its log.
//!
//! Work that changes the log stands in the inbox and is done in order by one IO thread at a time (the partition is
//! in the pool's queue at most once). Flushes run on the flush scheduler's threads and take the log only before and
//! after the disk's own work. Readers never take it.
//!
//! Invariants:
//! - the log, the waiters and the leadership change only under `state`, which no async task ever locks;
//! - an append is answered as committed only when the high watermark has passed its last record in the leader epoch
//!   in which it was appended (R7);
//! - the published high watermark never goes back;
//! - after a disk error nothing is answered as committed any more (T23).

mod append;
mod flush;
mod inbox;
mod leadership;
mod maintenance;
mod read;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};
use wharf_log::log::{Log, LogReader};
use wharf_types::{LeaderEpoch, Offset, TopicConfig, TopicName, TopicPartition};

use self::append::{PipelineTable, Waiter};
use self::inbox::Inbox;
use super::node::NodeShared;
use super::tail_cache::TailWindow;
use crate::storage_api::StorageError;

pub(crate) use self::read::ReadPlan;

/// Stands for no leader epoch; the controller never reaches it.
const NOT_LEADING: u32 = u32::MAX;

/// What the cluster image says of the partition's topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicSettings {
    pub(crate) name: TopicName,
    pub(crate) config: TopicConfig,
    pub(crate) partition_count: u32,
}

/// One partition replica.
pub(crate) struct Partition {
    id: TopicPartition,
    node: Arc<NodeShared>,
    inbox: Inbox,
    state: Mutex<State>,
    reader: LogReader,
    tail: Arc<TailWindow>,
    settings: RwLock<Arc<TopicSettings>>,
    /// The exclusive end of what is committed; none before the leader took office.
    high_watermark: watch::Sender<Option<Offset>>,
    /// The epoch in which this replica leads; [`NOT_LEADING`] while it does not.
    leader_epoch: AtomicU32,
    flush_queued: AtomicBool,
    /// Held while a flush runs.
    flush_running: Mutex<()>,
    /// Set by whoever wants another flush.
    flush_wanted: AtomicBool,
    failed: AtomicBool,
}

/// What only the thread that works on the partition touches.
struct State {
    log: Log,
    /// The epoch in which this replica leads; none while it does not.
    leading: Option<LeaderEpoch>,
    pipelines: PipelineTable,
    /// Appends that wait for the high watermark, by rising last offset.
    waiters: std::collections::VecDeque<Waiter>,
    /// Set when a segment was closed since the last flush was asked for.
    rolled: bool,
    /// Set when the partition is closed or deleted.
    closed: bool,
}

impl Partition {
    pub(crate) fn new(
        id: TopicPartition,
        node: Arc<NodeShared>,
        log: Log,
        settings: TopicSettings,
    ) -> Arc<Self> {
        let reader = log.reader();
        let state = State {
            log,
            leading: None,
            pipelines: PipelineTable::default(),
            waiters: std::collections::VecDeque::new(),
            rolled: false,
            closed: false,
        };
        Arc::new(Partition {
            id,
            node,
            inbox: Inbox::default(),
            state: Mutex::new(state),
            reader,
            tail: Arc::default(),
            settings: RwLock::new(Arc::new(settings)),
            high_watermark: watch::Sender::new(None),
            leader_epoch: AtomicU32::new(NOT_LEADING),
            flush_queued: AtomicBool::new(false),
            flush_running: Mutex::new(()),
            flush_wanted: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        })
    }

    pub(crate) fn id(&self) -> TopicPartition {
        self.id
    }

    pub(crate) fn settings(&self) -> Arc<TopicSettings> {
        Arc::clone(&self.settings.read())
    }

    pub(crate) fn high_watermark(&self) -> Option<Offset> {
        *self.high_watermark.borrow()
    }

    /// Whether the partition's disk has failed.
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Follows the high watermark.
    pub(crate) fn watch_high_watermark(&self) -> watch::Receiver<Option<Offset>> {
        self.high_watermark.subscribe()
    }

    pub(crate) fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// Does a piece of work on the log in its turn, on an IO thread.
    pub(crate) fn with_log<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Log) -> T + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StorageError>> {
        let (sender, receiver) = oneshot::channel();
        let partition = Arc::clone(self);
        self.submit(inbox::Job::Work(Box::new(move |state: &mut State| {
            let result =
                if state.closed { Err(StorageError::ShuttingDown) } else { Ok(work(&mut state.log)) };
            if state.log.is_poisoned() {
                partition.fail(state, &"the log was poisoned");
            }
            // Whoever asked may be gone; the work is done all the same.
            drop(sender.send(result));
        })));
        receiver
    }

    /// Takes note of a failed disk: nothing is acknowledged any more, and the process is to end (R17).
    fn fail(&self, state: &mut State, error: &dyn std::fmt::Display) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            tracing::error!(partition = %self.id, error = %error, "the disk failed; stopping without a clean-shutdown marker");
        }
        for waiter in state.waiters.drain(..) {
            waiter.answer(Err(StorageError::DiskFailed));
        }
        self.node.disk_failed();
    }

    fn leading(&self, state: &State, sent: LeaderEpoch) -> Result<LeaderEpoch, StorageError> {
        match state.leading {
            _ if self.failed.load(Ordering::SeqCst) => Err(StorageError::DiskFailed),
            _ if state.closed => Err(StorageError::LeaderNotAvailable(self.id)),
            None => Err(StorageError::LeaderNotAvailable(self.id)),
            Some(current) if current == sent => Ok(current),
            Some(current) => Err(StorageError::FencedLeaderEpoch { partition: self.id, sent, current }),
        }
    }
}
