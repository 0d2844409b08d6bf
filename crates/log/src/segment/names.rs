//! Names of the files of a partition directory.

use wharf_types::Offset;

/// The records from a base offset on.
pub(crate) const LOG_SUFFIX: &str = ".log";
/// The sparse index of the segment of the same name.
pub(crate) const INDEX_SUFFIX: &str = ".index";
/// The producer state before an offset.
pub(crate) const SNAPSHOT_SUFFIX: &str = ".snapshot";
/// A segment that a compaction wrote and no manifest names yet.
pub(crate) const CLEANED_SUFFIX: &str = ".cleaned";
/// Digits of an offset in a name, so that names sort as offsets do.
const DIGITS: usize = 20;

/// The name of a file about an offset.
pub(crate) fn file_name(offset: Offset, suffix: &str) -> String {
    format!("{:0DIGITS$}{suffix}", offset.value())
}

/// The offset of a name with this suffix.
pub(crate) fn parse(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<u64>().ok()?;
    (value <= Offset::MAX.value()).then_some(Offset::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_ignored() {
        let name = file_name(Offset::new(42), LOG_SUFFIX);
        assert_eq!(name, "00000000000000000042.log");
        assert_eq!(parse(&name, LOG_SUFFIX), Some(Offset::new(42)));
        for other in
            ["42.log", "00000000000000000042.index", "0000000000000000004x.log", "99999999999999999999.log"]
        {
            assert_eq!(parse(other, LOG_SUFFIX), None, "{other}");
        }
    }
}
