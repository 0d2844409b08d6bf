//! Times as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wharf_types::TimestampMs;

/// The time of this machine.
pub(super) fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// `2026-01-31T12:00:00.000Z`; the number itself where it is beyond what a calendar can hold.
pub(super) fn rfc3339(time: TimestampMs) -> String {
    // humantime panics beyond the year 9999, and event times are whatever a producer sent.
    const CALENDAR_END_MS: u64 = 253_402_300_800_000;
    if time.value() >= CALENDAR_END_MS {
        return time.value().to_string();
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.value())).to_string()
}

/// [`rfc3339`] of a time as it crosses the wire.
pub(super) fn rfc3339_wire(time_ms: Option<i64>) -> String {
    time_ms.and_then(TimestampMs::from_wire).map_or_else(|| "-".to_owned(), rfc3339)
}

/// Reads RFC 3339 (`2026-01-31T12:00:00Z`, also with `+01:00`, with a space for the T, without seconds' fraction), a date
/// alone, which means its start in UTC.
pub(super) fn parse_rfc3339(text: &str) -> Option<TimestampMs> {
    let (local, offset_minutes) = split_zone(text)?;
    let full =
        if local.len() == "2026-01-31".len() { format!("{local}T00:00:00Z") } else { format!("{local}Z") };
    let time = humantime::parse_rfc3339_weak(&full).ok()?;
    let since = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    TimestampMs::from_wire(since.checked_sub(offset_minutes * 60_000)?)
}

/// The part before the zone, and the zone in minutes east of UTC.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, 0));
    }
    let Some(at) = text.len().checked_sub("+00:00".len()).filter(|at| *at > 10 && text.is_char_boundary(*at))
    else {
        return Some((text, 0));
    };
    let (local, zone) = text.split_at(at);
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some((text, 0)),
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some((local, sign * (hours * 60 + minutes)))
}

/// A span in at most two units: `2d 3h`, `45s`, `120ms`.
pub(super) fn span_text(span: Duration) -> String {
    let coarse = match span.as_secs() {
        0 => Duration::from_millis(u64::from(span.subsec_millis())),
        _ => Duration::from_secs(span.as_secs()),
    };
    let text = humantime::format_duration(coarse).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// [`span_text`] of a span of the API; negative ones do not occur.
pub(super) fn span_wire(span: Option<&prost_types::Duration>) -> String {
    span.and_then(|span| Duration::try_from(*span).ok()).map_or_else(|| "-".to_owned(), span_text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parsed(text: &str) -> Option<u64> {
        parse_rfc3339(text).map(TimestampMs::value)
    }

    #[test]
    fn times_are_read_with_zone_fraction_and_as_dates() {
        assert_eq!(parsed("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(parsed("1970-01-01T00:00:01.250Z"), Some(1_250));
        assert_eq!(parsed("1970-01-01 00:00:01"), Some(1_000));
        assert_eq!(parsed("1970-01-02"), Some(86_400_000));
        assert_eq!(parsed("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(parsed("1969-12-31T23:30:00-01:00"), None, "before the epoch as it stands");
        assert_eq!(parsed("1970-01-01T00:00:00-01:30"), Some(5_400_000));
        for wrong in [
            "",
            "yesterday",
            "1970-13-01",
            "1970-01-01T00:00:00+99:00",
            "1970-01-01T00:00:00+0a:00",
            "€uros and mo€",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(TimestampMs::new(1_250)), "1970-01-01T00:00:01.250Z");
        assert_eq!(rfc3339(TimestampMs::new(u64::MAX)), i64::MAX.to_string());
        assert_eq!(rfc3339_wire(None), "-");
    }

    #[test]
    fn spans_have_at_most_two_units() {
        assert_eq!(span_text(Duration::from_millis(120)), "120ms");
        assert_eq!(span_text(Duration::from_millis(61_900)), "1m 1s");
        assert_eq!(span_text(Duration::from_secs(2 * 86_400 + 3 * 3_600 + 5)), "2days 3h");
        assert_eq!(span_text(Duration::ZERO), "0s");
    }
}
