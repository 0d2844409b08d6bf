//! `wharf produce`: lines become records.
//!
//! Lines are read and split on a thread of their own, which hands over requests of about `--batch-bytes` through a short
//! queue; input that pauses is sent at once, so that `tail -f | wharf produce` is as prompt as it looks. Nothing is dropped
//! silently: a line that cannot be a record ends the run with its number, after everything before it was written.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use wharf_proto::v1::{self, ErrorReason};
use wharf_types::limits::PRODUCER_UNANSWERED_MAX;

use super::Globals;
use super::error::CliError;
use super::output::{bytes_text, count_text};
use super::progress::Progress;
use super::text::{NameValue, Separator};
use crate::client::Client;
use crate::producer::{Acknowledged, PipelineOptions, ProducePipeline, RequestFailure};

mod lines;

use lines::{Chunk, LineFormat, ReadSummary};

/// Requests that may wait between the reading thread and the stream.
const CHUNKS_QUEUED_MAX: usize = 4;

/// What to write, and how.
#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// Topic, which has to exist unless --create-topic is given
    topic: String,
    /// Read lines from this file [default: stdin]
    #[arg(short, long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// What stands between key and value, as in '\t'; the first one on a line counts
    #[arg(short = 'K', long, value_name = "TEXT", conflicts_with = "key")]
    key_separator: Option<Separator>,
    /// One key for all lines
    #[arg(short, long, value_name = "TEXT")]
    key: Option<String>,
    /// A value that means "none": such records are tombstones
    #[arg(long, value_name = "TEXT")]
    null_value: Option<String>,
    /// A header for all records; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    headers: Vec<NameValue>,
    /// Partition for all records [default: by key]
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// When a record counts as written
    #[arg(long, value_enum, default_value_t)]
    acks: AcksArg,
    /// Give requests a producer identity, so that retries cannot write twice; =false writes without and never retries
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    idempotent: bool,
    /// Count and skip lines without the key separator instead of ending with an error
    #[arg(long, requires = "key_separator")]
    skip_invalid: bool,
    /// Create the topic if it does not exist
    #[arg(long)]
    create_topic: bool,
    /// Number of partitions of a topic that is created
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "create_topic", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Bytes of lines that make a request
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=2_097_152))]
    batch_bytes: u32,
    /// Requests that may be unanswered at once
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=PRODUCER_UNANSWERED_MAX as i64))]
    unanswered: u16,
    /// Print progress once a second even if stderr is no terminal
    #[arg(long)]
    progress: bool,
}

/// When a record counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum AcksArg {
    /// After validation; the record may be lost
    None,
    /// Once the leader has it
    Leader,
    /// Once every in-sync replica has it
    #[default]
    All,
}

impl AcksArg {
    pub(super) fn to_wire(self) -> v1::Acks {
        match self {
            AcksArg::None => v1::Acks::None,
            AcksArg::Leader => v1::Acks::Leader,
            AcksArg::All => v1::Acks::All,
        }
    }
}

impl ProduceArgs {
    fn line_format(&self) -> LineFormat {
        LineFormat {
            separator: self.key_separator.clone(),
            key: self.key.clone().map(Into::into),
            null_value: self.null_value.clone().map(Into::into),
            headers: headers(&self.headers),
            skip_invalid: self.skip_invalid,
            batch_bytes: self.batch_bytes as usize,
        }
    }

    fn pipeline_options(&self, globals: &Globals) -> PipelineOptions {
        PipelineOptions {
            topic: self.topic.clone(),
            partition: self.partition,
            acks: self.acks.to_wire(),
            unanswered_max: usize::from(self.unanswered),
            idempotent: self.idempotent,
            retry_for: globals.timeout,
        }
    }
}

pub(super) fn headers(pairs: &[NameValue]) -> Vec<v1::Header> {
    pairs
        .iter()
        .map(|pair| v1::Header {
            name: pair.name.clone(),
            value: Some(pair.value.clone().into()),
            value_text: None,
        })
        .collect()
}

pub(super) async fn run(args: ProduceArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    ensure_topic(&client, &args).await?;
    let (source, total_bytes) = open(args.file.as_ref())?;
    let mut pipeline = ProducePipeline::open(&client, args.pipeline_options(globals)).await?;
    let (sink, chunks) = mpsc::channel(CHUNKS_QUEUED_MAX);
    let format = args.line_format();
    let started = Instant::now();
    // A thread of its own, which the runtime does not wait for at its end: a terminal may never give another line.
    let (ended, read) = oneshot::channel();
    let read_all = move || drop(ended.send(lines::read_lines(source, &format, &sink)));
    std::thread::Builder::new()
        .name("wharf-lines".to_owned())
        .spawn(read_all)
        .map_err(|source| CliError::io("start a thread", source))?;
    let mut progress = Progress::new(args.progress, total_bytes);
    let outcome = pump(&mut pipeline, chunks, &mut progress, started).await;
    progress.finish();
    let acknowledged = pipeline.acknowledged();
    outcome.map_err(|failure| produce_error(failure, &args.topic, acknowledged))?;
    // The reader has ended: the queue is closed only by its end.
    let read = read.await.unwrap_or(Err(CliError::Interrupted));
    if read.is_err() && acknowledged.records > 0 {
        eprintln!("note: all records before it were written: {}", acknowledged.records);
    }
    print_summary(&args, globals, acknowledged, &read?, started)
}

