//! Which module may name what.
//!
//! * `server::gateway` and `server::storage` meet in `server::standalone` only.
//! * RocksDB is named in one module of the server.
//! * Pure crates take time and seeds as arguments.

use std::path::{Path, PathBuf};

use super::{PURE_CRATES, RustFile, is_below};
use crate::report::Report;
use crate::source::has_word;

/// Paths that tell the time or roll dice.
const IMPURE_PATHS: &[&str] = &["SystemTime", "Instant::now", "rand::", "thread::sleep", "thread::spawn"];

/// Folders (or files) that must not name a module of the server's root.
const STRANGERS: &[(&str, &str)] = &[("server/src/gateway", "storage"), ("server/src/storage", "gateway")];

/// Checks the text of all product code.
pub(crate) fn check(files: &[RustFile], report: &mut Report) {
    for file in files {
        for (folder, module) in STRANGERS {
            if belongs_to(&file.path, folder) {
                check_stranger(file, module, report);
            }
        }
        if PURE_CRATES.iter().any(|(_, folder)| is_below(&file.path, folder)) {
            check_purity(file, report);
        }
    }
    check_rocksdb(files, report);
}

fn belongs_to(path: &Path, module: &str) -> bool {
    is_below(&path.with_extension(""), module)
}

fn check_stranger(file: &RustFile, module: &str, report: &mut Report) {
    for (number, line) in file.product_lines() {
        if ["crate::", "super::"].iter().any(|root| has_word(line, &format!("{root}{module}"))) {
            report.error(
                file.place(number),
                format!("must not name crate::{module}: gateway and storage meet in standalone"),
            );
        }
    }
    // A grouped import may span lines.
    let code: String = file.product_lines().flat_map(|(_, line)| [line, "\n"]).collect();
    if grouped_imports(&code).iter().any(|name| name == module) {
        report.error(
            file.path.display(),
            format!("must not name crate::{module}: gateway and storage meet in standalone"),
        );
    }
}

/// First names of all paths within `crate::{…}`.
fn grouped_imports(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, opening) in code.match_indices("crate::{") {
        let mut depth = 1_usize;
        let mut name = String::new();
        for c in code[at + opening.len()..].chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 || (depth == 1 && c == ',') {
                names.push(first_name(&name));
                name.clear();
            } else {
                name.push(c);
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

fn first_name(path: &str) -> String {
    path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn check_purity(file: &RustFile, report: &mut Report) {
    for (number, line) in file.product_lines() {
        for path in IMPURE_PATHS.iter().filter(|path| has_word(line, path)) {
            report.error(
                file.place(number),
                format!("{path} in a pure crate: take time and seeds as arguments"),
            );
        }
    }
}

fn check_rocksdb(files: &[RustFile], report: &mut Report) {
    let mut modules: Vec<PathBuf> = files
        .iter()
        .filter(|file| is_below(&file.path, "server/src"))
        .filter(|file| file.product_lines().any(|(_, line)| has_word(line, "rocksdb")))
        .map(|file| match file.path.file_name() {
            Some(name) if name == "mod.rs" => file.path.parent().unwrap_or(Path::new("")).to_owned(),
            _ => file.path.with_extension(""),
        })
        .collect();
    modules.sort();
    if let Some((first, others)) = modules.split_first() {
        for other in others.iter().filter(|other| !other.starts_with(first)) {
            report.error(other.display(), format!("names rocksdb, which belongs into {}", first.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust_file;

    fn errors(files: &[RustFile]) -> usize {
        let mut report = Report::default();
        check(files, &mut report);
        report.errors().len()
    }

    #[test]
    fn gateway_and_storage_are_strangers() {
        assert_eq!(errors(&[rust_file("server/src/gateway/a.rs", "use crate::storage::X;")]), 1);
        assert_eq!(
            errors(&[rust_file("server/src/storage.rs", "use crate::{\n a::{gateway}, gateway::X\n};")]),
            1
        );
        assert_eq!(errors(&[rust_file("server/src/gateway/a.rs", "use crate::storage_api::X;")]), 0);
        assert_eq!(
            errors(&[rust_file("server/src/gateway/a.rs", "use crate::{storage_api, x::{storage}};")]),
            0
        );
        assert_eq!(errors(&[rust_file("server/src/standalone.rs", "use crate::storage::X;")]), 0);
        assert_eq!(
            errors(&[rust_file("server/src/gateway/a.rs", "#[cfg(test)]\nmod t { use crate::storage::X; }")]),
            0
        );
    }

    #[test]
    fn rocksdb_has_one_home() {
        let inside = |path| rust_file(path, "use rocksdb::DB;");
        let home = [inside("server/src/offsets/mod.rs"), inside("server/src/offsets/open.rs")];
        assert_eq!(errors(&home), 0);
        assert_eq!(errors(&[inside("server/src/a.rs"), inside("server/src/b.rs")]), 1);
        assert_eq!(errors(&[inside("server/src/a.rs"), rust_file("server/src/b.rs", "// rocksdb\n")]), 0);
    }

    #[test]
    fn pure_crates_have_no_clock() {
        assert_eq!(errors(&[rust_file("crates/log/src/a.rs", "let t = std::time::Instant::now();")]), 1);
        assert_eq!(errors(&[rust_file("crates/log/src/a.rs", "fn f(now: Instant) { operand::x() }")]), 0);
        assert_eq!(errors(&[rust_file("crates/log/tests/a.rs", "let t = Instant::now();")]), 0);
        assert_eq!(errors(&[rust_file("server/src/a.rs", "let t = Instant::now();")]), 0);
    }
}
