//! Queue and threads of the flush scheduler.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A log that may have unflushed bytes.
pub trait FlushTarget: Send + Sync {
    /// Flushes what is dirty now and publishes what became durable. Blocks; must not panic; errors are the target's
    /// own affair (it poisons its log).
    fn flush(&self);

    /// Whether the target is queued. Only the scheduler writes it.
    fn queued_flag(&self) -> &AtomicBool;
}

/// How a scheduler works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSchedulerConfig {
    /// Most flushes at once, at least 1 (R7: 2 to 8, to be measured for the disk).
    pub parallel_syncs: usize,
    /// How long a target is held before its flush while the queue is deep, at most 2 ms (R7). Zero by default: in a
    /// deep queue a target has waited for those before it already, and a held target keeps a thread from the others.
    pub hold: Duration,
    /// Length of the queue from which on targets are held.
    pub queue_deep: usize,
}

impl Default for FlushSchedulerConfig {
    fn default() -> Self {
        FlushSchedulerConfig { parallel_syncs: 4, hold: Duration::ZERO, queue_deep: 64 }
    }
}

/// The scheduler was shut down; the target was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the flush scheduler has stopped")]
pub struct SchedulerStopped;

#[derive(Default)]
struct Queue {
    targets: VecDeque<Arc<dyn FlushTarget>>,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    stop: Condvar,
}

/// Threads that flush queued targets. Dropping it shuts it down.
pub struct FlushScheduler {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl fmt::Debug for FlushScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared: _, workers } = self;
        f.debug_struct("FlushScheduler")
            .field("workers", &workers.len())
            .field("queued", &self.queued())
            .finish()
    }
}

impl FlushScheduler {
    /// Starts the threads.
    ///
    /// # Errors
    /// Those of the operating system if it gives no thread.
    pub fn start(config: FlushSchedulerConfig) -> io::Result<Self> {
        let mut scheduler = FlushScheduler { shared: Arc::default(), workers: Vec::new() };
        for index in 0..config.parallel_syncs.max(1) {
            let shared = Arc::clone(&scheduler.shared);
            let worker = std::thread::Builder::new()
                .name(format!("flush-{index}"))
                .spawn(move || shared.work(config))?;
            scheduler.workers.push(worker);
        }
        Ok(scheduler)
    }

    /// Queues the target unless it is queued already. What is to be flushed must have been written before.
    ///
    /// # Errors
    /// [`SchedulerStopped`] after a shutdown has begun.
    pub fn submit(&self, target: Arc<dyn FlushTarget>) -> Result<(), SchedulerStopped> {
        if target.queued_flag().swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut queue = self.shared.queue.lock();
        if queue.stopping {
            target.queued_flag().store(false, Ordering::Release);
            return Err(SchedulerStopped);
        }
        queue.targets.push_back(target);
        drop(queue);
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// Targets that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.queue.lock().targets.len()
    }

    /// Flushes all that is queued, then stops the threads and waits for them.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.shared.queue.lock().stopping = true;
        self.shared.arrived.notify_all();
        self.shared.stop.notify_all();
        for worker in self.workers.drain(..) {
            // A panic of a target was reported by its thread; the other threads drain the queue.
            let _ = worker.join();
        }
    }
}

