//! Every crate says at its head what it is for.

use std::path::Path;

use crate::report::Report;
use crate::workspace::Workspace;

/// Kinds of targets whose root file must start with documentation.
const KINDS: &[&str] = &["lib", "bin", "custom-build", "proc-macro"];

/// Checks the root file of every target.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) -> anyhow::Result<()> {
    for target in workspace.packages.iter().flat_map(|package| &package.targets) {
        if target.kind.iter().any(|kind| KINDS.contains(&kind.as_str())) {
            let path = target.src_path.strip_prefix(&workspace.root).unwrap_or(&target.src_path);
            check_text(path, &workspace.read(path)?.unwrap_or_default(), report);
        }
    }
    Ok(())
}

fn check_text(path: &Path, text: &str, report: &mut Report) {
    let documented = text.lines().next().is_some_and(|line| line.starts_with("//!") && line.len() > 10);
    if !documented {
        report.error(path.display(), "must start with //! and say what the crate is for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_starts_with_its_documentation() {
        let mut report = Report::default();
        check_text(Path::new("a"), "//! Keeps what must be kept.\n", &mut report);
        assert!(report.errors().is_empty());
        check_text(Path::new("a"), "//!\n", &mut report);
        check_text(Path::new("a"), "use x;\n", &mut report);
        check_text(Path::new("a"), "", &mut report);
        assert_eq!(report.errors().len(), 3);
    }
}
