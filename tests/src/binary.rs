//! Where the `wharf` program is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program under test: `WHARF_BIN`, else the one beside the test executable, which is built if it is not there.
///
/// # Panics
/// If there is none and it cannot be built.
#[must_use]
pub fn wharf() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match std::env::var_os("WHARF_BIN") {
        Some(path) => path.into(),
        None => beside_the_test(),
    })
}

fn beside_the_test() -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its executable");
    // <target>/<profile>/deps/<test>
    let profile = test.ancestors().nth(2).expect("cargo puts tests two folders deep");
    let binary = profile.join("wharf");
    if !binary.exists() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--locked", "-p", "wharf-server", "--bin", "wharf"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.status().expect("cargo can be run");
        assert!(built.success(), "the wharf program could not be built");
    }
    binary
}

/// The program with an environment that no setting of the tests reaches.
#[must_use]
pub fn command() -> Command {
    let mut command = Command::new(wharf());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WHARF_") {
            command.env_remove(name);
        }
    }
    command
}
