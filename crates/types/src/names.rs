//! Names of topics and groups.

use std::fmt;

use crate::limits::NAME_BYTES_MAX;

/// What a name is a name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A topic.
    Topic,
    /// A consumer group.
    Group,
    /// A member of a group.
    Member,
    /// A transactional id.
    TransactionalId,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameKind::Topic => "topic name",
            NameKind::Group => "group name",
            NameKind::Member => "member id",
            NameKind::TransactionalId => "transactional id",
        })
    }
}

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name is empty.
    #[error("the {0} is empty; give 1 to {NAME_BYTES_MAX} characters of A-Z a-z 0-9 . _ -")]
    Empty(NameKind),
    /// The name has more than [`NAME_BYTES_MAX`] bytes.
    #[error("the {kind} has {actual} bytes; at most {NAME_BYTES_MAX} are allowed")]
    TooLong {
        /// What the name is a name of.
        kind: NameKind,
        /// Its length in bytes.
        actual: usize,
    },
    /// The name has a character outside of `[A-Za-z0-9._-]`.
    #[error("the {kind} has the character {character:?}; only A-Z a-z 0-9 . _ - are allowed")]
    Character {
        /// What the name is a name of.
        kind: NameKind,
        /// The first such character.
        character: char,
    },
    /// A topic named `.` or `..`, or with the prefix of internal topics.
    #[error("the topic name {0:?} is reserved: names may not be '.' or '..' nor start with '__'")]
    Reserved(String),
}

/// Checks a name: 1 to 249 of `[A-Za-z0-9._-]`; topics are not `.` or `..` and do not start with `__`.
fn check(name: &str, kind: NameKind) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty(kind));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(InvalidName::TooLong { kind, actual: name.len() });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(character) = name.chars().find(|&c| !allowed(c)) {
        return Err(InvalidName::Character { kind, character });
    }
    if kind == NameKind::Topic && (name == "." || name == ".." || name.starts_with("__")) {
        return Err(InvalidName::Reserved(name.to_owned()));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// A checked name.
            ///
            /// # Errors
            /// [`InvalidName`], which says what to change.
            pub fn new(name: &str) -> Result<Self, InvalidName> {
                check(name, $kind)?;
                Ok($name(name.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// The name of a topic.
    TopicName, NameKind::Topic
}
name! {
    /// The name of a consumer group.
    GroupName, NameKind::Group
}

impl TopicName {
    /// The name of an internal topic, which [`TopicName::new`] refuses.
    #[must_use]
    pub fn internal(name: &'static str) -> Self {
        debug_assert!(name.starts_with("__"));
        TopicName(name.into())
    }

    /// A name as it stands in Wharf's own records, internal topics included.
    ///
    /// # Errors
    /// [`InvalidName`] if it is neither a topic's nor an internal topic's name.
    pub fn from_record(name: &str) -> Result<Self, InvalidName> {
        check(name.strip_prefix("__").unwrap_or(name), NameKind::Topic)?;
        Ok(TopicName(name.into()))
    }

    /// Whether this is one of Wharf's internal topics.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.0.starts_with("__")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ordinary_names_pass() {
        for name in ["a", "clicks", "a.b-c_D9", "...", "_x", &"x".repeat(249)] {
            assert_eq!(TopicName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn bad_topic_names_are_refused_with_their_reason() {
        assert_eq!(TopicName::new(""), Err(InvalidName::Empty(NameKind::Topic)));
        for name in [".", "..", "__offsets"] {
            assert_eq!(TopicName::new(name), Err(InvalidName::Reserved(name.into())));
        }
        assert!(matches!(TopicName::new("a/b"), Err(InvalidName::Character { character: '/', .. })));
        assert!(matches!(TopicName::new("ä"), Err(InvalidName::Character { character: 'ä', .. })));
        assert!(matches!(TopicName::new(&"x".repeat(300)), Err(InvalidName::TooLong { actual: 300, .. })));
    }

    #[test]
    fn groups_may_be_called_what_topics_may_not() {
        assert!(GroupName::new("..").is_ok());
        assert!(GroupName::new("a b").is_err());
    }
}
