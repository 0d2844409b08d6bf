//! The `wharf` program: roles of the server, and the verbs of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use wharf_client::cli::{Globals, Verb};
use wharf_server::config::{StandaloneArgs, StandaloneConfig};
use wharf_server::{exit, recover, standalone, telemetry};

// Small, fast and steady under many threads; the system's allocator is not (see docs/adr).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "wharf", version, about = "A gRPC-native log broker", propagate_version = true)]
struct Command {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Run a whole broker in one process
    Standalone(Box<StandaloneArgs>),
    /// Rebuild what was damaged from what is left
    #[command(subcommand)]
    Recover(Recover),
    #[command(flatten)]
    Verb(Box<Verb>),
}

#[derive(Subcommand)]
enum Recover {
    /// Make a new controller store from the partition folders
    Metadata {
        /// Folder of the stopped server
        #[arg(long, value_name = "DIR", default_value = "./wharf-data")]
        data_dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let command = Command::parse();
    match command.role {
        Role::Standalone(args) => report(run_standalone(&args)),
        Role::Recover(Recover::Metadata { data_dir }) => report(recover::metadata(&data_dir)),
        Role::Verb(verb) => run_verb(*verb, &command.globals),
    }
}

fn run_standalone(args: &StandaloneArgs) -> anyhow::Result<()> {
    let config = StandaloneConfig::load(args)?;
    if args.dump_config {
        print!("{}", config.dump()?);
        return Ok(());
    }
    telemetry::start_logging(&config.log, config.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.workers())
        .thread_name("wharf-worker")
        .enable_all()
        .build()?;
    if let Err(error) = runtime.block_on(standalone::run(config)) {
        eprintln!("error: {error:#}");
        exit::exit_now(1);
    }
    Ok(())
}

fn run_verb(verb: Verb, globals: &Globals) -> ExitCode {
    if let Verb::Completion(args) = &verb {
        return args.print(&mut Command::command());
    }
    wharf_client::cli::run_blocking(verb, globals)
}

fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