/// Sends what the reader hands over until it ends, then waits for all answers.
async fn pump(
    pipeline: &mut ProducePipeline,
    mut chunks: mpsc::Receiver<Chunk>,
    progress: &mut Progress,
    started: Instant,
) -> Result<Acknowledged, RequestFailure> {
    let mut read_bytes = 0;
    loop {
        tokio::select! {
            chunk = chunks.recv() => match chunk {
                Some(chunk) => {
                    read_bytes += chunk.input_bytes;
                    pipeline.push(chunk.records, chunk.first_line).await?;
                }
                None => break,
            },
            answer = pipeline.next_answer(), if pipeline.unanswered() > 0 => answer?,
        }
        let acknowledged = pipeline.acknowledged();
        progress.update(read_bytes, || rate_text(acknowledged, started));
    }
    pipeline.finish().await
}

fn rate_text(acknowledged: Acknowledged, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64().max(1e-3);
    format!("{} records, {:.0} records/s", acknowledged.records, acknowledged.records as f64 / seconds)
}

fn produce_error(failure: RequestFailure, topic: &str, acknowledged: Acknowledged) -> CliError {
    if failure.error.reason() == Some(ErrorReason::TopicNotFound) && acknowledged.records == 0 {
        return CliError::NoTopic { topic: topic.to_owned() };
    }
    CliError::Produce {
        first_line: failure.tag,
        acknowledged: acknowledged.records,
        topic: topic.to_owned(),
        failure: Box::new(failure),
    }
}

async fn ensure_topic(client: &Client, args: &ProduceArgs) -> Result<(), CliError> {
    let request = client.request(v1::GetTopicRequest {
        topic: args.topic.clone(),
        page_size: 1,
        page_token: String::new(),
    });
    let missing = match client.decode(client.admin().get_topic(request).await) {
        Ok(_) => return Ok(()),
        Err(error) if error.reason() == Some(ErrorReason::TopicNotFound) => error,
        Err(error) => return Err(error.into()),
    };
    drop(missing);
    if !args.create_topic {
        return Err(CliError::NoTopic { topic: args.topic.clone() });
    }
    let request = client.request(v1::CreateTopicRequest {
        topic: args.topic.clone(),
        partitions: args.partitions,
        ..Default::default()
    });
    match client.decode(client.admin().create_topic(request).await) {
        Err(error) if error.reason() != Some(ErrorReason::TopicAlreadyExists) => Err(error.into()),
        // Somebody else was faster: it is there.
        _ => Ok(()),
    }
}

/// What to read, and how many bytes that is where it is known.
fn open(path: Option<&PathBuf>) -> Result<(Box<dyn Read + Send>, Option<u64>), CliError> {
    let Some(path) = path else { return Ok((Box::new(std::io::stdin()), None)) };
    let failed = |source| CliError::io(format!("open {}", path.display()), source);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

fn print_summary(
    args: &ProduceArgs,
    globals: &Globals,
    acknowledged: Acknowledged,
    read: &ReadSummary,
    started: Instant,
) -> Result<(), CliError> {
    let seconds = started.elapsed().as_secs_f64().max(1e-6);
    let Acknowledged { requests, records, bytes } = acknowledged;
    globals.output().print(
        || {
            Ok(json!({
                "topic": args.topic,
                "records": records,
                "bytes": bytes,
                "requests": requests,
                "lines_skipped": read.lines_skipped,
                "seconds": seconds,
                "records_per_second": records as f64 / seconds,
                "bytes_per_second": bytes as f64 / seconds,
            }))
        },
        |_| {
            let rate = bytes_text((bytes as f64 / seconds) as u64);
            let skipped = match read.lines_skipped {
                0 => String::new(),
                count => format!(", {} skipped", count_text(count, "line")),
            };
            format!(
                "{} ({}) written to {} in {seconds:.2} s: {:.0} records/s, {rate}/s{skipped}\n",
                count_text(records, "record"),
                bytes_text(bytes),
                args.topic,
                records as f64 / seconds,
            )
        },
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Harness {
        #[command(flatten)]
        args: ProduceArgs,
    }

    fn parse(words: &[&str]) -> Result<ProduceArgs, clap::Error> {
        Harness::try_parse_from(std::iter::once("x").chain(words.iter().copied())).map(|harness| harness.args)
    }

    #[test]
    fn separators_take_escapes() {
        let args = parse(&["flights", "--key-separator", r"\t"]).unwrap();
        assert_eq!(args.key_separator.unwrap().0, b"\t");
        assert!(args.idempotent);
    }

    #[test]
    fn idempotence_is_on_unless_turned_off() {
        assert!(parse(&["t", "--idempotent"]).unwrap().idempotent);
        assert!(!parse(&["t", "--idempotent=false"]).unwrap().idempotent);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        assert!(parse(&["t", "--key", "k", "--key-separator", ":"]).is_err());
        assert!(parse(&["t", "--skip-invalid"]).is_err());
        assert!(parse(&["t", "--partitions", "3"]).is_err());
        assert!(parse(&["t", "--unanswered", "65"]).is_err());
        assert!(parse(&["t", "--partition", "-1"]).is_err());
        assert!(parse(&["t", "--create-topic", "--partitions", "3"]).is_ok());
    }
}
