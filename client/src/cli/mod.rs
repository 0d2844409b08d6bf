//! The verbs of the command line: a client of the public API like any other.
//!
//! The `wharf` binary flattens [`Verb`] and [`Globals`] beside its roles. [`run`] carries a verb out and gives the exit code;
//! results go to stdout, all else (progress, summaries, errors) to stderr.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the server refused; the reason stands after the message |
//! | 2 | the command line is wrong |
//! | 3 | no broker answers at the endpoint, the connection broke or the time limit passed |
//! | 4 | input or output: a bad line, an unreadable file, a full disk |
//! | 130 | interrupted |
//!
//! With `-o json` and `-o yaml` the names are those of the API's messages, 64-bit numbers are numbers, and fields are never
//! removed or renamed within `v1`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::client::{Client, ClientOptions, DEFAULT_ENDPOINT};

mod bench;
mod cluster;
mod completion;
mod confirm;
mod consume;
mod error;
mod group;
mod grpcurl;
mod json;
mod output;
mod position;
mod produce;
mod progress;
mod text;
mod time;
mod topic;

pub use completion::CompletionArgs;
pub use error::CliError;

use self::output::Output;

/// What each verb takes.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// Any gateway of the cluster
    #[arg(
        long,
        env = "WHARF_ENDPOINT",
        default_value = DEFAULT_ENDPOINT,
        global = true,
        overrides_with = "endpoint",
        value_name = "HOST:PORT",
        help_heading = "Client options"
    )]
    pub endpoint: String,
    /// How to print results
    #[arg(short, long, value_enum, default_value_t, global = true, help_heading = "Client options")]
    pub output: OutputFormat,
    /// Time limit of each call, and how long failures that may pass are retried
    #[arg(
        long,
        default_value = "30s",
        value_parser = humantime::parse_duration,
        global = true,
        value_name = "DURATION",
        help_heading = "Client options"
    )]
    pub timeout: Duration,
}

impl Globals {
    fn client_options(&self) -> ClientOptions {
        ClientOptions { call_timeout: self.timeout, ..ClientOptions::new(self.endpoint.clone()) }
    }

    async fn connect(&self) -> Result<Client, CliError> {
        Ok(Client::connect(self.client_options()).await?)
    }

    fn output(&self) -> Output {
        Output::new(self.output)
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people: tables and plain lines
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create, list, describe, alter and delete topics
    #[command(subcommand)]
    Topic(topic::TopicVerb),
    /// Write lines as records
    Produce(produce::ProduceArgs),
    /// Read records
    Consume(consume::ConsumeArgs),
    /// List, describe, move and delete groups
    #[command(subcommand)]
    Group(group::GroupVerb),
    /// Look at the cluster
    #[command(subcommand)]
    Cluster(cluster::ClusterVerb),
    /// Print the grpcurl call that does the same
    #[command(subcommand)]
    Grpcurl(grpcurl::GrpcurlVerb),
    /// Measure writing and reading
    #[command(subcommand)]
    Bench(bench::BenchVerb),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
}

/// The verbs alone, as they stand in the help of a binary without roles.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, about = "A gRPC-native log broker", propagate_version = true)]
pub struct VerbCommand {
    /// What each verb takes.
    #[command(flatten)]
    pub globals: Globals,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The command with the verbs alone. A binary that has more builds its own and gives it to [`CompletionArgs::print`].
#[must_use]
pub fn command() -> clap::Command {
    VerbCommand::command()
}

/// Carries a verb out and prints what it ends with. Ctrl-C ends it with code 130.
pub async fn run(verb: Verb, globals: &Globals) -> ExitCode {
    // It commits what it has printed before it ends, so it listens for the signal itself.
    if matches!(verb, Verb::Consume(_)) {
        return exit(dispatch(verb, globals).await);
    }
    tokio::select! {
        outcome = dispatch(verb, globals) => exit(outcome),
        _ = tokio::signal::ctrl_c() => exit(Err(CliError::Interrupted)),
    }
}

/// Tells the error, if there is one, and gives the exit code.
fn exit(outcome: Result<(), CliError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// [`run`] on a runtime of its own with one thread, which is the fastest for a client of one or two connections.
#[must_use]
pub fn run_blocking(verb: Verb, globals: &Globals) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(verb, globals)),
        Err(source) => exit(Err(CliError::io("start the runtime", source))),
    }
}

async fn dispatch(verb: Verb, globals: &Globals) -> Result<(), CliError> {
    match verb {
        Verb::Topic(verb) => topic::run(verb, globals).await,
        Verb::Produce(args) => Box::pin(produce::run(args, globals)).await,
        Verb::Consume(args) => Box::pin(consume::run(args, globals)).await,
        Verb::Group(verb) => group::run(verb, globals).await,
        Verb::Cluster(verb) => cluster::run(verb, globals).await,
        Verb::Grpcurl(verb) => grpcurl::run(&verb, globals),
        Verb::Bench(verb) => Box::pin(bench::run(verb, globals)).await,
        Verb::Completion(args) => args.write(&mut command()),
    }
}

/// `error: ...` and, where somebody can do something about it, `hint: ...`, each one line.
fn report(error: &CliError) {
    // Whoever closed the pipe or pressed Ctrl-C knows.
    if matches!(error, CliError::BrokenPipe | CliError::Interrupted) {
        return;
    }
    let (red, dim, end) = if output::colour(std::io::stderr().is_terminal()) {
        ("\x1b[1;31m", "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    };
    eprintln!("{red}error:{end} {}", one_line(&error.line()));
    if let Some(hint) = error.hint() {
        eprintln!("{dim}hint:{end} {}", one_line(&hint));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn global_options_may_stand_after_the_verb() {
        let parsed =
            VerbCommand::try_parse_from(["wharf", "topic", "ls", "--endpoint", "h:1", "-o", "json"]).unwrap();
        assert_eq!(parsed.globals.endpoint, "h:1");
        assert_eq!(parsed.globals.output, OutputFormat::Json);
        assert_eq!(parsed.globals.timeout, Duration::from_secs(30));
    }
}
