//! Rust source as the checks see it: code without comments and literals, and which of it is test code.
//!
//! Not a parser: it knows just enough of the grammar to keep text in comments and strings from looking like code, and to
//! find the end of an item. Line numbers are those of the file.

use std::path::{Path, PathBuf};

/// One source file.
pub(crate) struct Source {
    /// Lines of code; comments and the contents of literals are blanks.
    pub(crate) code: Vec<String>,
    /// For each line whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) is_test: Vec<bool>,
    /// Names of modules in files of their own under `#[cfg(test)]`.
    test_modules: Vec<String>,
}

impl Source {
    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Source {
        let code = blank_non_code(text);
        let (regions, test_modules) = test_items(&code);
        let mut is_test = vec![false; code.split('\n').count()];
        for (start, end) in regions {
            let first = code[..start].matches('\n').count();
            let last = code[..end].matches('\n').count();
            is_test[first..=last].fill(true);
        }
        Source { code: code.split('\n').map(str::to_owned).collect(), is_test, test_modules }
    }

    /// Lines that are not test code, numbered from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|(number, _)| !self.is_test[number - 1])
    }

    /// All lines, numbered from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// Paths without extension of the modules that are test code as a whole: a file, or a folder of that name.
    pub(crate) fn test_module_paths(&self, file: &Path) -> Vec<PathBuf> {
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => file.parent().unwrap_or(Path::new("")).to_owned(),
            _ => file.with_extension(""),
        };
        self.test_modules.iter().map(|name| folder.join(name)).collect()
    }
}

/// Whether a file is test code by its place: under `tests/`, `benches/` or named for tests.
pub(crate) fn is_test_path(file: &Path) -> bool {
    let in_folder = file.parent().is_some_and(|folder| {
        folder.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
    });
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    in_folder || stem == "tests" || stem.ends_with("_tests")
}

/// Whether `word` stands in `line` with no letter, digit or underscore before and after it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joined_before = word.starts_with(part_of_name) && before.is_some_and(part_of_name);
        let joined_after = word.ends_with(part_of_name) && after.is_some_and(part_of_name);
        !joined_before && !joined_after
    })
}

/// The text with comments and the contents of literals replaced by blanks; line ends stay.
fn blank_non_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (length, is_code) = next_piece(rest, out.chars().next_back());
        let piece = &rest[..length];
        if is_code {
            out.push_str(piece);
        } else {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[length..];
    }
    out
}

/// Length of the comment, literal or single character at the start, and whether it is code.
fn next_piece(rest: &str, previous: Option<char>) -> (usize, bool) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (block_comment_length(rest), false);
    }
    let in_name = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_name && let Some(length) = raw_string_length(rest) {
        return (length, false);
    }
    if rest.starts_with('"') {
        return (quoted_length(rest, '"'), false);
    }
    if rest.starts_with('\'') && is_char_literal(rest) {
        return (quoted_length(rest, '\''), false);
    }
    (rest.chars().next().map_or(1, char::len_utf8), true)
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of `r"…"`, `r#"…"#`, `br"…"` and the like.
fn raw_string_length(rest: &str) -> Option<usize> {
    let after = ["br", "cr", "r"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(rest.len() - body.len() + end)
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

/// Byte ranges of items under `#[cfg(test)]`, and names of such modules in other files.
fn test_items(code: &str) -> (Vec<(usize, usize)>, Vec<String>) {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let (mut regions, mut modules) = (Vec::new(), Vec::new());
    let mut from = 0;
    while let Some(found) = code[from..].find(ATTRIBUTE) {
        let start = from + found;
        let end = item_end(code, start + ATTRIBUTE.len());
        let item = code[start..end].trim_end();
        if let Some(declaration) = item.strip_suffix(';')
            && let Some((_, name)) = declaration.rsplit_once("mod ")
        {
            modules.push(name.trim().to_owned());
        }
        regions.push((start, end.saturating_sub(1).max(start)));
        from = end;
    }
    (regions, modules)
}

/// Where the item that starts at `at` ends: after its closing brace, or after a semicolon outside of all brackets.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in code[at..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && c == '}' {
                    return at + offset + 1;
                }
            }
            ';' if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn code(text: &str) -> String {
        blank_non_code(text)
    }

    #[test]
    fn comments_and_literals_are_blank() {
        assert_eq!(code("a // b\nc"), "a     \nc");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code(r#"f("x.unwrap()", 1)"#), "f(            , 1)");
        assert_eq!(code(r##"f(r#"a"b"#, 1)"##), "f(        , 1)");
        assert_eq!(code(r#"f("a\"b", 1)"#), "f(      , 1)");
        assert_eq!(code("f('\"', '\\'', 'a')"), "f(   ,     ,    )");
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code("var\"x\""), "var   ");
    }

    #[test]
    fn items_under_cfg_test_are_test_code() {
        let source = Source::parse(
            "fn a() {}\n#[cfg(test)]\nfn b(x: [u8; 2]) {\n  x\n}\nfn c() {}\n#[cfg(test)]\n#[allow(unused)]\nmod t;\nfn d() {}",
        );
        let lines: Vec<_> = source.product_lines().map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 6, 10]);
        assert_eq!(source.test_module_paths(Path::new("a/src/lib.rs")), [Path::new("a/src/t")]);
        assert_eq!(source.test_module_paths(Path::new("a/src/b.rs")), [Path::new("a/src/b/t")]);
    }

    #[test]
    fn words_have_boundaries() {
        assert!(has_word("use crate::storage;", "crate::storage"));
        assert!(!has_word("use crate::storage_api;", "crate::storage"));
        assert!(has_word("x.unwrap()", ".unwrap()"));
        assert!(!has_word("operand::x", "rand::"));
    }
}
