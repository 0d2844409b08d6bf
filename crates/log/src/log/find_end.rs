//! Where the log ends: which segments are trusted, where the scan starts, and what is done about what is bad (R17).

use std::io;
use std::sync::Arc;

use wharf_types::{Offset, TimestampMs};

use super::error::LogError;
use super::manifest::{DamagedRange, Manifest};
use super::open::{Found, Opening};
use super::rebuild;
use crate::index::Lookup;
use crate::recovery::{self, BadBatch, ScanOutcome, Scanner, Verdict};
use crate::segment::{BatchCursor, Segment, SegmentEnd};
use crate::vfs::unless_full;

/// A segment without any index entry is believed only up to this length.
const INDEX_WANTED_ABOVE_BYTES: u64 = 6 << 20;

impl Opening<'_> {
    pub(super) fn find_end(&mut self, manifest: &mut Manifest, bases: &[Offset]) -> Result<Found, LogError> {
        let partition = self.partition;
        let failed = |source| LogError::Io { doing: "recovering", partition, source };
        let mut segments = Vec::with_capacity(bases.len());
        for base in bases {
            segments.push(Arc::new(Segment::open(&*self.vfs, self.dir, *base).map_err(failed)?));
        }
        let Some(first) = segments.first().cloned() else {
            return Ok(Found {
                segments,
                log_end: manifest.log_start,
                append_time: TimestampMs::EPOCH,
                scanned_from: None,
                epochs: Vec::new(),
            });
        };
        let checkpoint = self.hint.checkpoint.unwrap_or_default();
        let durable_end = manifest.capped(checkpoint.durable_end, checkpoint.generation);
        let start = if self.hint.clean { Offset::MAX } else { durable_end };
        let trusted = self.trust_closed(&segments, (start, durable_end), manifest).map_err(failed)?;
        let (at, position, expected) = if first.base_offset() > manifest.log_start {
            // Oldest segments that are missing are a gap like any other.
            (0, 0, manifest.log_start)
        } else {
            self.scan_start(&segments, trusted, start).map_err(failed)?
        };
        let append_time =
            at.checked_sub(1).map_or(TimestampMs::EPOCH, |before| segments[before].last_append_time());
        let log_end = segments.last().map_or(first.base_offset(), |last| last.next_offset());
        if at == segments.len() {
            let append_time = segments.iter().map(|segment| segment.last_append_time()).max();
            let append_time = append_time.unwrap_or(TimestampMs::EPOCH);
            if let Some(last) = segments.last() {
                last.index().resume(&*self.vfs).map_err(failed)?;
            }
            return Ok(Found { segments, log_end, append_time, scanned_from: None, epochs: Vec::new() });
        }
        let compacts = self.config.cleanup.compacts();
        let known = manifest.damaged.clone();
        let explains_hole = |from, to| compacts || manifest.explains_hole(from, to);
        let vfs = Arc::clone(&self.vfs);
        let mut scanner = Scanner::new(vfs, partition, (expected, append_time), &known, explains_hole);
        for (number, segment) in segments[at..].iter().enumerate() {
            scanner.scan(segment, if number == 0 { position } else { 0 }).map_err(failed)?;
            let is_closed = at + number + 1 < segments.len();
            if is_closed {
                let sealed = segment.index().seal(&*self.vfs);
                let synced = sealed.and_then(|file| file.map_or(Ok(()), |file| file.sync_data()));
                unless_full(synced).map_err(failed)?;
            }
        }
        let mut scan = scanner.finish();
        let segments_from = segments[at].base_offset();
        self.report.scanned_bytes = scan.scanned_bytes;
        let verdict = recovery::judge(&mut scan, durable_end);
        self.apply_verdict(&mut segments, &mut scan, verdict, manifest)?;
        Ok(Found {
            segments,
            log_end: scan.log_end,
            append_time: scan.append_time,
            scanned_from: Some((segments_from, expected)),
            epochs: scan.epochs,
        })
    }

    /// Sets the ends of the segments below `start` that need no scan; how many there are. After a clean stop that may be
    /// all of them, but only if the last one ends where the log was durable: one that was cut since is scanned, so that
    /// what is gone is told (I19).
    fn trust_closed(
        &mut self,
        segments: &[Arc<Segment>],
        (start, durable_end): (Offset, Offset),
        manifest: &Manifest,
    ) -> io::Result<usize> {
        if segments.first().is_some_and(|first| first.base_offset() > manifest.log_start) {
            return Ok(0);
        }
        for (at, segment) in segments.iter().enumerate() {
            let next_base = segments.get(at + 1).map(|next| next.base_offset());
            let is_below = next_base.map_or(start == Offset::MAX, |next| next <= start);
            if !is_below {
                return Ok(at);
            }
            self.mend_index(segment)?;
            let Some(end) = recovery::segment_end(&self.vfs, segment, self.partition)? else {
                return Ok(at);
            };
            let expected = next_base.unwrap_or(durable_end);
            let joins = end.next_offset == expected || manifest.explains_gap(end.next_offset, expected);
            if !joins {
                return Ok(at);
            }
            segment.set_end(end);
        }
        Ok(segments.len())
    }

    /// Writes a closed segment's index anew if it is missing, damaged or not of this segment (T31).
    fn mend_index(&mut self, segment: &Arc<Segment>) -> io::Result<()> {
        let is_sound = match segment.index().lookup_last(&*self.vfs)? {
            Lookup::Damaged => false,
            Lookup::Start => segment.bytes() <= INDEX_WANTED_ABOVE_BYTES,
            Lookup::Entry(entry) => {
                let position = u64::from(entry.position);
                let (vfs, segment) = (Arc::clone(&self.vfs), Arc::clone(segment));
                let base = segment.base_offset().plus(u64::from(entry.relative_offset));
                let mut cursor = BatchCursor::new(vfs, segment, self.partition, position).with_read_ahead(0);
                matches!(cursor.peek_header(), Ok(Some(header)) if header.base_offset == base)
            }
        };
        if !is_sound {
            self.report.rebuilt.push("index");
            unless_full(rebuild::index(&self.vfs, self.partition, segment))?;
        }
        Ok(())
    }

    /// The segment, position and offset at which the scan starts; no segment if all are trusted.
    fn scan_start(
        &self,
        segments: &[Arc<Segment>],
        trusted: usize,
        start: Offset,
    ) -> io::Result<(usize, u64, Offset)> {
        let Some(segment) = segments.get(trusted) else {
            return Ok((trusted, 0, Offset::ZERO));
        };
        let from_base = (trusted, 0, segment.base_offset());
        let is_in_it = segments.get(trusted + 1).is_none_or(|next| start < next.base_offset());
        if start == Offset::MAX || start <= segment.base_offset() || !is_in_it {
            return Ok(self.after_previous(segments, from_base));
        }
        segment.index().resume(&*self.vfs)?;
        let Lookup::Entry(entry) = segment.index().lookup_offset(&*self.vfs, start)? else {
            return Ok(self.after_previous(segments, from_base));
        };
        let expected = segment.base_offset().plus(u64::from(entry.relative_offset));
        let position = u64::from(entry.position);
        let mut cursor =
            BatchCursor::new(Arc::clone(&self.vfs), Arc::clone(segment), self.partition, position)
                .with_read_ahead(0);
        let is_there = matches!(cursor.peek_header(), Ok(Some(header)) if header.base_offset == expected);
        let mut first = BatchCursor::new(Arc::clone(&self.vfs), Arc::clone(segment), self.partition, 0)
            .with_read_ahead(0);
        let Ok(Some(header)) = first.peek_header() else {
            return Ok(self.after_previous(segments, from_base));
        };
        if !is_there {
            return Ok(self.after_previous(segments, from_base));
        }
        let append_time = header.append_time;
        let (bytes, next_offset) = (segment.bytes(), expected);
        let (first_append_time, last_append_time) = (append_time, append_time);
        segment.set_end(SegmentEnd { bytes, next_offset, first_append_time, last_append_time });
        Ok((trusted, position, expected))
    }

    /// A scan from a segment's start expects what follows on the segment before it.
    fn after_previous(
        &self,
        segments: &[Arc<Segment>],
        (at, position, base): (usize, u64, Offset),
    ) -> (usize, u64, Offset) {
        let previous = at.checked_sub(1).and_then(|before| segments.get(before));
        (at, position, previous.map_or(base, |previous| previous.next_offset()))
    }

    fn apply_verdict(
        &mut self,
        segments: &mut Vec<Arc<Segment>>,
        scan: &mut ScanOutcome,
        verdict: Verdict,
        manifest: &mut Manifest,
    ) -> Result<(), LogError> {
        let partition = self.partition;
        let failed = |source| LogError::Io { doing: "recovering", partition, source };
        if let Some(torn) = &verdict.torn {
            scan.rewind(torn);
            self.cut(segments, torn).map_err(failed)?;
        }
        let committed = verdict.committed;
        let mut found: Vec<DamagedRange> = verdict
            .quarantined
            .iter()
            .map(|bad| {
                let (next_good, resume) = bad.next_good.unwrap_or((committed, (committed, 0)));
                DamagedRange { from: bad.from, next_good, resume, skipped: false }
            })
            .collect();
        if verdict.torn.is_none() && scan.log_end < committed {
            let lost_tail = found.iter().any(|range| range.next_good == committed);
            if !lost_tail {
                let (from, resume) = (scan.log_end, (committed, 0));
                found.push(DamagedRange { from, next_good: committed, resume, skipped: false });
            }
            scan.log_end = committed;
        }
        if !found.is_empty() {
            manifest.damaged.extend(found);
            manifest.damaged.sort_by_key(|range| range.from);
            manifest.store(&*self.vfs, self.dir).map_err(failed)?;
        }
        Ok(())
    }
    /// Cuts the log at a bad batch: from the top, so that what is left is a log at every moment.
    fn cut(&mut self, segments: &mut Vec<Arc<Segment>>, torn: &BadBatch) -> io::Result<()> {
        while let Some(last) = segments.pop_if(|last| last.base_offset() >= torn.segment) {
            let is_cut_inside = last.base_offset() == torn.segment && torn.end.bytes > 0;
            if !is_cut_inside {
                self.report.truncated_bytes += last.bytes();
                last.unlink(&*self.vfs)?;
                continue;
            }
            self.report.truncated_bytes += last.bytes() - torn.end.bytes;
            let file = last.file(&*self.vfs)?;
            file.set_len(torn.end.bytes)?;
            file.sync_data()?;
            last.set_end(torn.end);
            last.index().truncate(&*self.vfs, torn.end.next_offset)?;
            segments.push(last);
            break;
        }
        self.vfs.sync_dir(self.dir)
    }
}
