//! Threads for blocking IO, so that no worker of the async runtime ever waits for a disk.
//!
//! Jobs run in the order in which they are submitted, as threads become free. The queue needs no bound of its own:
//! a partition stands in it at most once, and reads are bounded by the calls in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<Job>,
    /// Threads without a job. The one that became idle last is woken first: its core still has its memory at hand.
    idle: Vec<Thread>,
    closed: bool,
}

struct Inner {
    queue: Mutex<Queue>,
}

/// A pool of IO threads; dropping it lets the queued jobs finish and joins the threads.
pub(crate) struct IoPool {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl IoPool {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// Those of the operating system when it starts a thread.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let queue = Queue { jobs: VecDeque::new(), idle: Vec::new(), closed: false };
        let inner = Arc::new(Inner { queue: Mutex::new(queue) });
        let spawn = |index: usize| {
            let inner = Arc::clone(&inner);
            std::thread::Builder::new().name(format!("wharf-io-{index}")).spawn(move || work(&inner))
        };
        let threads = (0..threads.max(1)).map(spawn).collect::<std::io::Result<Vec<_>>>()?;
        Ok(IoPool { inner, threads: Mutex::new(threads) })
    }

    /// Queues a job.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.inner.queue.lock();
        queue.jobs.push_back(Box::new(job));
        let woken = queue.idle.pop();
        drop(queue);
        if let Some(thread) = woken {
            thread.unpark();
        }
    }

    /// Runs a job and hands its result over; the receiver fails only if the job panics.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        // The caller may be gone; the job was still worth its effects.
        self.submit(move || drop(sender.send(job())));
        receiver
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        let idle = {
            let mut queue = self.inner.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.idle)
        };
        idle.iter().for_each(Thread::unpark);
        let current = std::thread::current().id();
        for thread in self.threads.get_mut().drain(..) {
            // The last handle may be dropped by one of the threads itself.
            if thread.thread().id() != current && thread.join().is_err() {
                tracing::error!("an IO thread panicked");
            }
        }
    }
}

/// A panic here has left a log in the middle of a change. Nothing that follows can be trusted, so the process ends;
/// the next start recovers what was acknowledged.
fn run_or_abort(job: Job) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
        tracing::error!("a storage thread panicked; the process ends");
        std::process::abort();
    }
}

fn work(inner: &Inner) {
    let mut queue = inner.queue.lock();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            parking_lot::MutexGuard::unlocked(&mut queue, || run_or_abort(job));
        } else if queue.closed {
            return;
        } else {
            let me = std::thread::current();
            queue.idle.push(me.clone());
            parking_lot::MutexGuard::unlocked(&mut queue, std::thread::park);
            // Also after a wake-up for no reason: a thread at work must not stand among the idle ones.
            queue.idle.retain(|thread| thread.id() != me.id());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn results_come_back() {
        let pool = IoPool::start(2).unwrap();
        let sums: Vec<_> = (0..100u64).map(|n| pool.run(move || n * 2)).collect();
        for (n, sum) in sums.into_iter().enumerate() {
            assert_eq!(sum.await.unwrap(), n as u64 * 2);
        }
    }

    #[test]
    fn dropping_the_pool_finishes_what_is_queued() {
        let pool = IoPool::start(1).unwrap();
        let counter = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for _ in 0..50 {
            let counter = Arc::clone(&counter);
            pool.submit(move || {
                counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        drop(pool);
        assert_eq!(counter.load(std::sync::atomic::Ordering::SeqCst), 50);
    }
}
