//! Topic configuration: names, defaults and bounds of every key.
//!
//! Invariant: a [`TopicConfig`] is always valid; unknown names and bad values never get into one. Only keys that were
//! set are stored with a topic, so that a changed default reaches the topics that never chose (but
//! `min.insync.replicas`, which is stored at creation).

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

/// What happens to old records of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupPolicy {
    /// Whole segments go by time and size.
    Delete,
    /// The latest record of each key stays.
    Compact,
    /// Both.
    CompactAndDelete,
}

impl CleanupPolicy {
    /// Whether retention by time and size applies.
    #[must_use]
    pub fn deletes(self) -> bool {
        self != CleanupPolicy::Compact
    }

    /// Whether compaction by key applies.
    #[must_use]
    pub fn compacts(self) -> bool {
        self != CleanupPolicy::Delete
    }
}

/// How the gateway compresses batches of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they come.
    None,
    /// LZ4 block format.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// When a record counts as safe (R7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// An acknowledged record is on stable storage of every in-sync replica.
    Ack,
    /// The log is flushed every `flush.interval.ms`.
    Interval,
    /// The operating system decides.
    Os,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal),+ $(,)?) => {
        /// A key of a topic's configuration.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TopicConfigKey {
            $($(#[$doc])* $key,)+
        }

        impl TopicConfigKey {
            /// Every key, in the order in which they are shown.
            pub const ALL: &'static [TopicConfigKey] = &[$(TopicConfigKey::$key),+];

            /// The key's name in requests and answers.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(TopicConfigKey::$key => $name,)+
                }
            }
        }
    };
}

keys! {
    /// `delete`, `compact` or `compact,delete`.
    CleanupPolicy = "cleanup.policy",
    /// `none`, `lz4` or `zstd`.
    CompressionType = "compression.type",
    /// How long a tombstone stays after compaction could have seen it, in milliseconds.
    DeleteRetentionMs = "delete.retention.ms",
    /// Time between flushes under `flush.policy=interval`, in milliseconds.
    FlushIntervalMs = "flush.interval.ms",
    /// `ack`, `interval` or `os`.
    FlushPolicy = "flush.policy",
    /// Largest record, in bytes.
    MaxMessageBytes = "max.message.bytes",
    /// How long a record is safe from compaction, in milliseconds.
    MinCompactionLagMs = "min.compaction.lag.ms",
    /// Replicas that must be in sync for `acks=ALL`.
    MinInsyncReplicas = "min.insync.replicas",
    /// Bytes kept for each partition; -1 for no bound.
    RetentionBytes = "retention.bytes",
    /// Time kept, in milliseconds of append time; -1 for ever.
    RetentionMs = "retention.ms",
    /// Groups whose unread records are kept, with commas between.
    RetainForGroups = "retain.for.groups",
    /// Most bytes kept for those groups; -1 for no bound.
    RetainForGroupsMaxBytes = "retain.for.groups.max.bytes",
    /// Longest time kept for those groups, in milliseconds; -1 for ever.
    RetainForGroupsMaxMs = "retain.for.groups.max.ms",
    /// Size at which a segment is rolled, in bytes.
    SegmentBytes = "segment.bytes",
    /// Age at which a segment is rolled, in milliseconds.
    SegmentMs = "segment.ms",
    /// Whether the controller may elect a replica that lost acknowledged records.
    UncleanLeaderElectionEnable = "unclean.leader.election.enable",
    /// How long it waits before that, in milliseconds.
    UncleanWaitMs = "unclean.wait.ms",
}

impl TopicConfigKey {
    /// The key of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }
}

impl fmt::Display for TopicConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No key has this name.
    #[error("unknown topic config {name:?}{}", suggestion(name))]
    UnknownKey {
        /// The name as it was given.
        name: String,
    },
    /// The value does not fit the key.
    #[error("{key} is {value:?}; it must be {expected}")]
    InvalidValue {
        /// The key.
        key: TopicConfigKey,
        /// The value as it was given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// More replicas are demanded than the topic has.
    #[error(
        "min.insync.replicas is {min_insync_replicas}, more than the replication factor {replication_factor}"
    )]
    MinInsyncAboveReplicas {
        /// The value of `min.insync.replicas`.
        min_insync_replicas: u32,
        /// The topic's replication factor.
        replication_factor: u32,
    },
}

/// The known key that is most like a mistyped one.
fn suggestion(name: &str) -> String {
    let normalised = name.replace(['_', '-'], ".").to_ascii_lowercase();
    let close = |key: &&TopicConfigKey| {
        key.name() == normalised || key.name().starts_with(&normalised) && !normalised.is_empty()
    };
    match TopicConfigKey::ALL.iter().find(close) {
        Some(key) => format!("; did you mean {key}?"),
        None => {
            let names: Vec<&str> = TopicConfigKey::ALL.iter().map(|key| key.name()).collect();
            format!("; known are {}", names.join(", "))
        }
    }
}

