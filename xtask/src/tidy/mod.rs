//! `cargo xtask tidy`: the rules of the architecture and the style that a program can check.

use std::path::{Path, PathBuf};

use crate::report::Report;
use crate::source::{Source, is_test_path};
use crate::workspace::Workspace;

mod bans;
mod crate_docs;
mod dependencies;
mod imports;
mod links;
mod sizes;

/// Packages without clock, randomness, network and tasks: state machines and formats, which are tested by simulation.
/// Named by their folder.
pub(crate) const PURE_CRATES: &[(&str, &str)] = &[
    ("wharf-types", "crates/types"),
    ("wharf-log", "crates/log"),
    ("wharf-metadata", "crates/metadata"),
    ("wharf-coordinator", "crates/coordinator"),
    ("wharf-replication", "crates/replication"),
];

/// A Rust file of the workspace.
pub(crate) struct RustFile {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    /// The whole file is test code.
    pub(crate) is_test: bool,
}

impl RustFile {
    /// Lines of code that are not test code, numbered from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.is_test;
        self.source.product_lines().filter(move |_| !is_test)
    }

    /// `path:line`, for a finding.
    pub(crate) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// Runs every check.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let files = rust_files(workspace)?;
    let mut report = Report::default();
    dependencies::check(workspace, &mut report)?;
    imports::check(&files, &mut report);
    sizes::check(&files, &mut report);
    bans::check_code(&files, &mut report);
    bans::check_words(workspace, &mut report)?;
    crate_docs::check(workspace, &mut report)?;
    links::check(workspace, &mut report)?;
    Ok(report)
}

fn rust_files(workspace: &Workspace) -> anyhow::Result<Vec<RustFile>> {
    let mut files = Vec::new();
    for path in workspace.files_with("rs") {
        if let Some(text) = workspace.read(path)? {
            files.push(RustFile {
                path: path.clone(),
                source: Source::parse(&text),
                is_test: is_test_path(path),
            });
        }
    }
    mark_test_modules(&mut files);
    Ok(files)
}

/// A file that another one declares under `#[cfg(test)]` is test code, with all below it.
fn mark_test_modules(files: &mut [RustFile]) {
    let test_paths: Vec<PathBuf> =
        files.iter().flat_map(|file| file.source.test_module_paths(&file.path)).collect();
    for file in files {
        let module = file.path.with_extension("");
        file.is_test |= test_paths.iter().any(|test| module.starts_with(test));
    }
}

/// A Rust file for the tests of the checks.
#[cfg(test)]
pub(crate) fn rust_file(path: &str, text: &str) -> RustFile {
    RustFile { path: path.into(), source: Source::parse(text), is_test: is_test_path(Path::new(path)) }
}

/// Whether a file lies below a folder, both relative to the root.
pub(crate) fn is_below(path: &Path, folder: &str) -> bool {
    path.starts_with(folder)
}
