//! Wall-clock time as a value that is handed in, never read.

use std::fmt;

/// Milliseconds since the Unix epoch, UTC; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(u64);

impl TimestampMs {
    /// The Unix epoch.
    pub const EPOCH: TimestampMs = TimestampMs(0);

    /// A time of this many milliseconds; cut to what fits a signed integer on the wire.
    #[must_use]
    pub const fn new(milliseconds: u64) -> Self {
        if milliseconds > i64::MAX as u64 { TimestampMs(i64::MAX as u64) } else { TimestampMs(milliseconds) }
    }

    /// The time that a client sent, or nothing if it is negative.
    #[must_use]
    pub fn from_wire(value: i64) -> Option<Self> {
        u64::try_from(value).ok().map(TimestampMs)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The value as it crosses the wire.
    #[must_use]
    pub const fn to_wire(self) -> i64 {
        self.0.cast_signed()
    }

    /// Milliseconds from `earlier` to this time; 0 if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: TimestampMs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This time moved back, but not before the epoch.
    #[must_use]
    pub const fn minus(self, milliseconds: u64) -> Self {
        TimestampMs(self.0.saturating_sub(milliseconds))
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
