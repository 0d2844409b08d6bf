//! Ids and epochs. Each is its own type, so that one cannot stand where another is meant.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
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
    /// A storage node or controller, as configured by its operator.
    NodeId(u32)
}
counter! {
    /// One incarnation of a storage node as the controller knows it: the raft index of its registration (R1).
    BrokerEpoch(u64)
}
counter! {
    /// Rises with every change of a partition's leader (R4).
    LeaderEpoch(u32)
}
counter! {
    /// Rises with every change of a partition's record in the cluster image (R4).
    PartitionEpoch(u32)
}
counter! {
    /// Fences the older incarnations of one producer id (R10).
    ProducerEpoch(u32)
}
counter! {
    /// Counts the requests of one producer; rises on each partition without being dense (R10). At most `i64::MAX`.
    Sequence(u64)
}
counter! {
    /// One partition of a topic, from 0. At most `i32::MAX` on the wire.
    PartitionIndex(u32)
}

impl PartitionIndex {
    /// The index that a client sent, or nothing if it is negative.
    #[must_use]
    pub fn from_wire(value: i32) -> Option<Self> {
        u32::try_from(value).ok().map(PartitionIndex)
    }

    /// The value as it crosses the wire.
    #[must_use]
    pub const fn to_wire(self) -> i32 {
        self.0.cast_signed()
    }
}

/// A producer's identity, handed out once by the controller: below 2^53, so that JSON numbers can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(u64);

/// A number that no producer id can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a producer id: these are 1 to 2^53 - 1")]
pub struct InvalidProducerId(pub i64);

impl ProducerId {
    /// The id of this number, if it is 1 to 2^53 - 1.
    ///
    /// # Errors
    /// [`InvalidProducerId`] outside of that range.
    pub fn from_wire(value: i64) -> Result<Self, InvalidProducerId> {
        match u64::try_from(value) {
            Ok(id) if id > 0 && id < limits::PRODUCER_ID_END => Ok(ProducerId(id)),
            _ => Err(InvalidProducerId(value)),
        }
    }

    /// The id of a number that was read from a verified record or taken from an id block.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        ProducerId(value)
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A topic's identity: a topic that is deleted and created again under its name has another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// The id of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        TopicId(bytes)
    }

    /// The id's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The id of a byte string, if it is 16 bytes long.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(TopicId)
    }

    /// The id of its 32 hexadecimal digits, as [`fmt::Display`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|value| TopicId(value.to_be_bytes()))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

impl From<TopicId> for String {
    fn from(id: TopicId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for TopicId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        TopicId::parse(&text).ok_or_else(|| format!("{text:?} is not 32 hexadecimal digits"))
    }
}

/// A partition of a topic, by the topic's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition in it.
    pub partition: PartitionIndex,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic_id, self.partition)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn topic_ids_round_trip_through_text() {
        let id = TopicId::from_bytes(*b"0123456789abcdef");
        assert_eq!(TopicId::parse(&id.to_string()), Some(id));
        assert_eq!(TopicId::parse("00"), None);
        assert_eq!(TopicId::parse("+0000000000000000000000000000000"), None);
    }

    #[test]
    fn producer_ids_fit_json_numbers() {
        assert!(ProducerId::from_wire(0).is_err());
        assert!(ProducerId::from_wire(-5).is_err());
        assert!(ProducerId::from_wire(1 << 53).is_err());
        assert_eq!(ProducerId::from_wire((1 << 53) - 1).unwrap().value(), (1 << 53) - 1);
    }
}
