//! Recent batches of all partitions in memory, so that readers at the tail touch no file.
//!
//! Invariants: a partition's window is a run of batches without a hole that ends at its log end offset; the bytes of
//! all windows stay within the budget (but for the batch just added); the oldest batch of the node goes first,
//! whichever partition it belongs to. Batches in it were verified when they came in.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wharf_log::batch::SealedBatch;
use wharf_types::Offset;

/// The node's budget, and the order in which batches go.
pub(crate) struct TailCache {
    budget_bytes: usize,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    bytes: usize,
    entries: VecDeque<(Weak<TailWindow>, usize)>,
}

/// The recent batches of one partition.
#[derive(Default)]
pub(crate) struct TailWindow {
    batches: Mutex<VecDeque<SealedBatch>>,
}

/// What a window has for a reader.
pub(crate) struct TailRead {
    /// Batches in order; the first may begin below the offset asked for.
    pub(crate) batches: Vec<SealedBatch>,
    /// The offset behind the last of them.
    pub(crate) next_offset: Offset,
}

impl TailCache {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        TailCache { budget_bytes, order: Mutex::default() }
    }

    /// Adds the batch that was just appended to the window's partition.
    pub(crate) fn push(&self, window: &Arc<TailWindow>, batch: SealedBatch) {
        let bytes = batch.bytes().len();
        {
            let mut batches = window.batches.lock();
            if batches.back().is_some_and(|last| last.next_offset() != batch.base_offset()) {
                // Something was appended past the cache. A window with a hole would hide it from readers.
                batches.clear();
            }
            batches.push_back(batch);
        }
        let mut order = self.order.lock();
        order.bytes += bytes;
        order.entries.push_back((Arc::downgrade(window), bytes));
        while order.bytes > self.budget_bytes {
            let Some((oldest, bytes)) = order.entries.pop_front() else { break };
            order.bytes -= bytes;
            if let Some(oldest) = oldest.upgrade() {
                oldest.batches.lock().pop_front();
            }
        }
    }

    /// Bytes held, for the metrics.
    pub(crate) fn bytes(&self) -> usize {
        self.order.lock().bytes
    }
}

impl TailWindow {
    /// Batches from `from` up to `end`, `max_bytes` at most but one batch at least; nothing if the window begins
    /// above `from` or has nothing below `end`.
    pub(crate) fn read(&self, from: Offset, end: Offset, max_bytes: usize) -> Option<TailRead> {
        let window = self.batches.lock();
        let first = window.partition_point(|batch| batch.last_offset() < from);
        let start = window.get(first)?;
        if start.base_offset() > from {
            return None;
        }
        let mut batches = Vec::new();
        let mut bytes = 0;
        for batch in window.range(first..) {
            if batch.last_offset() >= end || (!batches.is_empty() && bytes + batch.bytes().len() > max_bytes)
            {
                break;
            }
            bytes += batch.bytes().len();
            batches.push(batch.clone());
        }
        let next_offset = batches.last()?.last_offset().next();
        Some(TailRead { batches, next_offset })
    }
}
