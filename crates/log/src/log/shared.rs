//! What a log's writer and its readers share.
//!
//! Invariants:
//! - a view is never changed, only replaced; a reader works on the one that it took;
//! - `log_end` is raised after the batch below it is in the segment, and lowered (truncation) only together with a
//!   new view of a higher generation;
//! - `durable_end` ≤ `log_end`; `high_watermark` ≤ `log_end`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use wharf_types::{Offset, TopicPartition};

use super::manifest::DamagedRange;
use crate::segment::Segment;
use crate::vfs::Vfs;

/// Which files the log consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// By base offset; the last is the active one. Empty before the first append.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) log_start: Offset,
    pub(crate) generation: u64,
    /// By first offset.
    pub(crate) damaged: Vec<DamagedRange>,
}

pub(crate) struct Shared {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) partition: TopicPartition,
    view: RwLock<Arc<View>>,
    log_end: AtomicU64,
    durable_end: AtomicU64,
    high_watermark: AtomicU64,
    /// Set by the first sync that failed, wherever it ran: the kernel tells an error once for each open file, so a
    /// later sync that succeeds proves nothing (T23).
    sync_failed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, partition: TopicPartition, view: View) -> Self {
        Shared {
            vfs,
            partition,
            view: RwLock::new(Arc::new(view)),
            log_end: AtomicU64::new(0),
            durable_end: AtomicU64::new(0),
            high_watermark: AtomicU64::new(0),
            sync_failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn note_sync_failure(&self) {
        self.sync_failed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::SeqCst)
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    pub(crate) fn is_current(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.view.read(), view)
    }

    /// Replaces the view by a changed copy.
    pub(crate) fn change_view(&self, change: impl FnOnce(&mut View)) {
        let mut view = self.view.write();
        let mut changed = View::clone(&view);
        change(&mut changed);
        *view = Arc::new(changed);
    }

    pub(crate) fn log_end(&self) -> Offset {
        Offset::new(self.log_end.load(Ordering::Acquire))
    }

    pub(crate) fn set_log_end(&self, offset: Offset) {
        self.log_end.store(offset.value(), Ordering::Release);
    }

    pub(crate) fn durable_end(&self) -> Offset {
        Offset::new(self.durable_end.load(Ordering::Acquire))
    }

    pub(crate) fn set_durable_end(&self, offset: Offset) {
        self.durable_end.store(offset.value(), Ordering::Release);
    }

    pub(crate) fn high_watermark(&self) -> Offset {
        Offset::new(self.high_watermark.load(Ordering::Acquire))
    }

    pub(crate) fn set_high_watermark(&self, offset: Offset) {
        self.high_watermark.store(offset.value(), Ordering::Release);
    }
}

impl View {
    /// The segment to look into for an offset: the last that starts at or below it, else the first.
    pub(crate) fn segment_for(&self, offset: Offset) -> Option<usize> {
        let after = self.segments.partition_point(|segment| segment.base_offset() <= offset);
        (!self.segments.is_empty()).then(|| after.saturating_sub(1))
    }

    /// The damaged range that an offset lies in.
    pub(crate) fn damage_at(&self, offset: Offset) -> Option<&DamagedRange> {
        self.damaged.iter().find(|range| range.from <= offset && offset < range.next_good)
    }

    /// Adds a damaged range, in order; one that is known already is left as it is.
    pub(crate) fn add_damage(&mut self, range: DamagedRange) {
        if self.damage_at(range.from).is_none() {
            self.damaged.push(range);
            self.damaged.sort_by_key(|range| range.from);
        }
    }
}
