//! Positions as people write them.

use std::str::FromStr;
use std::time::Duration;

use wharf_types::{Offset, TimestampMs};

use super::time::{now, parse_rfc3339};

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The oldest record that is kept.
    Earliest,
    /// The end.
    Latest,
    /// An offset.
    Offset(Offset),
    /// The first record appended at or after this time.
    Time(TimestampMs),
    /// The first record appended at most this long ago.
    Ago(Duration),
}

/// Why a text is not a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceError {
    #[error(
        "`{0}` is not a position: use earliest, latest, an offset (17 or offset:17), a time (2026-01-31T12:00:00Z, 2026-01-31 or ms:1769860800000) or how long ago (1h30m)"
    )]
    Place(String),
    #[error("`{0}` is not a position: use earliest, latest, an offset, a time, how long ago, or shift:-100")]
    Target(String),
}

impl Place {
    /// The time that it means when it is a time, now taken from this machine.
    pub(super) fn append_time(self) -> Option<TimestampMs> {
        match self {
            Place::Time(time) => Some(time),
            Place::Ago(span) => Some(now().minus(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))),
            Place::Earliest | Place::Latest | Place::Offset(_) => None,
        }
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let trimmed = text.trim();
        let wrong = || PlaceError::Place(text.to_owned());
        match trimmed.to_ascii_lowercase().as_str() {
            "earliest" | "beginning" | "start" => return Ok(Place::Earliest),
            "latest" | "end" => return Ok(Place::Latest),
            _ => {}
        }
        if let Some(offset) = trimmed.strip_prefix("offset:") {
            return parse_offset(offset).ok_or_else(wrong);
        }
        if let Some(time) = trimmed.strip_prefix("ms:") {
            let time = time.parse().ok().and_then(TimestampMs::from_wire);
            return time.map(Place::Time).ok_or_else(wrong);
        }
        if let Some(time) = trimmed.strip_prefix("time:") {
            return parse_rfc3339(time).map(Place::Time).ok_or_else(wrong);
        }
        parse_offset(trimmed)
            .or_else(|| parse_rfc3339(trimmed).map(Place::Time))
            .or_else(|| {
                let span = trimmed.strip_suffix("ago").unwrap_or(trimmed).trim_end();
                humantime::parse_duration(span).ok().map(Place::Ago)
            })
            .ok_or_else(wrong)
    }
}

fn parse_offset(text: &str) -> Option<Place> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().and_then(Offset::from_wire).map(Place::Offset)
}

/// Where a group is moved: a place, or so many records on or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeekTarget {
    Place(Place),
    Shift(i64),
}

impl FromStr for SeekTarget {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let trimmed = text.trim();
        let wrong = || PlaceError::Target(text.to_owned());
        let shift = trimmed.strip_prefix("shift:");
        if shift.is_some() || trimmed.starts_with(['+', '-']) {
            return shift.unwrap_or(trimmed).parse().map(SeekTarget::Shift).map_err(|_| wrong());
        }
        trimmed.parse().map(SeekTarget::Place).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn places_are_names_offsets_times_and_spans() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(place("earliest"), Place::Earliest);
        assert_eq!(place("Latest"), Place::Latest);
        assert_eq!(place("end"), Place::Latest);
        assert_eq!(place("17"), Place::Offset(Offset::new(17)));
        assert_eq!(place("offset:0"), Place::Offset(Offset::ZERO));
        assert_eq!(place("ms:1250"), Place::Time(TimestampMs::new(1_250)));
        assert_eq!(place("1970-01-01T00:00:01Z"), Place::Time(TimestampMs::new(1_000)));
        assert_eq!(place("time:1970-01-02"), Place::Time(TimestampMs::new(86_400_000)));
        assert_eq!(place("1h"), Place::Ago(Duration::from_secs(3_600)));
        assert_eq!(place("1h 30m ago"), Place::Ago(Duration::from_secs(5_400)));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in ["", "-1", "offset:-1", "offset:x", "ms:-5", "soon", "99999999999999999999", "1 parsec"]
        {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_seek_may_shift() {
        let target = |text: &str| text.parse::<SeekTarget>().unwrap();
        assert_eq!(target("shift:-100"), SeekTarget::Shift(-100));
        assert_eq!(target("-100"), SeekTarget::Shift(-100));
        assert_eq!(target("+5"), SeekTarget::Shift(5));
        assert_eq!(target("5"), SeekTarget::Place(Place::Offset(Offset::new(5))));
        assert!("shift:x".parse::<SeekTarget>().is_err());
    }

    #[test]
    fn spans_count_back_from_now() {
        let hour_ago = Place::Ago(Duration::from_secs(3_600)).append_time().unwrap();
        assert!(now().since(hour_ago) >= 3_600_000);
        assert_eq!(Place::Earliest.append_time(), None);
    }
}
