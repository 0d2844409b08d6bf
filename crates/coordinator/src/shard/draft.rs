//! The draft: records of several requests that will be appended in one batch.
//!
//! Without it, the second request of a batch would be judged by a state in which the first has not happened: a commit
//! after the deletion of its group would take the group for existing. Drafted records count for requests as appended ones
//! do, under provisional offsets; answers never show them.

use wharf_types::Offset;

use crate::record::Record;

use super::{Group, GroupShard};

impl GroupShard {
    /// Takes note of records that will be part of the next batch, after those drafted before. Then either the batch was
    /// appended ([`GroupShard::appended`]), or it was certainly not ([`GroupShard::discard_draft`]). Where that is not known,
    /// the shard must be built anew from its store and its log.
    pub fn draft(&mut self, records: impl IntoIterator<Item = Record>) {
        let mut offset = self.seen_end.plus(self.draft_len as u64);
        for record in records {
            self.observe(offset, &record);
            self.pending.push_back((offset, record));
            self.draft_len += 1;
            offset = offset.next();
        }
    }

    /// The records drafted, in order: the batch to append.
    pub fn drafted(&self) -> impl Iterator<Item = &Record> {
        self.pending.iter().skip(self.pending.len() - self.draft_len).map(|(_, record)| record)
    }

    /// Forgets the draft, since its batch was not and will not be appended. A run of truncation ends by it.
    pub fn discard_draft(&mut self) {
        if self.draft_len == 0 {
            return;
        }
        self.pending.truncate(self.pending.len() - self.draft_len);
        self.draft_len = 0;
        self.overlay.clear();
        self.live_bytes = self.groups.values().map(Group::bytes).sum();
        let pending = std::mem::take(&mut self.pending);
        for (offset, record) in &pending {
            self.observe(*offset, record);
        }
        self.pending = pending;
        self.generation += 1;
    }

    /// Makes the draft records of the log from `base_offset` on and returns their end.
    pub(super) fn place_draft(&mut self, base_offset: Offset) -> Offset {
        self.move_draft(base_offset);
        let end = base_offset.plus(self.draft_len as u64);
        self.draft_len = 0;
        end
    }

    /// Numbers the draft from `base_offset` on, which is not below its provisional place.
    pub(super) fn move_draft(&mut self, base_offset: Offset) {
        let shift = base_offset.distance_from(self.seen_end);
        if shift == 0 || self.draft_len == 0 {
            return;
        }
        for (offset, _) in self.pending.iter_mut().filter(|(offset, _)| *offset >= self.seen_end) {
            *offset = offset.plus(shift);
        }
        for latest in self.overlay.values_mut().filter(|latest| latest.offset >= self.seen_end) {
            latest.offset = latest.offset.plus(shift);
        }
    }
}
