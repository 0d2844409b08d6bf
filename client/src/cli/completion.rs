//! Completion scripts.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::error::CliError;
use super::output::write_stdout;

/// Which completion script to print.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell, as in: source <(wharf completion bash)
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for `command`, which has to be the whole command of the binary.
    pub fn print(&self, command: &mut clap::Command) -> ExitCode {
        super::exit(self.write(command))
    }

    pub(super) fn write(&self, command: &mut clap::Command) -> Result<(), CliError> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, name, &mut script);
        write_stdout(&script)
    }
}
