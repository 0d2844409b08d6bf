//! The question before a risky act.

use std::io::{BufRead, IsTerminal, Write};

use super::error::CliError;

/// Asks on the terminal whether to go on; where there is none, goes on, because scripts say what they mean.
///
/// # Errors
/// [`CliError::NotConfirmed`] on any answer but yes.
pub(super) fn confirm(what: &str, yes: bool) -> Result<(), CliError> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if yes || !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(());
    }
    let mut answer = String::new();
    write!(stderr, "{what}? [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| stdin.lock().read_line(&mut answer).map(drop))
        .map_err(|source| CliError::io("ask", source))?;
    if is_yes(&answer) { Ok(()) } else { Err(CliError::NotConfirmed { what: what.to_owned() }) }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("y\n") && is_yes(" YES \n"));
        assert!(!is_yes("\n") && !is_yes("no\n") && !is_yes("yep\n"));
    }
}
