//! The command line against a broker.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::binary;

/// How a run of the command line ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none after a signal.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Ran {
    /// stdout as text.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("stdout is text")
    }

    /// stdout as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| {
            panic!("stdout is not JSON: {error}\n{}", String::from_utf8_lossy(&self.stdout))
        })
    }
}

/// A verb for the broker at this address, to be run by the caller.
#[must_use]
pub fn command(broker: SocketAddr, args: &[&str]) -> Command {
    let mut command = binary::command();
    command.args(args).env("WHARF_ENDPOINT", broker.to_string());
    command
}

/// Runs a verb with this input.
///
/// # Panics
/// If the program cannot be run.
#[must_use]
pub fn run_with(broker: SocketAddr, args: &[&str], input: &[u8]) -> Ran {
    let mut command = command(broker, args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that ends early reads no further, which is its right.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a verb without input.
///
/// # Panics
/// If the program cannot be run.
#[must_use]
pub fn run(broker: SocketAddr, args: &[&str]) -> Ran {
    run_with(broker, args, b"")
}

/// Runs a verb that has to succeed.
///
/// # Panics
/// If its exit code is not 0.
pub fn ok(broker: SocketAddr, args: &[&str]) -> Ran {
    ok_with(broker, args, b"")
}

/// Runs a verb with input that has to succeed.
///
/// # Panics
/// If its exit code is not 0.
pub fn ok_with(broker: SocketAddr, args: &[&str], input: &[u8]) -> Ran {
    let ran = run_with(broker, args, input);
    assert_eq!(ran.code, Some(0), "wharf {args:?} failed: {}", ran.stderr);
    ran
}
