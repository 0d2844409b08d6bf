//! How long a file may be.

use super::RustFile;
use crate::report::Report;

/// Above so many lines that are not test code a file must be split.
const LINES_MAX: usize = 1_000;
/// Above so many it should be.
const LINES_WARN: usize = 600;

/// Checks every Rust file.
pub(crate) fn check(files: &[RustFile], report: &mut Report) {
    for file in files {
        let lines = file.product_lines().count();
        if lines > LINES_MAX {
            report.error(file.path.display(), format!("{lines} lines without tests, at most {LINES_MAX}"));
        } else if lines > LINES_WARN {
            report.warning(
                file.path.display(),
                format!("{lines} lines without tests, split above {LINES_WARN}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust_file;

    #[test]
    fn long_files_warn_and_fail_and_tests_do_not_count() {
        let of = |lines: usize| "fn f();\n".repeat(lines);
        let mut report = Report::default();
        check(
            &[
                rust_file("a.rs", &of(500)),
                rust_file("b.rs", &of(700)),
                rust_file("c.rs", &of(1_001)),
                rust_file("d.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", of(2_000))),
                rust_file("e/tests/f.rs", &of(2_000)),
            ],
            &mut report,
        );
        assert_eq!((report.errors().len(), report.warnings().len()), (1, 1));
        assert!(report.errors()[0].starts_with("c.rs"));
    }
}
