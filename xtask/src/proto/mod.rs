//! The `.proto` files: `cargo xtask proto-lint` and `cargo xtask descriptor-set`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use protox::prost_reflect::prost_types::FileDescriptorSet;

use crate::report::Report;
use crate::workspace::Workspace;

mod comments;
mod context;
mod files;
mod imports;
mod names;
mod rpcs;
#[cfg(test)]
mod tests;

use context::Context as LintContext;

/// Folder of the `.proto` files, which is also the import path.
const FOLDER: &str = "proto";

/// Packages that clients may see.
const PUBLIC_PACKAGES: &[&str] = &["wharf.v1", "google.rpc"];

/// Checks every file of `wharf.*`.
pub(crate) fn lint(workspace: &Workspace) -> anyhow::Result<Report> {
    let set = compile(workspace, |_| true)?;
    let mut report = Report::default();
    check(&set, &mut report);
    Ok(report)
}

/// Writes the public packages and all they import, with comments.
pub(crate) fn write_descriptor_set(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let is_public = |file: &Path| {
        let package = file.parent().unwrap_or(Path::new("")).to_string_lossy().replace('/', ".");
        PUBLIC_PACKAGES.contains(&package.as_str())
    };
    let set = compile(workspace, is_public)?;
    std::fs::write(out, set.encode_to_vec()).with_context(|| format!("cannot write {}", out.display()))
}

/// Compiles the files that `wanted` takes by their path in the folder.
fn compile(workspace: &Workspace, wanted: impl Fn(&Path) -> bool) -> anyhow::Result<FileDescriptorSet> {
    let folder = workspace.root.join(FOLDER);
    let files: Vec<PathBuf> = workspace
        .files_with("proto")
        .filter_map(|file| file.strip_prefix(FOLDER).ok())
        .filter(|file| wanted(file))
        .map(|file| folder.join(file))
        .collect();
    let mut compiler = protox::Compiler::new([&folder])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(files)?;
    Ok(compiler.file_descriptor_set())
}

/// Applies every rule to the files of `wharf.*` and to those without a package.
fn check(set: &FileDescriptorSet, report: &mut Report) {
    for file in &set.file {
        let package = file.package();
        if package.is_empty() || package.starts_with("wharf.") {
            let mut context = LintContext::new(file, report);
            files::check(&mut context);
            imports::check(&mut context, set);
            names::check(&mut context);
            rpcs::check(&mut context);
            comments::check(&mut context);
        }
    }
    files::check_same_options(set, report);
    rpcs::check_unique(set, report);
}
