//! `wharf consume`: records to stdout.
//!
//! Records of one partition come in their order; partitions mix as they come. Bytes are written as they are. With `--group`
//! the run starts at the committed positions and commits what it has written, after stdout took it: a run that is killed
//! prints some records again in the next one and loses none.

use clap::{Args, ValueEnum};

use super::Globals;
use super::error::CliError;
use super::position::Place;
use super::text::RecordFormat;

mod commit;
mod plan;
mod reader;
mod render;

use commit::Committer;
use reader::Reader;
use render::Renderer;

/// What to read, and how to print it.
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// Topic
    topic: String,
    /// Where to start; with --group only where nothing is committed: earliest, latest, an offset (17), a time
    /// (2026-01-31T12:00:00Z), how long ago (1h)
    #[arg(long, value_name = "POSITION", default_value = "earliest")]
    from: Place,
    /// Where to stop [default: never]: end (what is there now), an offset or a time, which are not part of it any more
    #[arg(long, value_name = "POSITION")]
    until: Option<Place>,
    /// Only this partition; may be repeated
    #[arg(short, long = "partition", value_name = "PARTITION", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Stop after so many records
    #[arg(short = 'n', long, value_name = "COUNT")]
    max_records: Option<u64>,
    /// Start at this group's positions and commit as it goes
    #[arg(short, long)]
    group: Option<String>,
    /// Do not commit
    #[arg(long, requires = "group")]
    no_commit: bool,
    /// How a record is printed: %k key, %v value, %t topic, %p partition, %o offset, %T event time and %a append time in
    /// ms, %h headers, %%, \t, \n, \xHH
    #[arg(short, long, default_value = r"%v\n", hide_default_value = true)]
    format: RecordFormat,
    /// What to do where records at the position have been deleted
    #[arg(long, value_enum, default_value_t)]
    on_out_of_range: OnOutOfRange,
    /// Also records of open and aborted transactions
    #[arg(long)]
    read_uncommitted: bool,
}

/// What to do where records at the position have been deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OnOutOfRange {
    /// End with an error
    #[default]
    Error,
    /// Go on at the oldest record, and say so
    Earliest,
    /// Go on at the end, and say so
    Latest,
}

pub(super) async fn run(args: ConsumeArgs, globals: &Globals) -> Result<(), CliError> {
    if args.until == Some(Place::Earliest) {
        return Err(CliError::Usage { problem: "--until earliest would read nothing" });
    }
    let client = globals.connect().await?;
    let cursors = plan::plan(&client, &args).await?;
    let renderer = Renderer::new(&args, globals.output);
    let group = args.group.clone().filter(|_| !args.no_commit);
    let committer = group.map(|group| Committer::new(&client, group, args.topic.clone()));
    let mut reader = Reader::new(&args, globals, cursors, renderer, committer);
    let interrupted = tokio::select! {
        outcome = reader.run() => outcome.map(|()| false),
        _ = tokio::signal::ctrl_c() => Ok(true),
    };
    // Whatever ended it, what was printed is committed.
    let committed = reader.commit_now().await;
    match interrupted {
        Ok(false) => committed,
        Ok(true) => committed.and(Err(CliError::Interrupted)),
        Err(error) => Err(error),
    }
}
