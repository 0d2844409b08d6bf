//! Epochs and counters that only groups have.

use std::fmt;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// A value of this number.
            #[must_use]
            pub const fn new(value: $inner) -> Self {
                $name(value)
            }

            /// The number.
            #[must_use]
            pub const fn value(self) -> $inner {
                self.0
            }

            /// The next value, cut at the largest.
            #[must_use]
            pub const fn next(self) -> Self {
                $name(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// Rises with every change of a group's members or their partitions. At most `i32::MAX` on disk.
    GroupEpoch(u32)
}
counter! {
    /// Tells the incarnations of one member id apart (R14). At most `i32::MAX` on the wire.
    MemberEpoch(u32)
}
counter! {
    /// Numbers the commits within one member epoch (R14). At most `i64::MAX` on the wire.
    CommitSequence(u64)
}
