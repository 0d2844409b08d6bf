//! Relative links of Markdown files lead somewhere, and every decision record is listed.

use std::path::{Component, Path, PathBuf};

use crate::report::Report;
use crate::workspace::Workspace;

const ADR_FOLDER: &str = "docs/adr";
const ADR_LIST: &str = "docs/adr/README.md";

/// Checks all Markdown files.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) -> anyhow::Result<()> {
    for file in workspace.files_with("md") {
        let text = workspace.read(file)?.unwrap_or_default();
        for (line, target) in links(&text) {
            if let Some(path) = local_path(file, &target)
                && !workspace.root.join(&path).exists()
            {
                report.error(format!("{}:{line}", file.display()), format!("{target} does not exist"));
            }
        }
    }
    let list = Path::new(ADR_LIST);
    if workspace.files.iter().any(|file| file == list) {
        let text = workspace.read(list)?.unwrap_or_default();
        check_records(&workspace.files, &text, report);
    }
    Ok(())
}

fn check_records(files: &[PathBuf], list: &str, report: &mut Report) {
    let listed: Vec<String> = links(list).into_iter().map(|(_, target)| target).collect();
    for file in files.iter().filter(|file| file.parent() == Some(Path::new(ADR_FOLDER))) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_record = name.ends_with(".md") && name.starts_with(|c: char| c.is_ascii_digit());
        if is_record && !listed.iter().any(|target| target.trim_start_matches("./") == name) {
            report.error(file.display(), format!("is not listed in {ADR_LIST}"));
        }
    }
}

/// Targets of inline links and link definitions, with their lines. Code is left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let line = without_code(line);
        found.extend(targets(&line).into_iter().map(|target| (index + 1, target)));
    }
    found
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn targets(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").filter_map(|(at, opening)| {
        let rest = &line[at + opening.len()..];
        rest.find(')').map(|end| &rest[..end])
    });
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .filter(|(label, _)| !label.contains(']'))
        .map(|(_, target)| target);
    inline
        .chain(definition)
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

/// The file that a link means, relative to the root; None for one that leads elsewhere.
fn local_path(file: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let joined = match path.strip_prefix('/') {
        Some(from_root) => PathBuf::from(from_root),
        None => folder.join(path),
    };
    // Resolved here, so that a link out of the repository is not followed to a file that happens to exist.
    let mut clean = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir if clean.pop() => {}
            Component::ParentDir => return Some(PathBuf::from("outside of the repository")),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) and `[c](d.md)`\n```\n[e](f.md)\n```\n![g](<h.png> \"t\")\n[i]: j.md\n";
        assert_eq!(links(text), [(1, "b.md".to_owned()), (5, "h.png".to_owned()), (6, "j.md".to_owned())]);
    }

    #[test]
    fn links_are_relative_to_their_file() {
        let local = |target| local_path(Path::new("docs/a.md"), target);
        assert_eq!(local("b.md#x"), Some(PathBuf::from("docs/b.md")));
        assert_eq!(local("../c.md"), Some(PathBuf::from("c.md")));
        assert_eq!(local("/d.md"), Some(PathBuf::from("d.md")));
        assert_eq!(local("../../e.md"), Some(PathBuf::from("outside of the repository")));
        assert_eq!(local("https://example.com"), None);
        assert_eq!(local("#here"), None);
    }

    #[test]
    fn records_must_be_listed() {
        let files = ["docs/adr/0001-a.md", "docs/adr/0002-b.md", "docs/adr/README.md"].map(PathBuf::from);
        let mut report = Report::default();
        check_records(&files, "* [a](0001-a.md)\n", &mut report);
        assert_eq!(report.errors(), ["docs/adr/0002-b.md: is not listed in docs/adr/README.md"]);
    }
}
