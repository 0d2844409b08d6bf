//! The loop: fetch, print, note for commit.
//!
//! Each partition has at most one fetch under way, and a bounded number of partitions have one, so that long polls of
//! quiet partitions never keep busy ones from being asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures::future::Future;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use wharf_proto::v1::{self, ErrorReason};
use wharf_types::{Offset, TimestampMs};

use super::commit::Committer;
use super::plan::{Cursor, Stop};
use super::render::Renderer;
use super::{ConsumeArgs, OnOutOfRange};
use crate::cli::Globals;
use crate::cli::error::CliError;
use crate::cli::time::now;
use crate::error::ClientError;
use crate::fetcher::FetchPosition;

/// Fetches under way at once.
const FETCHES_MAX: usize = 32;
/// How long a fetch waits where every partition can have one under way.
const WAIT_LONG: Duration = Duration::from_secs(10);
/// How long it waits where partitions take turns.
const WAIT_TURN: Duration = Duration::from_millis(100);
/// How long to leave a partition alone after a failure that may pass.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

struct Fetched {
    cursor: Cursor,
    failing_since: Option<Instant>,
    outcome: Result<v1::FetchResponse, ClientError>,
}

type Fetch = Pin<Box<dyn Future<Output = Fetched> + Send>>;

/// Reads partitions until each has reached its end.
pub(super) struct Reader {
    topic: String,
    on_out_of_range: OnOutOfRange,
    retry_for: Duration,
    records_left: Option<u64>,
    wait: Duration,
    queue: VecDeque<Cursor>,
    running: FuturesUnordered<Fetch>,
    renderer: Renderer,
    committer: Option<Committer>,
    buffer: Vec<u8>,
    stdout: tokio::io::Stdout,
}

impl Reader {
    pub(super) fn new(
        args: &ConsumeArgs,
        globals: &Globals,
        cursors: Vec<Cursor>,
        renderer: Renderer,
        committer: Option<Committer>,
    ) -> Self {
        Reader {
            topic: args.topic.clone(),
            on_out_of_range: args.on_out_of_range,
            retry_for: globals.timeout,
            records_left: args.max_records,
            wait: if cursors.len() <= FETCHES_MAX { WAIT_LONG } else { WAIT_TURN },
            queue: cursors.into(),
            running: FuturesUnordered::new(),
            renderer,
            committer,
            buffer: Vec::new(),
            stdout: tokio::io::stdout(),
        }
    }

    /// Reads until the ends are reached or enough records were printed.
    pub(super) async fn run(&mut self) -> Result<(), CliError> {
        loop {
            if self.records_left == Some(0) {
                return Ok(());
            }
            while self.running.len() < FETCHES_MAX
                && let Some(cursor) = self.queue.pop_front()
            {
                self.start(cursor, None);
            }
            let due = self.committer.as_ref().and_then(Committer::due);
            tokio::select! {
                fetched = self.running.next() => match fetched {
                    Some(fetched) => self.take(fetched).await?,
                    None => return Ok(()),
                },
                () = sleep_until(due) => self.commit_now().await?,
            }
        }
    }

    /// Commits what was printed, if commits were asked for.
    pub(super) async fn commit_now(&mut self) -> Result<(), CliError> {
        match &mut self.committer {
            Some(committer) => committer.commit().await,
            None => Ok(()),
        }
    }

    fn start(&self, mut cursor: Cursor, failing_since: Option<Instant>) {
        let wait = match (cursor.stop, cursor.fetcher.position()) {
            // Only the first answer tells whether anything is left before the end.
            (Stop::Before(_), FetchPosition::Earliest | FetchPosition::AppendTime(_)) => Duration::ZERO,
            (Stop::Never | Stop::Before(_), _) => self.wait,
            (Stop::At(time), _) => self.wait.min(Duration::from_millis(time.since(now()) + 1)),
        };
        self.running.push(Box::pin(async move {
            if failing_since.is_some() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            let outcome = if starts_at_end(&cursor) {
                Ok(v1::FetchResponse::default())
            } else {
                cursor.fetcher.fetch(wait).await
            };
            Fetched { cursor, failing_since, outcome }
        }));
    }

    async fn take(&mut self, fetched: Fetched) -> Result<(), CliError> {
        let Fetched { cursor, failing_since, outcome } = fetched;
        match outcome {
            Ok(response) => {
                let partition = cursor.fetcher.partition();
                let printed = self.print(partition, &response.records, cursor.stop)?;
                self.flush().await?;
                self.note(&cursor, &response, &printed);
                if !printed.stopped && !is_done(&cursor) && !self.time_is_up(&cursor, &response) {
                    self.queue.push_back(cursor);
                }
                Ok(())
            }
            Err(error) => self.recover(cursor, failing_since, error),
        }
    }

