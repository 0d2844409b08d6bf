//! Completion scripts.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use super::error::CliError;

/// Which completion script to print.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell, as in: source <(wharf completion bash)
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for `command`, which has to be the whole command of the binary.
    ///
    /// # Errors
    /// [`CliError::Io`] if stdout cannot be written.
    pub fn print(&self, command: &mut clap::Command) -> Result<(), CliError> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, name, &mut script);
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(&script)
            .and_then(|()| stdout.flush())
            .map_err(|source| CliError::io("write the script", source))
    }
}
