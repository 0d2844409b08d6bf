//! What must not stand in the source.

use std::path::Path;

use super::RustFile;
use crate::report::Report;
use crate::source::has_word;
use crate::workspace::Workspace;

/// Banned everywhere, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("dbg!", "use tracing"),
    ("#[ignore]", "say why: #[ignore = \"reason\"]"),
];

/// Banned outside of tests, with the reason.
const BANNED_IN_PRODUCT: &[(&str, &str)] = &[
    ("Box<dyn Error", "use an enum with thiserror"),
    ("Box<dyn std::error::Error", "use an enum with thiserror"),
    ("Box<dyn error::Error", "use an enum with thiserror"),
    ("unbounded_channel", "every channel has a bound"),
    ("mpsc::unbounded", "every channel has a bound"),
    (".unwrap()", "return an error, or expect(\"why it cannot fail\")"),
];

/// Words that no tracked text may contain, with the reason.
const WORDS: &[(&str, &str)] = &[
    ("FIXME", "repair it or open an issue"),
    ("TODO", "do it or open an issue"),
    ("XXX", "say what is meant"),
    ("<<<<<<<", "resolve the conflict"),
    (">>>>>>>", "resolve the conflict"),
    ("/root/", "no path of one machine"),
    ("/home/", "no path of one machine"),
    ("/Users/", "no path of one machine"),
    ("master/slave", "say leader and follower"),
    ("blacklist", "say deny list"),
    ("whitelist", "say allow list"),
];

/// Files that are not ours, or that list the words.
const WORDS_EXEMPT: &[&str] = &["proto/google", "Cargo.lock", "LICENSE", "xtask/src/tidy/bans.rs"];

/// Checks the code of all Rust files.
pub(crate) fn check_code(files: &[RustFile], report: &mut Report) {
    for file in files {
        for (number, line) in file.source.lines() {
            find(BANNED, line, &file.place(number), report);
        }
        for (number, line) in file.product_lines() {
            find(BANNED_IN_PRODUCT, line, &file.place(number), report);
        }
    }
}

/// Checks every text file, comments and prose included.
pub(crate) fn check_words(workspace: &Workspace, report: &mut Report) -> anyhow::Result<()> {
    for file in &workspace.files {
        if WORDS_EXEMPT.iter().any(|exempt| file.starts_with(exempt)) {
            continue;
        }
        if let Some(text) = workspace.read(file)? {
            check_text(file, &text, report);
        }
    }
    Ok(())
}

fn check_text(file: &Path, text: &str, report: &mut Report) {
    for (index, line) in text.lines().enumerate() {
        find(WORDS, line, &format!("{}:{}", file.display(), index + 1), report);
    }
}

fn find(banned: &[(&str, &str)], line: &str, place: &str, report: &mut Report) {
    for (word, reason) in banned {
        if has_word(line, word) {
            report.error(place, format!("{word} is banned: {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust_file;

    fn errors(path: &str, text: &str) -> usize {
        let mut report = Report::default();
        check_code(&[rust_file(path, text)], &mut report);
        report.errors().len()
    }

    #[test]
    fn every_ban_fires() {
        for (word, _) in BANNED.iter().chain(BANNED_IN_PRODUCT) {
            assert_eq!(errors("a/src/x.rs", &format!("let a = {word};")), 1, "{word}");
            assert_eq!(errors("a/src/x.rs", &format!("// {word}")), 0, "{word}");
        }
        for (word, _) in BANNED {
            assert_eq!(errors("a/tests/x.rs", word), 1, "{word}");
        }
        for (word, _) in BANNED_IN_PRODUCT {
            assert_eq!(errors("a/tests/x.rs", word), 0, "{word}");
        }
        assert_eq!(errors("a/tests/x.rs", "#[ignore = \"needs a disk\"]"), 0);
    }

    #[test]
    fn every_word_fires_in_prose() {
        for (word, _) in WORDS {
            let mut report = Report::default();
            check_text(Path::new("a.md"), &format!("x\ny {word} z"), &mut report);
            assert!(report.errors()[0].starts_with("a.md:2: "), "{word}");
        }
    }
}
