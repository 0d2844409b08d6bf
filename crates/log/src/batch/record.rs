//! Records inside a batch's records section: written with one copy, read as slices of the section.

use bytes::{BufMut, Bytes, BytesMut};
use wharf_types::{Offset, TimestampMs, limits};

use super::header::at_most;
use super::varint::{Reader, VarintBuffer, unzigzag, varint_bytes, zigzag};
use super::{BatchError, BatchHeader};

const FLAG_KEY: u8 = 1;
const FLAG_VALUE: u8 = 1 << 1;
const FLAG_HEADERS: u8 = 1 << 2;
const FLAGS_KNOWN: u8 = FLAG_KEY | FLAG_VALUE | FLAG_HEADERS;
/// Length, flags, offset delta, timestamp delta and key length: four varints and a byte.
const PREFIX_BYTES_MAX: usize = 41;

/// A header of a record, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderView<'a> {
    /// 1 to 255 bytes of UTF-8.
    pub name: &'a str,
    /// Its value, which may be absent.
    pub value: Option<&'a [u8]>,
}

impl HeaderView<'_> {
    fn encoded_bytes(&self) -> usize {
        let value_bytes = self.value.map_or(0, <[u8]>::len);
        let value_prefix = self.value.map_or(0, |value| value.len() as u64 + 1);
        varint_bytes(self.name.len() as u64) + self.name.len() + varint_bytes(value_prefix) + value_bytes
    }

    fn encode(&self, output: &mut BytesMut) {
        put_varint(output, self.name.len() as u64);
        output.put_slice(self.name.as_bytes());
        put_varint(output, self.value.map_or(0, |value| value.len() as u64 + 1));
        if let Some(value) = self.value {
            output.put_slice(value);
        }
    }

    fn decode<'a>(reader: &mut Reader<'a>) -> Option<HeaderView<'a>> {
        let name_bytes = reader.length()?;
        if name_bytes == 0 || name_bytes > limits::HEADER_NAME_BYTES_MAX {
            return None;
        }
        let name = std::str::from_utf8(reader.take(name_bytes)?).ok()?;
        let value = match reader.length()? {
            0 => None,
            length => Some(reader.take(length - 1)?),
        };
        Some(HeaderView { name, value })
    }
}

/// A record to be written, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// The key, if it has one; an empty key is a key.
    pub key: Option<&'a [u8]>,
    /// The value; without one the record is a tombstone.
    pub value: Option<&'a [u8]>,
    /// At most 1,000 headers.
    pub headers: &'a [HeaderView<'a>],
    /// The record's own time, as its producer gave it.
    pub timestamp: TimestampMs,
}

impl RecordView<'_> {
    /// Bytes that the record takes in a batch before compression, at most.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        let headers: usize = self.headers.iter().map(HeaderView::encoded_bytes).sum();
        let key = self.key.map_or(0, <[u8]>::len);
        let value = self.value.map_or(0, |value| varint_bytes(value.len() as u64) + value.len());
        PREFIX_BYTES_MAX + key + value + headers + varint_bytes(self.headers.len() as u64)
    }

    /// The limits that decoding checks too.
    pub(super) fn check(&self) -> Result<(), BatchError> {
        at_most("header count", self.headers.len() as u64, limits::HEADERS_PER_RECORD_MAX as u64)?;
        for header in self.headers {
            at_most("header name", header.name.len() as u64, limits::HEADER_NAME_BYTES_MAX as u64)?;
            if header.name.is_empty() {
                return Err(BatchError::Mismatch { field: "header name length", expected: 1, actual: 0 });
            }
        }
        Ok(())
    }

    /// Appends the encoded record: lengths first into a small buffer, then each of its parts is copied once.
    pub(super) fn encode(&self, output: &mut BytesMut, offset_delta: u32, base_timestamp: TimestampMs) {
        let timestamp_delta = zigzag(self.timestamp.to_wire() - base_timestamp.to_wire());
        let flags = flag(self.key.is_some(), FLAG_KEY)
            | flag(self.value.is_some(), FLAG_VALUE)
            | flag(!self.headers.is_empty(), FLAG_HEADERS);
        let mut length = 1 + varint_bytes(u64::from(offset_delta)) + varint_bytes(timestamp_delta);
        if let Some(key) = self.key {
            length += varint_bytes(key.len() as u64) + key.len();
        }
        if let Some(value) = self.value {
            length += varint_bytes(value.len() as u64) + value.len();
        }
        if !self.headers.is_empty() {
            length += varint_bytes(self.headers.len() as u64);
            length += self.headers.iter().map(HeaderView::encoded_bytes).sum::<usize>();
        }
        output.reserve(varint_bytes(length as u64) + length);
        let mut prefix = VarintBuffer::<PREFIX_BYTES_MAX>::new();
        prefix.push(length as u64);
        prefix.push_byte(flags);
        prefix.push(u64::from(offset_delta));
        prefix.push(timestamp_delta);
        if let Some(key) = self.key {
            prefix.push(key.len() as u64);
        }
        output.put_slice(prefix.as_slice());
        if let Some(key) = self.key {
            output.put_slice(key);
        }
        if let Some(value) = self.value {
            put_varint(output, value.len() as u64);
            output.put_slice(value);
        }
        if !self.headers.is_empty() {
            put_varint(output, self.headers.len() as u64);
            for header in self.headers {
                header.encode(output);
            }
        }
    }
}

/// A record of a batch; all its parts are slices of the batch's records section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset.
    pub offset: Offset,
    /// Its own time, as its producer gave it.
    pub timestamp: TimestampMs,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value; without one it is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: RecordHeaders,
}