    /// Prints records up to the end of the partition or of the run.
    fn print(
        &mut self,
        partition: i32,
        records: &[v1::FetchedRecord],
        stop: Stop,
    ) -> Result<Printed, CliError> {
        let mut printed = Printed::default();
        for record in records {
            let offset = record.offset.and_then(Offset::from_wire);
            let offset = offset.ok_or(ClientError::Protocol { problem: "a record without offset" })?;
            let time = record.append_time_ms.and_then(TimestampMs::from_wire).unwrap_or_default();
            if self.records_left == Some(0) || stop.excludes(offset, time) {
                printed.stopped = true;
                break;
            }
            self.renderer.render(partition, record, &mut self.buffer)?;
            self.records_left = self.records_left.map(|left| left - 1);
            printed.next = Some(offset.next());
            printed.leader_epoch = record.leader_epoch;
        }
        Ok(printed)
    }

    async fn flush(&mut self) -> Result<(), CliError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let failed = |source| CliError::io("write records", source);
        self.stdout.write_all(&self.buffer).await.map_err(failed)?;
        self.stdout.flush().await.map_err(failed)?;
        self.buffer.clear();
        Ok(())
    }

    fn note(&mut self, cursor: &Cursor, response: &v1::FetchResponse, printed: &Printed) {
        let Some(committer) = &mut self.committer else { return };
        // Past gaps too, but never past a record that was not printed.
        let next = if printed.stopped { None } else { response.next_offset.and_then(Offset::from_wire) };
        if let (Some(next), Some(_)) = (next.or(printed.next), printed.next) {
            committer.note(cursor.fetcher.partition(), next, printed.leader_epoch);
        }
    }

    fn time_is_up(&self, cursor: &Cursor, response: &v1::FetchResponse) -> bool {
        match cursor.fetcher.position() {
            FetchPosition::Offset(next) => cursor.stop.reached(next, now(), response.records.is_empty()),
            _ => false,
        }
    }

    /// Goes on after a failure, or gives up.
    fn recover(
        &mut self,
        mut cursor: Cursor,
        failing_since: Option<Instant>,
        error: ClientError,
    ) -> Result<(), CliError> {
        let partition = cursor.fetcher.partition();
        if error.reason() == Some(ErrorReason::OffsetOutOfRange) {
            let (position, name) = match self.on_out_of_range {
                OnOutOfRange::Error => return Err(self.failed(partition, error)),
                OnOutOfRange::Earliest => (FetchPosition::Earliest, "the oldest record"),
                OnOutOfRange::Latest => (FetchPosition::Latest, "the end"),
            };
            eprintln!("note: partition {partition}: {error}; going on at {name}");
            cursor.fetcher.reset_to(position);
            self.queue.push_back(cursor);
            return Ok(());
        }
        let since = failing_since.unwrap_or_else(Instant::now);
        if !error.is_transient() || since.elapsed() >= self.retry_for {
            return Err(self.failed(partition, error));
        }
        self.start(cursor, Some(since));
        Ok(())
    }

    fn failed(&self, partition: i32, source: ClientError) -> CliError {
        CliError::Fetch { topic: self.topic.clone(), partition, source }
    }
}

#[derive(Debug, Default)]
struct Printed {
    /// Offset after the last record that was printed.
    next: Option<Offset>,
    leader_epoch: Option<i32>,
    /// A record was there that is not to be printed.
    stopped: bool,
}

/// Whether there is nothing to ask for. A start beyond the end is asked for: the server says whether there is such an offset.
fn starts_at_end(cursor: &Cursor) -> bool {
    match (cursor.stop, cursor.fetcher.position()) {
        (Stop::Before(end), FetchPosition::Offset(next)) => next == end,
        (Stop::Before(end), _) => end == Offset::ZERO,
        _ => false,
    }
}

/// Whether the next record to fetch is beyond the end already.
fn is_done(cursor: &Cursor) -> bool {
    match (cursor.stop, cursor.fetcher.position()) {
        (Stop::Before(end), FetchPosition::Offset(next)) => next >= end,
        (Stop::Before(end), _) => end == Offset::ZERO,
        _ => false,
    }
}

/// Never, where there is nothing due.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