/// One key as `GetTopic` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub key: TopicConfigKey,
    /// Its value in force.
    pub value: String,
    /// Whether that is the default rather than the topic's own choice.
    pub is_default: bool,
}

/// A topic's configuration: every value in force, and which of them were set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type`.
    pub compression: Compression,
    /// `delete.retention.ms`.
    pub delete_retention_ms: u64,
    /// `flush.interval.ms`.
    pub flush_interval_ms: u64,
    /// `flush.policy`.
    pub flush_policy: FlushPolicy,
    /// `max.message.bytes`.
    pub max_message_bytes: u32,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: u64,
    /// `min.insync.replicas`, where it is set; else min(2, replication factor).
    pub min_insync_replicas: Option<u32>,
    /// `retention.bytes`; none for no bound.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`; none for ever.
    pub retention_ms: Option<u64>,
    /// `retain.for.groups`.
    pub retain_for_groups: Vec<String>,
    /// `retain.for.groups.max.bytes`; none for no bound.
    pub retain_for_groups_max_bytes: Option<u64>,
    /// `retain.for.groups.max.ms`; none for ever.
    pub retain_for_groups_max_ms: Option<u64>,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_ms: u64,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election: bool,
    /// `unclean.wait.ms`.
    pub unclean_wait_ms: u64,
    overrides: BTreeMap<TopicConfigKey, String>,
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig {
            cleanup_policy: CleanupPolicy::Delete,
            compression: Compression::None,
            delete_retention_ms: 86_400_000,
            flush_interval_ms: 1_000,
            flush_policy: FlushPolicy::Ack,
            max_message_bytes: MESSAGE_BYTES_DEFAULT,
            min_compaction_lag_ms: 0,
            min_insync_replicas: None,
            retention_bytes: None,
            retention_ms: Some(604_800_000),
            retain_for_groups: Vec::new(),
            retain_for_groups_max_bytes: None,
            retain_for_groups_max_ms: None,
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            unclean_leader_election: false,
            unclean_wait_ms: 30_000,
            overrides: BTreeMap::new(),
        }
    }
}

