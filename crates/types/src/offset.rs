//! Offsets: places of records in a partition.

use std::fmt;

/// The place of a record in its partition: 0 for the first record ever appended, rising by one.
///
/// As a bound (high watermark, log end offset, durable end offset) an offset is exclusive: the first one that is
/// not covered. At most `i64::MAX`, since it crosses the wire as a signed integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Offset {
    /// The first offset of every partition.
    pub const ZERO: Offset = Offset(0);
    /// Beyond every offset that a partition can hold.
    pub const MAX: Offset = Offset(i64::MAX as u64);

    /// An offset of this value; values above [`Offset::MAX`] are cut to it.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        if value > i64::MAX as u64 { Offset::MAX } else { Offset(value) }
    }

    /// The offset that a client sent, or nothing if it is negative.
    #[must_use]
    pub fn from_wire(value: i64) -> Option<Self> {
        u64::try_from(value).ok().map(Offset)
    }

    /// The value as a number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The value as it crosses the wire.
    #[must_use]
    pub const fn to_wire(self) -> i64 {
        self.0.cast_signed()
    }

    /// The offset `records` further on, cut at [`Offset::MAX`].
    #[must_use]
    pub const fn plus(self, records: u64) -> Self {
        Offset::new(self.0.saturating_add(records))
    }

    /// The offset after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The offset before this one; `None` for the first.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Offset)
    }

    /// How many offsets lie in `[earlier, self)`; 0 if `earlier` is not earlier.
    #[must_use]
    pub const fn distance_from(self, earlier: Offset) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_wire_values_are_no_offsets() {
        assert_eq!(Offset::from_wire(-1), None);
        assert_eq!(Offset::from_wire(i64::MAX), Some(Offset::MAX));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Offset::MAX.next(), Offset::MAX);
        assert_eq!(Offset::ZERO.previous(), None);
        assert_eq!(Offset::new(3).distance_from(Offset::new(5)), 0);
    }
}
