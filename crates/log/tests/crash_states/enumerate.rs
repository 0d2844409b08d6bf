//! Going through the crash states of a recording.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_log::log::LogConfig;
use wharf_log::vfs::{CrashPolicy, MemoryVfs};

use crate::check::check;
use crate::scenario::{Recording, Version, open};

/// How much is tried.
pub(crate) struct Budget {
    pub(crate) states: u64,
}

/// What was tried.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) points: u64,
    pub(crate) states: u64,
    pub(crate) second: u64,
}

/// One in so many states has its recovery crashed again.
const SECOND_CRASH_ONE_IN: u64 = 29;
/// One in so many states is appended to, crashed and opened again.
const APPEND_ONE_IN: u64 = 7;

/// Counts through all sequences of choices, in lexicographic order.
#[derive(Default)]
struct Odometer {
    digits: Vec<(usize, usize)>,
    at: usize,
}

impl Odometer {
    fn choose(&mut self, options: usize) -> usize {
        if self.at == self.digits.len() {
            self.digits.push((0, options));
        }
        self.at += 1;
        self.digits[self.at - 1].0
    }

    /// The next sequence; false after the last.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((digit, options)) = self.digits.pop() {
            if digit + 1 < options {
                self.digits.push((digit + 1, options));
                return true;
            }
        }
        false
    }
}

pub(crate) fn run(recording: Recording, budget: Budget) -> Outcome {
    let mut outcome = Outcome::default();
    let vfs = recording.start.fork();
    let points = recording.operations.len() as u64 + 1;
    let per_point = (budget.states / points).max(3);
    for done in 0..=recording.operations.len() {
        let at = recording.points.partition_point(|(operations, _)| *operations <= done) - 1;
        let before = &recording.points[at].1;
        let after = &recording.points.get(at + 1).unwrap_or(&recording.points[at]).1;
        let context = Context { done, versions: (before, after), config: &recording.config };
        enumerate_point(&vfs, &context, per_point, &mut outcome);
        outcome.points += 1;
        if let Some(operation) = recording.operations.get(done) {
            vfs.replay(operation);
        }
    }
    outcome
}

struct Context<'a> {
    done: usize,
    versions: (&'a Version, &'a Version),
    config: &'a LogConfig,
}

/// All crash states of a point if they are few, else those of the first choices and a sample of the rest.
fn enumerate_point(vfs: &MemoryVfs, context: &Context<'_>, limit: u64, outcome: &mut Outcome) {
    kill_then_power_loss(vfs, context, outcome);
    let mut odometer = Odometer::default();
    let mut count = 0;
    loop {
        let state = vfs.crash_with(&mut |options| odometer.choose(options));
        try_state(&state, context, outcome);
        count += 1;
        if !odometer.advance() {
            return;
        }
        if count * 2 >= limit {
            break;
        }
    }
    try_state(&vfs.crash(CrashPolicy::KeepAll), context, outcome);
    for seed in 0..limit / 2 {
        let seed = seed * 1_000_003 + context.done as u64;
        try_state(&vfs.crash(CrashPolicy::Seeded(seed)), context, outcome);
    }
}

fn try_state(state: &MemoryVfs, context: &Context<'_>, outcome: &mut Outcome) {
    outcome.states += 1;
    if outcome.states.is_multiple_of(SECOND_CRASH_ONE_IN) {
        crash_recovery(state, context, outcome);
    }
    let copy = state.fork();
    let log = checked(&copy, context);
    if outcome.states.is_multiple_of(APPEND_ONE_IN) {
        drop(log);
        append_and_crash(&copy, context);
    }
}

/// T26: the process dies, what it wrote is still in the page cache, and is recovered; then the power fails.
fn kill_then_power_loss(vfs: &MemoryVfs, context: &Context<'_>, outcome: &mut Outcome) {
    let killed = vfs.fork();
    let first = checked(&killed, context);
    for policy in [CrashPolicy::LoseAll, CrashPolicy::Seeded(context.done as u64)] {
        outcome.states += 1;
        let second = checked(&killed.crash(policy), context);
        let (before, after) = (first.durable_end_offset(), second.log_end_offset());
        assert_eq!(before, after, "after {} operations: what was recovered is lost", context.done);
    }
}

/// Crashes the recovery of a state at each of its mutations.
fn crash_recovery(state: &MemoryVfs, context: &Context<'_>, outcome: &mut Outcome) {
    let recovering = state.fork();
    recovering.start_recording();
    drop(open(&recovering, context.config));
    let half_done = state.fork();
    for (at, operation) in recovering.recorded().iter().enumerate() {
        half_done.replay(operation);
        let seed = outcome.states * 131 + at as u64;
        for policy in [CrashPolicy::LoseAll, CrashPolicy::Seeded(seed), CrashPolicy::Seeded(seed + 7)] {
            outcome.states += 1;
            outcome.second += 1;
            checked(&half_done.crash(policy), context);
        }
    }
}

/// What is appended and flushed after a recovery survives the next crash.
fn append_and_crash(state: &MemoryVfs, context: &Context<'_>) {
    let (dir, (mut log, _)) = open(state, context.config);
    let end = log.log_end_offset();
    let epoch = log.leader_epoch().next();
    log.begin_leader_epoch(epoch).unwrap();
    let visible = crate::scenario::read_all(&log);
    // Beyond where the log ended before the crash, so that nothing left from there is taken for new.
    for sequence in 0..8 {
        crate::scenario::append_marker(&mut log, epoch, sequence);
    }
    let durable_end = log.flush().unwrap();
    let producers = log.producer_states().encode_snapshot();
    drop((dir, log));
    let (_dir, (log, report)) = open(&state.crash(CrashPolicy::LoseAll), context.config);
    assert!(report.damaged.is_empty(), "after {}: {report:?}", context.done);
    assert_eq!(log.log_end_offset(), durable_end, "after {} operations", context.done);
    let again = crate::scenario::read_all(&log);
    assert!(visible.iter().all(|(offset, value)| again.get(offset) == Some(value)));
    assert!(again.contains_key(&end.value()));
    assert_eq!(log.producer_states().encode_snapshot(), producers, "after {} operations", context.done);
}

fn checked(state: &MemoryVfs, context: &Context<'_>) -> wharf_log::log::Log {
    let original = state.fork();
    let result = catch_unwind(AssertUnwindSafe(|| check(state, context.config, context.versions)));
    match result {
        Ok(Ok(log)) => log,
        Ok(Err(reason)) => panic!("{}", describe(&original, context, &reason)),
        Err(_) => panic!("{}", describe(&original, context, "it panicked")),
    }
}

fn describe(state: &MemoryVfs, context: &Context<'_>, reason: &str) -> String {
    use std::fmt::Write as _;
    use wharf_log::vfs::{OpenMode, Vfs};
    let mut text = format!("crash after {} operations: {reason}\n", context.done);
    let (before, after) = context.versions;
    for (name, version) in [("before", before), ("after", after)] {
        let ends = (version.log_start, version.durable_end, version.log_end);
        let _ = writeln!(text, "{name}: start, durable and log end {ends:?}");
    }
    let mut queue = vec![std::path::PathBuf::from(crate::scenario::ROOT)];
    while let Some(dir) = queue.pop() {
        for entry in state.read_dir(&dir).unwrap_or_default() {
            let path = dir.join(&entry.name);
            if entry.is_dir {
                queue.push(path);
            } else {
                let length = state.open(&path, OpenMode::Read).and_then(|file| file.len());
                let _ = writeln!(text, "  {} {length:?}", path.display());
            }
        }
    }
    text
}