/// A record's headers, decoded while they are walked; they were checked when the record was decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordHeaders {
    encoded: Bytes,
    count: usize,
}

impl RecordHeaders {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none, as in most records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = HeaderView<'_>> {
        let mut reader = Reader::new(&self.encoded, 0);
        (0..self.count).map_while(move |_| HeaderView::decode(&mut reader))
    }

    /// The bytes behind a value that [`Self::iter`] gave, without a copy.
    #[must_use]
    pub fn share(&self, value: &[u8]) -> Bytes {
        self.encoded.slice_ref(value)
    }
}

/// A record as slices of the section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRef<'a> {
    pub(crate) offset: Offset,
    pub(crate) timestamp: TimestampMs,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    headers: &'a [u8],
    header_count: usize,
    /// The whole record, its length prefix included.
    pub(crate) encoded: &'a [u8],
}

/// Where a walk through a records section stands.
#[derive(Clone, Debug)]
struct Cursor {
    base_offset: Offset,
    base_timestamp: TimestampMs,
    last_offset_delta: u32,
    position: usize,
    remaining: u32,
    next_delta: u64,
    failed: bool,
}

impl Cursor {
    fn new(header: &BatchHeader) -> Self {
        Cursor {
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            last_offset_delta: header.last_offset_delta,
            position: 0,
            remaining: header.record_count,
            next_delta: 0,
            failed: false,
        }
    }

    /// The next record; after an error, and at the end, nothing.
    fn next<'a>(&mut self, section: &'a [u8]) -> Option<Result<RecordRef<'a>, BatchError>> {
        if self.failed {
            return None;
        }
        let position = self.position;
        let result = if self.remaining == 0 {
            if position == section.len() {
                return None;
            }
            Err("end of the section")
        } else {
            self.parse(section)
        };
        Some(result.map_err(|field| {
            self.failed = true;
            BatchError::BadRecord { field, position }
        }))
    }

    fn parse<'a>(&mut self, section: &'a [u8]) -> Result<RecordRef<'a>, &'static str> {
        let start = self.position;
        let mut reader = Reader::new(section, start);
        let length = reader.length().ok_or("length")?;
        let body_start = reader.position();
        let body = reader.take(length).ok_or("length")?;
        let mut body = Reader::new(body, 0);
        let flags = body.byte().ok_or("flags")?;
        if flags & !FLAGS_KNOWN != 0 {
            return Err("flags");
        }
        let delta = body.varint().ok_or("offset delta")?;
        if delta < self.next_delta || delta > u64::from(self.last_offset_delta) {
            return Err("offset delta");
        }
        let timestamp_delta = unzigzag(body.varint().ok_or("timestamp delta")?);
        let timestamp = self.base_timestamp.to_wire().checked_add(timestamp_delta);
        let timestamp = timestamp.and_then(TimestampMs::from_wire).ok_or("timestamp delta")?;
        let key = optional_slice(&mut body, flags & FLAG_KEY != 0).ok_or("key")?;
        let value = optional_slice(&mut body, flags & FLAG_VALUE != 0).ok_or("value")?;
        let mut header_count = 0;
        let mut headers: &[u8] = &[];
        if flags & FLAG_HEADERS != 0 {
            header_count = body.length().ok_or("header count")?;
            if header_count == 0 || header_count > limits::HEADERS_PER_RECORD_MAX {
                return Err("header count");
            }
            let headers_start = body.position();
            for _ in 0..header_count {
                HeaderView::decode(&mut body).ok_or("header")?;
            }
            headers = &section[body_start + headers_start..body_start + body.position()];
        }
        if body.position() != length {
            return Err("length");
        }
        self.position = reader.position();
        self.remaining -= 1;
        self.next_delta = delta + 1;
        Ok(RecordRef {
            offset: self.base_offset.plus(delta),
            timestamp,
            key,
            value,
            headers,
            header_count,
            encoded: &section[start..self.position],
        })
    }
}

/// The records of a batch; ends after the first error. Zero-copy: each record shares the section's memory.
#[derive(Clone, Debug)]
pub struct RecordIter {
    section: Bytes,
    cursor: Cursor,
}

impl RecordIter {
    pub(super) fn new(section: Bytes, header: &BatchHeader) -> Self {
        RecordIter { section, cursor: Cursor::new(header) }
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.cursor.next(&self.section)? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let share = |slice: &[u8]| self.section.slice_ref(slice);
        Some(Ok(Record {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(share),
            value: record.value.map(share),
            headers: if record.header_count == 0 {
                RecordHeaders::default()
            } else {
                RecordHeaders { encoded: share(record.headers), count: record.header_count }
            },
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.cursor.remaining as usize + 1))
    }
}

/// The records of a section without sharing its memory.
#[derive(Clone, Debug)]
pub(crate) struct RawRecords<'a> {
    section: &'a [u8],
    cursor: Cursor,
}

impl<'a> RawRecords<'a> {
    pub(crate) fn new(section: &'a [u8], header: &BatchHeader) -> Self {
        RawRecords { section, cursor: Cursor::new(header) }
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RecordRef<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next(self.section)
    }
}

const fn flag(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

fn put_varint(output: &mut BytesMut, value: u64) {
    let mut buffer = VarintBuffer::<10>::new();
    buffer.push(value);
    output.put_slice(buffer.as_slice());
}

fn optional_slice<'a>(reader: &mut Reader<'a>, present: bool) -> Option<Option<&'a [u8]>> {
    if !present {
        return Some(None);
    }
    let length = reader.length()?;
    reader.take(length).map(Some)
}
