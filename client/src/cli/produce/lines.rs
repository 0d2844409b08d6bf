//! Lines to records, in chunks that make a request each.
//!
//! A line ends at `\n`, which is not part of the record; nothing else is changed. A last line without `\n` counts, an empty
//! one too. The bytes of a chunk lie in one buffer of which keys and values are slices.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

use bytes::Bytes;
use tokio::sync::mpsc;
use wharf_proto::v1;
use wharf_types::limits::MESSAGE_BYTES_MAX;

use super::super::error::CliError;
use super::super::text::Separator;

/// The longest line: no topic takes larger records.
const LINE_BYTES_MAX: usize = MESSAGE_BYTES_MAX as usize;
/// Records that make a request even if they are tiny.
const CHUNK_RECORDS_MAX: usize = 2_000;
/// What is read at once.
const READ_BYTES: usize = 256 << 10;

/// How a line is read.
#[derive(Debug, Clone)]
pub(super) struct LineFormat {
    /// What stands between key and value; without it the line is the value.
    pub(super) separator: Option<Separator>,
    /// A key for all lines.
    pub(super) key: Option<Bytes>,
    /// The value that means a tombstone.
    pub(super) null_value: Option<Bytes>,
    /// Headers of all records.
    pub(super) headers: Vec<v1::Header>,
    /// Skip lines without the separator.
    pub(super) skip_invalid: bool,
    /// Bytes of lines that make a chunk.
    pub(super) batch_bytes: usize,
}

/// The records of one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chunk {
    pub(super) records: Vec<v1::Record>,
    /// Number of the first record's line, from 1.
    pub(super) first_line: u64,
    /// Bytes of input up to the last record, since the chunk before.
    pub(super) input_bytes: u64,
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReadSummary {
    pub(super) lines_skipped: u64,
}

/// Where key and value of a record lie in the buffer.
#[derive(Debug)]
struct Slot {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

#[derive(Debug, Default)]
struct Pending {
    buffer: Vec<u8>,
    slots: Vec<Slot>,
    first_line: u64,
    input_bytes: u64,
}

impl Pending {
    fn take(&mut self, format: &LineFormat) -> Chunk {
        let buffer = Bytes::from(std::mem::take(&mut self.buffer));
        let records = self
            .slots
            .drain(..)
            .map(|slot| {
                let value = buffer.slice(slot.value);
                let tombstone = format.null_value.as_ref() == Some(&value);
                v1::Record {
                    key: slot.key.map(|key| buffer.slice(key)).or_else(|| format.key.clone()),
                    value: (!tombstone).then_some(value),
                    tombstone,
                    headers: format.headers.clone(),
                    ..v1::Record::default()
                }
            })
            .collect();
        Chunk { records, first_line: self.first_line, input_bytes: std::mem::take(&mut self.input_bytes) }
    }
}

/// Reads all lines and hands them over; blocks while the queue is full. Ends early, without an error, when the receiver has
/// gone, because that knows why.
///
/// # Errors
/// [`CliError::NoSeparator`], [`CliError::LineTooLong`] and [`CliError::Io`], each after all lines before were handed over.
pub(super) fn read_lines(
    source: impl Read,
    format: &LineFormat,
    sink: &mpsc::Sender<Chunk>,
) -> Result<ReadSummary, CliError> {
    let mut reader = BufReader::with_capacity(READ_BYTES, source);
    let mut pending = Pending::default();
    let mut summary = ReadSummary::default();
    let mut line_number = 0;
    loop {
        let full = pending.buffer.len() >= format.batch_bytes || pending.slots.len() >= CHUNK_RECORDS_MAX;
        // The next read may wait for input: what is there goes out first.
        let about_to_wait = !reader.buffer().contains(&b'\n');
        if !pending.slots.is_empty()
            && (full || about_to_wait)
            && sink.blocking_send(pending.take(format)).is_err()
        {
            return Ok(summary);
        }
        line_number += 1;
        let taken = match next_line(&mut reader, &mut pending, format, line_number) {
            Ok(taken) => taken,
            Err(error) => {
                if !pending.slots.is_empty() {
                    // If nobody takes it, the receiver has failed and tells that.
                    drop(sink.blocking_send(pending.take(format)));
                }
                return Err(error);
            }
        };
        match taken {
            Taken::Record => {}
            Taken::Skipped => summary.lines_skipped += 1,
            Taken::End => break,
        }
    }
    if !pending.slots.is_empty() {
        drop(sink.blocking_send(pending.take(format)));
    }
    Ok(summary)
}

enum Taken {
    Record,
    Skipped,
    End,
}

fn next_line(
    reader: &mut impl BufRead,
    pending: &mut Pending,
    format: &LineFormat,
    line: u64,
) -> Result<Taken, CliError> {
    let start = pending.buffer.len();
    let outcome = reader.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut pending.buffer);
    let read = outcome.map_err(|source| {
        pending.buffer.truncate(start);
        CliError::io(format!("read line {line}"), source)
    })?;
    if read == 0 {
        return Ok(Taken::End);
    }
    pending.input_bytes += read as u64;
    let end = pending.buffer.len() - usize::from(pending.buffer.last() == Some(&b'\n'));
    if end - start > LINE_BYTES_MAX {
        pending.buffer.truncate(start);
        return Err(CliError::LineTooLong { line, bytes_max: LINE_BYTES_MAX });
    }
    let slot = match &format.separator {
        None => Slot { key: None, value: start..end },
        Some(separator) => match separator.split(&pending.buffer[start..end]) {
            Some((key, value)) => Slot { key: Some(start..start + key.len()), value: end - value.len()..end },
            None if format.skip_invalid => {
                pending.buffer.truncate(start);
                return Ok(Taken::Skipped);
            }
            None => {
                pending.buffer.truncate(start);
                return Err(CliError::NoSeparator { line, separator: separator.display() });
            }
        },
    };
    if pending.slots.is_empty() {
        pending.first_line = line;
    }
    pending.slots.push(slot);
    Ok(Taken::Record)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn format(separator: Option<&str>) -> LineFormat {
        LineFormat {
            separator: separator.map(|text| text.parse().unwrap()),
            key: None,
            null_value: None,
            headers: Vec::new(),
            skip_invalid: false,
            batch_bytes: 1 << 16,
        }
    }

