//! What the checks found.

use std::process::ExitCode;

/// Findings of one or more checks, each as `place: text`.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    /// Adds what must be repaired.
    pub(crate) fn error(&mut self, place: impl std::fmt::Display, text: impl std::fmt::Display) {
        self.errors.push(format!("{place}: {text}"));
    }

    /// Adds what should be looked at.
    pub(crate) fn warning(&mut self, place: impl std::fmt::Display, text: impl std::fmt::Display) {
        self.warnings.push(format!("{place}: {text}"));
    }

    /// Prints all findings. The exit code says whether there are errors.
    pub(crate) fn print(&self) -> ExitCode {
        for warning in &self.warnings {
            println!("warning: {warning}");
        }
        for error in &self.errors {
            println!("error: {error}");
        }
        if self.errors.is_empty() {
            ExitCode::SUCCESS
        } else {
            println!("{} errors, {} warnings", self.errors.len(), self.warnings.len());
            ExitCode::FAILURE
        }
    }

    #[cfg(test)]
    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    #[cfg(test)]
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
