//! The verbs of the command line without the roles: a client-only `wharf`.

use std::process::ExitCode;

use clap::Parser;
use wharf_client::cli::{VerbCommand, run_blocking};

fn main() -> ExitCode {
    let VerbCommand { globals, verb } = VerbCommand::parse();
    run_blocking(verb, &globals)
}
