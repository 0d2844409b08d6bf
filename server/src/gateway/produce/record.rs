//! Views and checks of the records that clients send.

use wharf_types::{TopicConfig, limits};

use crate::gateway::errors::InvalidRecord;
use crate::proto::{Header, Record};

/// The key's bytes, whichever field holds them.
pub(crate) fn record_key(record: &Record) -> Option<&[u8]> {
    record.key.as_deref().or_else(|| record.key_text.as_ref().map(String::as_bytes))
}

/// The value's bytes; none for a tombstone.
pub(crate) fn record_value(record: &Record) -> Option<&[u8]> {
    record.value.as_deref().or_else(|| record.value_text.as_ref().map(String::as_bytes))
}

/// The header's bytes; none where it has no value.
pub(crate) fn header_value(header: &Header) -> Option<&[u8]> {
    header.value.as_deref().or_else(|| header.value_text.as_ref().map(String::as_bytes))
}

/// What the record counts for every limit: key, value, header names and values, and 64 bytes.
pub(crate) fn record_bytes(record: &Record) -> usize {
    let headers: usize = record
        .headers
        .iter()
        .map(|header| header.name.len() + header_value(header).map_or(0, <[u8]>::len))
        .sum();
    record_key(record).map_or(0, <[u8]>::len)
        + record_value(record).map_or(0, <[u8]>::len)
        + headers
        + limits::RECORD_OVERHEAD_BYTES
}

/// Checks one record against the contract and its topic; gives its size in bytes.
///
/// # Errors
/// [`InvalidRecord`], which names the field.
pub(crate) fn check_record(record: &Record, config: &TopicConfig) -> Result<usize, InvalidRecord> {
    if record.key.is_some() && record.key_text.is_some() {
        return Err(InvalidRecord::BothForms { field: "key" });
    }
    if record.value.is_some() && record.value_text.is_some() {
        return Err(InvalidRecord::BothForms { field: "value" });
    }
    let value = record_value(record);
    match (value, record.tombstone) {
        (None, false) => return Err(InvalidRecord::NoValue),
        (Some(_), true) => return Err(InvalidRecord::TombstoneWithValue),
        _ => {}
    }
    if record.timestamp_ms.is_some_and(|timestamp| timestamp < 0) {
        return Err(InvalidRecord::NegativeTimestamp);
    }
    if record.headers.len() > limits::HEADERS_PER_RECORD_MAX {
        return Err(InvalidRecord::TooManyHeaders { actual: record.headers.len() });
    }
    for (index, header) in record.headers.iter().enumerate() {
        if header.name.is_empty() || header.name.len() > limits::HEADER_NAME_BYTES_MAX {
            return Err(InvalidRecord::HeaderName { index, actual: header.name.len() });
        }
        if header.value.is_some() && header.value_text.is_some() {
            return Err(InvalidRecord::HeaderBothForms { index });
        }
    }
    if config.cleanup_policy.compacts() && record_key(record).is_none() {
        return Err(InvalidRecord::KeyRequired);
    }
    let bytes = record_bytes(record);
    if bytes > config.max_message_bytes as usize {
        return Err(InvalidRecord::TooLarge { actual: bytes, limit: config.max_message_bytes as usize });
    }
    Ok(bytes)
}