impl TopicConfig {
    /// The configuration of these names and values over the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] for the first name or value that is refused.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut config = TopicConfig::default();
        for (name, value) in entries {
            config.set(name, value)?;
        }
        Ok(config)
    }

    /// Sets one key.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown name or a bad value; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let key =
            TopicConfigKey::parse(name).ok_or_else(|| ConfigError::UnknownKey { name: name.to_owned() })?;
        let value = value.trim();
        let refuse = |expected| ConfigError::InvalidValue { key, value: value.to_owned(), expected };
        self.assign(key, value).map_err(refuse)?;
        self.overrides.insert(key, self.value_of(key));
        Ok(())
    }

    /// Takes one key back to its default.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`].
    pub fn unset(&mut self, name: &str) -> Result<(), ConfigError> {
        let key =
            TopicConfigKey::parse(name).ok_or_else(|| ConfigError::UnknownKey { name: name.to_owned() })?;
        let mut rest = std::mem::take(&mut self.overrides);
        rest.remove(&key);
        *self = TopicConfig::from_entries(rest.iter().map(|(key, value)| (key.name(), value.as_str())))?;
        Ok(())
    }

    /// The keys that were set, with their values.
    pub fn overrides(&self) -> impl Iterator<Item = (TopicConfigKey, &str)> {
        self.overrides.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// Every key with its value in force.
    #[must_use]
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |&key: &TopicConfigKey| ConfigEntry {
            key,
            value: self.value_of(key),
            is_default: !self.overrides.contains_key(&key),
        };
        TopicConfigKey::ALL.iter().map(entry).collect()
    }

    /// `min.insync.replicas` in force for this replication factor.
    ///
    /// # Errors
    /// [`ConfigError::MinInsyncAboveReplicas`].
    pub fn min_insync_replicas_for(&self, replication_factor: u32) -> Result<u32, ConfigError> {
        match self.min_insync_replicas {
            None => Ok(replication_factor.min(2)),
            Some(value) if value <= replication_factor => Ok(value),
            Some(min_insync_replicas) => {
                Err(ConfigError::MinInsyncAboveReplicas { min_insync_replicas, replication_factor })
            }
        }
    }

    /// Parses and stores one value; the error says what is expected.
    fn assign(&mut self, key: TopicConfigKey, value: &str) -> Result<(), &'static str> {
        const MS: &str = "a whole number of milliseconds, 0 or more";
        const MS_BOUND: &str = "a whole number of milliseconds, 0 or more, or -1 for no bound";
        const BYTES_BOUND: &str = "a whole number of bytes, 0 or more, or -1 for no bound";
        match key {
            TopicConfigKey::CleanupPolicy => self.cleanup_policy = parse_cleanup(value)?,
            TopicConfigKey::CompressionType => self.compression = parse_compression(value)?,
            TopicConfigKey::DeleteRetentionMs => self.delete_retention_ms = parse_span(value, MS)?,
            TopicConfigKey::FlushIntervalMs => {
                let expected = "a whole number of milliseconds, 1 to 3600000";
                self.flush_interval_ms = parse_in(value, 1, 3_600_000, expected)?;
            }
            TopicConfigKey::FlushPolicy => self.flush_policy = parse_flush(value)?,
            TopicConfigKey::MaxMessageBytes => {
                let expected = "a whole number of bytes, 1024 to 2621440";
                let bytes = parse_in(value, 1_024, u64::from(MESSAGE_BYTES_MAX), expected)?;
                self.max_message_bytes = u32::try_from(bytes).map_err(|_| expected)?;
            }
            TopicConfigKey::MinCompactionLagMs => self.min_compaction_lag_ms = parse_span(value, MS)?,
            TopicConfigKey::MinInsyncReplicas => {
                let expected = "a whole number, 1 to the replication factor";
                let replicas = parse_in(value, 1, 15, expected)?;
                self.min_insync_replicas = Some(u32::try_from(replicas).map_err(|_| expected)?);
            }
            TopicConfigKey::RetentionBytes => self.retention_bytes = parse_bound(value, BYTES_BOUND)?,
            TopicConfigKey::RetentionMs => self.retention_ms = parse_bound(value, MS_BOUND)?,
            TopicConfigKey::RetainForGroups => self.retain_for_groups = parse_groups(value)?,
            TopicConfigKey::RetainForGroupsMaxBytes => {
                self.retain_for_groups_max_bytes = parse_bound(value, BYTES_BOUND)?;
            }
            TopicConfigKey::RetainForGroupsMaxMs => {
                self.retain_for_groups_max_ms = parse_bound(value, MS_BOUND)?;
            }
            TopicConfigKey::SegmentBytes => {
                let expected = "a whole number of bytes, 1048576 to 2147483647";
                let bytes = parse_in(value, 1 << 20, i32::MAX as u64, expected)?;
                self.segment_bytes = u32::try_from(bytes).map_err(|_| expected)?;
            }
            TopicConfigKey::SegmentMs => {
                let expected = "a whole number of milliseconds, 1000 or more";
                self.segment_ms = parse_in(value, 1_000, i64::MAX as u64, expected)?;
            }
            TopicConfigKey::UncleanLeaderElectionEnable => {
                self.unclean_leader_election = value.parse().map_err(|_| "true or false")?;
            }
            TopicConfigKey::UncleanWaitMs => self.unclean_wait_ms = parse_span(value, MS)?,
        }
        Ok(())
    }

    /// The value in force as text that [`TopicConfig::set`] accepts.
    fn value_of(&self, key: TopicConfigKey) -> String {
        let bound = |value: Option<u64>| value.map_or_else(|| "-1".to_owned(), |value| value.to_string());
        match key {
            TopicConfigKey::CleanupPolicy => match self.cleanup_policy {
                CleanupPolicy::Delete => "delete".to_owned(),
                CleanupPolicy::Compact => "compact".to_owned(),
                CleanupPolicy::CompactAndDelete => "compact,delete".to_owned(),
            },
            TopicConfigKey::CompressionType => match self.compression {
                Compression::None => "none".to_owned(),
                Compression::Lz4 => "lz4".to_owned(),
                Compression::Zstd => "zstd".to_owned(),
            },
            TopicConfigKey::DeleteRetentionMs => self.delete_retention_ms.to_string(),
            TopicConfigKey::FlushIntervalMs => self.flush_interval_ms.to_string(),
            TopicConfigKey::FlushPolicy => match self.flush_policy {
                FlushPolicy::Ack => "ack".to_owned(),
                FlushPolicy::Interval => "interval".to_owned(),
                FlushPolicy::Os => "os".to_owned(),
            },
            TopicConfigKey::MaxMessageBytes => self.max_message_bytes.to_string(),
            TopicConfigKey::MinCompactionLagMs => self.min_compaction_lag_ms.to_string(),
            TopicConfigKey::MinInsyncReplicas => self
                .min_insync_replicas
                .map_or_else(|| "min(2, replicas)".to_owned(), |value| value.to_string()),
            TopicConfigKey::RetentionBytes => bound(self.retention_bytes),
            TopicConfigKey::RetentionMs => bound(self.retention_ms),
            TopicConfigKey::RetainForGroups => self.retain_for_groups.join(","),
            TopicConfigKey::RetainForGroupsMaxBytes => bound(self.retain_for_groups_max_bytes),
            TopicConfigKey::RetainForGroupsMaxMs => bound(self.retain_for_groups_max_ms),
            TopicConfigKey::SegmentBytes => self.segment_bytes.to_string(),
            TopicConfigKey::SegmentMs => self.segment_ms.to_string(),
            TopicConfigKey::UncleanLeaderElectionEnable => self.unclean_leader_election.to_string(),
            TopicConfigKey::UncleanWaitMs => self.unclean_wait_ms.to_string(),
        }
    }
}