impl Drop for FlushScheduler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn work(&self, config: FlushSchedulerConfig) {
        while let Some(target) = self.next_target(config) {
            // A read-modify-write, so that it sees the dirt of every submit that found the flag set.
            target.queued_flag().swap(false, Ordering::AcqRel);
            target.flush();
        }
    }

    /// Waits for a target; nothing once the scheduler stops and the queue is empty.
    fn next_target(&self, config: FlushSchedulerConfig) -> Option<Arc<dyn FlushTarget>> {
        let mut queue = self.queue.lock();
        loop {
            let deep = queue.targets.len() >= config.queue_deep;
            if let Some(target) = queue.targets.pop_front() {
                if deep && !config.hold.is_zero() && !queue.stopping {
                    self.stop.wait_for(&mut queue, config.hold);
                }
                return Some(target);
            }
            if queue.stopping {
                return None;
            }
            self.arrived.wait(&mut queue);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use super::*;

    /// Counts what was written and what a flush has seen.
    #[derive(Default)]
    struct FakeLog {
        queued: AtomicBool,
        running: AtomicUsize,
        written: AtomicU64,
        durable: Mutex<u64>,
        advanced: Condvar,
        flushes: AtomicU64,
    }

    impl FlushTarget for FakeLog {
        fn flush(&self) {
            let before = self.running.fetch_add(1, Ordering::SeqCst);
            assert!(before <= 1, "a target runs at most twice at once: in a flush, and re-armed in another");
            let seen = self.written.load(Ordering::Relaxed);
            std::thread::yield_now();
            let mut durable = self.durable.lock();
            *durable = seen.max(*durable);
            self.advanced.notify_all();
            drop(durable);
            self.flushes.fetch_add(1, Ordering::Relaxed);
            self.running.fetch_sub(1, Ordering::SeqCst);
        }

        fn queued_flag(&self) -> &AtomicBool {
            &self.queued
        }
    }

    impl FakeLog {
        fn wait_durable(&self, target: u64) {
            let mut durable = self.durable.lock();
            while *durable < target {
                let timed_out = self.advanced.wait_for(&mut durable, Duration::from_secs(20)).timed_out();
                assert!(!timed_out, "durable stays at {durable}, {target} was written");
            }
        }
    }

    fn run_writers(config: FlushSchedulerConfig) -> u64 {
        const WRITES: u64 = 3_000;
        let scheduler = FlushScheduler::start(config).unwrap();
        let logs: Vec<Arc<FakeLog>> = (0..8).map(|_| Arc::default()).collect();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (scheduler, logs) = (&scheduler, &logs);
                scope.spawn(move || {
                    for index in 0..WRITES {
                        let log = &logs[(index as usize * 7 + writer) % logs.len()];
                        log.written.fetch_add(1, Ordering::Relaxed);
                        scheduler.submit(log.clone()).unwrap();
                    }
                });
            }
        });
        for log in &logs {
            log.wait_durable(log.written.load(Ordering::Relaxed));
        }
        logs.iter().map(|log| log.flushes.load(Ordering::Relaxed)).sum()
    }

    #[test]
    fn the_last_write_before_a_submit_is_always_flushed() {
        for parallel_syncs in 1..=2 {
            for _ in 0..5 {
                let flushes = run_writers(FlushSchedulerConfig { parallel_syncs, ..Default::default() });
                assert!(flushes <= 12_000);
            }
        }
        let hold = Duration::from_micros(50);
        run_writers(FlushSchedulerConfig { parallel_syncs: 2, hold, queue_deep: 4 });
    }

    #[test]
    fn a_shutdown_flushes_what_was_submitted_and_refuses_more() {
        let mut scheduler = FlushScheduler::start(FlushSchedulerConfig::default()).unwrap();
        let logs: Vec<Arc<FakeLog>> = (0..50).map(|_| Arc::default()).collect();
        for log in &logs {
            log.written.store(1, Ordering::Relaxed);
            scheduler.submit(log.clone()).unwrap();
        }
        scheduler.stop();
        assert!(logs.iter().all(|log| *log.durable.lock() == 1));
        assert_eq!(scheduler.submit(logs[0].clone()), Err(SchedulerStopped));
        assert!(!logs[0].queued.load(Ordering::SeqCst));
    }

    /// Blocks in its first flush until it is let go.
    #[derive(Default)]
    struct Gate {
        queued: AtomicBool,
        state: Mutex<(usize, bool)>,
        changed: Condvar,
    }

    impl FlushTarget for Gate {
        fn flush(&self) {
            let mut state = self.state.lock();
            state.0 += 1;
            self.changed.notify_all();
            while !state.1 {
                assert!(!self.changed.wait_for(&mut state, Duration::from_secs(20)).timed_out());
            }
        }

        fn queued_flag(&self) -> &AtomicBool {
            &self.queued
        }
    }

    #[test]
    fn a_submit_during_a_flush_queues_the_target_again_once() {
        let config = FlushSchedulerConfig { parallel_syncs: 1, ..Default::default() };
        let scheduler = FlushScheduler::start(config).unwrap();
        let gate = Arc::new(Gate::default());
        scheduler.submit(gate.clone()).unwrap();
        let mut state = gate.state.lock();
        while state.0 == 0 {
            assert!(!gate.changed.wait_for(&mut state, Duration::from_secs(20)).timed_out());
        }
        drop(state);
        scheduler.submit(gate.clone()).unwrap();
        scheduler.submit(gate.clone()).unwrap();
        assert_eq!(scheduler.queued(), 1);
        gate.state.lock().1 = true;
        gate.changed.notify_all();
        scheduler.shutdown();
        assert_eq!(gate.state.lock().0, 2);
    }
}
