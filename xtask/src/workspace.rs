//! The workspace as cargo and git know it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// The workspace's root, packages and files.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
    /// Files that git tracks or would track, relative to the root, in lexical order.
    pub(crate) files: Vec<PathBuf>,
}

/// A package of the workspace, from `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency as a manifest names it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// A library, binary, test or build script of a package.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

impl Workspace {
    /// Asks cargo and git. Needs no network and builds nothing.
    pub(crate) fn load() -> anyhow::Result<Workspace> {
        let start = Path::new(env!("CARGO_MANIFEST_DIR"));
        let metadata =
            output(start, &cargo(), &["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
        let metadata: Metadata = serde_json::from_str(&metadata).context("cannot read cargo metadata")?;
        let root = metadata.workspace_root;
        let listed = output(&root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        // A set, since git lists a conflicted file once for each side.
        let files: BTreeSet<PathBuf> =
            listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
        let files = files.into_iter().filter(|file| root.join(file).is_file()).collect();
        Ok(Workspace { root, packages: metadata.packages, files })
    }

    /// Content of a file, or None where it is not text.
    pub(crate) fn read(&self, file: &Path) -> anyhow::Result<Option<String>> {
        let bytes =
            std::fs::read(self.root.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(String::from_utf8(bytes).ok())
    }

    /// Files with that extension.
    pub(crate) fn files_with(&self, extension: &str) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().filter(move |file| file.extension().is_some_and(|found| found == extension))
    }
}

/// The cargo that runs this binary.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Standard output of a command that must succeed.
pub(crate) fn output(folder: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let result = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        result.status.success(),
        "{program} {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&result.stderr)
    );
    String::from_utf8(result.stdout).with_context(|| format!("{program} printed no text"))
}