fn parse_in(value: &str, min: u64, max: u64, expected: &'static str) -> Result<u64, &'static str> {
    match value.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(expected),
    }
}

fn parse_span(value: &str, expected: &'static str) -> Result<u64, &'static str> {
    parse_in(value, 0, i64::MAX as u64, expected)
}

fn parse_bound(value: &str, expected: &'static str) -> Result<Option<u64>, &'static str> {
    if value == "-1" { Ok(None) } else { parse_span(value, expected).map(Some) }
}

fn parse_cleanup(value: &str) -> Result<CleanupPolicy, &'static str> {
    let mut parts: Vec<&str> = value.split(',').map(str::trim).collect();
    parts.sort_unstable();
    match parts.as_slice() {
        ["delete"] => Ok(CleanupPolicy::Delete),
        ["compact"] => Ok(CleanupPolicy::Compact),
        ["compact", "delete"] => Ok(CleanupPolicy::CompactAndDelete),
        _ => Err("delete, compact, or compact,delete"),
    }
}

fn parse_compression(value: &str) -> Result<Compression, &'static str> {
    match value {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err("none, lz4 or zstd"),
    }
}

fn parse_flush(value: &str) -> Result<FlushPolicy, &'static str> {
    match value {
        "ack" => Ok(FlushPolicy::Ack),
        "interval" => Ok(FlushPolicy::Interval),
        "os" => Ok(FlushPolicy::Os),
        _ => Err("ack, interval or os"),
    }
}

fn parse_groups(value: &str) -> Result<Vec<String>, &'static str> {
    const EXPECTED: &str = "group names with commas between, at most 100, or empty";
    let groups: Vec<&str> = value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if groups.len() > 100 || groups.iter().any(|name| crate::GroupName::new(name).is_err()) {
        return Err(EXPECTED);
    }
    Ok(groups.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_default_value_is_accepted_back() {
        for entry in TopicConfig::default().entries() {
            assert!(entry.is_default);
            if entry.key != TopicConfigKey::MinInsyncReplicas {
                let mut config = TopicConfig::default();
                config.set(entry.key.name(), &entry.value).unwrap();
                assert_eq!(config.value_of(entry.key), entry.value);
                assert_eq!(config.overrides().count(), 1);
            }
        }
    }

    #[test]
    fn unknown_names_and_bad_values_change_nothing() {
        let mut config = TopicConfig::default();
        let before = config.clone();
        for (name, value) in [
            ("retention", "1"),
            ("retention.ms", "soon"),
            ("retention.ms", "-2"),
            ("compression.type", "snappy"),
            ("compression.type", "gzip"),
            ("cleanup.policy", "compact,compact"),
            ("segment.bytes", "0"),
            ("max.message.bytes", "2621441"),
            ("retain.for.groups", "a/b"),
            ("", ""),
        ] {
            assert!(config.set(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(config, before);
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_right_one() {
        let error = TopicConfig::default().set("retention_ms", "1").unwrap_err();
        assert!(error.to_string().contains("did you mean retention.ms?"), "{error}");
    }

    #[test]
    fn unset_restores_the_default_and_keeps_the_rest() {
        let mut config =
            TopicConfig::from_entries([("retention.ms", "5"), ("cleanup.policy", "delete,compact")]).unwrap();
        config.unset("retention.ms").unwrap();
        assert_eq!(config.retention_ms, Some(604_800_000));
        assert_eq!(config.cleanup_policy, CleanupPolicy::CompactAndDelete);
        assert_eq!(
            config.overrides().collect::<Vec<_>>(),
            [(TopicConfigKey::CleanupPolicy, "compact,delete")]
        );
    }

    #[test]
    fn min_insync_replicas_follows_the_replication_factor() {
        let mut config = TopicConfig::default();
        assert_eq!(config.min_insync_replicas_for(1), Ok(1));
        assert_eq!(config.min_insync_replicas_for(3), Ok(2));
        config.set("min.insync.replicas", "3").unwrap();
        assert!(config.min_insync_replicas_for(2).is_err());
    }
}