    fn read(input: &[u8], format: &LineFormat) -> (Vec<Chunk>, Result<ReadSummary, CliError>) {
        let (sink, mut chunks) = mpsc::channel(1_000);
        let outcome = read_lines(input, format, &sink);
        drop(sink);
        let mut all = Vec::new();
        while let Ok(chunk) = chunks.try_recv() {
            all.push(chunk);
        }
        (all, outcome)
    }

    type Pair<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

    fn pairs(chunks: &[Chunk]) -> Vec<Pair<'_>> {
        let records = chunks.iter().flat_map(|chunk| &chunk.records);
        records.map(|record| (record.key.as_deref(), record.value.as_deref())).collect()
    }

    #[test]
    fn each_line_is_a_record_also_empty_and_unfinished_ones() {
        let (chunks, outcome) = read(b"a\n\n\xff b\r\nlast", &format(None));
        outcome.unwrap();
        assert_eq!(
            pairs(&chunks),
            [(None, Some(&b"a"[..])), (None, Some(b"")), (None, Some(b"\xff b\r")), (None, Some(b"last"))]
        );
        assert_eq!(chunks.iter().map(|chunk| chunk.input_bytes).sum::<u64>(), 12);
    }

    #[test]
    fn the_first_separator_ends_the_key() {
        let (chunks, outcome) = read(b"k\tv\tw\n\tx\n", &format(Some(r"\t")));
        outcome.unwrap();
        assert_eq!(pairs(&chunks), [(Some(&b"k"[..]), Some(&b"v\tw"[..])), (Some(b""), Some(b"x"))]);
    }

    #[test]
    fn a_line_without_separator_ends_the_run_after_those_before_it() {
        let (chunks, outcome) = read(b"k\tv\nno\nk\tw\n", &format(Some(r"\t")));
        assert!(matches!(outcome, Err(CliError::NoSeparator { line: 2, .. })));
        assert_eq!(pairs(&chunks), [(Some(&b"k"[..]), Some(&b"v"[..]))]);
    }

    #[test]
    fn invalid_lines_are_counted_when_they_may_be_skipped() {
        let lenient = LineFormat { skip_invalid: true, ..format(Some(":")) };
        let (chunks, outcome) = read(b"no\na:1\nno\nb:2\n", &lenient);
        assert_eq!(outcome.unwrap(), ReadSummary { lines_skipped: 2 });
        assert_eq!(pairs(&chunks).len(), 2);
        assert_eq!(chunks[0].first_line, 2);
    }

    #[test]
    fn chunks_are_cut_by_bytes_and_keep_line_numbers() {
        let small = LineFormat { batch_bytes: 4, ..format(None) };
        let (chunks, outcome) = read(b"aaa\nbbb\nccc\n", &small);
        outcome.unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.first_line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn chunks_are_cut_by_records() {
        let (chunks, outcome) = read(&b"\n".repeat(CHUNK_RECORDS_MAX + 1), &format(None));
        outcome.unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.records.len()).sum::<usize>(), CHUNK_RECORDS_MAX + 1);
        assert!(chunks.iter().all(|chunk| chunk.records.len() <= CHUNK_RECORDS_MAX));
    }

    #[test]
    fn a_line_that_no_topic_takes_is_an_error() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let (_, outcome) = read(&long, &format(None));
        assert!(matches!(outcome, Err(CliError::LineTooLong { line: 1, .. })));
    }

    #[test]
    fn a_null_value_is_a_tombstone() {
        let with_null = LineFormat { null_value: Some("NULL".into()), ..format(Some(":")) };
        let (chunks, outcome) = read(b"k:NULL\n", &with_null);
        outcome.unwrap();
        assert!(chunks[0].records[0].tombstone);
        assert_eq!(chunks[0].records[0].value, None);
    }
}
