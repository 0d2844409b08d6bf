//! All producers of one partition.

use std::collections::BTreeMap;
use std::time::Duration;

use wharf_types::{Offset, ProducerEpoch, ProducerId, Sequence, limits};

use super::state::ProducerState;
use crate::batch::{
    BatchError, BatchKind, ControlError, ControlRecord, EntrySource, RequestEntry, SealedBatch,
};

/// What becomes of one request entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryVerdict {
    /// It is new: append it, or send it again if the batch is refused for another entry.
    Append,
    /// It was appended before, at these offsets; answered under the conditions of its own acks (T37).
    Duplicate {
        /// Offset of the first record that it got then.
        base_offset: Offset,
        /// Offset of the last one.
        last_offset: Offset,
    },
    /// An earlier entry of the same batch has the same producer, epoch and sequence. It is settled once that one is.
    RepeatedInBatch,
    /// A newer incarnation of the producer has written.
    Fenced {
        /// The epoch of that one.
        current: ProducerEpoch,
    },
    /// Older than all that is remembered: it may have been written before.
    OutOfOrder {
        /// The smallest sequence that is remembered.
        smallest: Sequence,
    },
    /// A new producer, and the partition remembers as many as it can (10,000). The longest idle one may have to go
    /// first, see [`ProducerStates::longest_idle`].
    TooManyProducers,
}

/// What becomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// All entries are new: append it.
    Append,
    /// Append nothing; one verdict for each entry.
    Refused(Vec<EntryVerdict>),
}

/// A batch in the log that contradicts the state; the log or the state is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerStateError {
    /// Its entries are malformed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Its control record is malformed or of a newer version.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Batches must be applied in order.
    #[error("batch at offset {actual} applied to producer state at {expected}")]
    NotNext {
        /// The offset that the state has reached.
        expected: Offset,
        /// The batch's base offset.
        actual: Offset,
    },
    /// An entry was appended that must not have been.
    #[error("entry of producer {producer_id}, sequence {sequence}, at offset {base_offset} is {verdict:?}")]
    Contradiction {
        /// The producer.
        producer_id: ProducerId,
        /// The entry's sequence.
        sequence: Sequence,
        /// The entry's first offset.
        base_offset: Offset,
        /// What the state says of it.
        verdict: EntryVerdict,
    },
}

/// The producers of a partition: the fold of its log below [`Self::end_offset`].
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    pub(super) end_offset: Offset,
    pub(super) producers: BTreeMap<ProducerId, ProducerState>,
    pub(super) clock: Duration,
}

/// A producer that the entries of a batch under check have touched.
enum Touched {
    /// By the entry of this index, which was judged to be appended.
    Once(usize),
    /// By several: the state behind them.
    More(ProducerState),
}

impl ProducerStates {
    /// No producers, at an offset: 0, or where a log starts whose earlier state is lost.
    #[must_use]
    pub fn new(end_offset: Offset) -> Self {
        ProducerStates { end_offset, ..ProducerStates::default() }
    }

    /// The offset up to which the log was applied, exclusive.
    #[must_use]
    pub const fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// Producers that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// The highest producer id that is remembered (R3: a rebuilt controller hands out higher ones only).
    #[must_use]
    pub fn highest_producer_id(&self) -> Option<ProducerId> {
        self.producers.keys().copied().max()
    }

    /// The producer's epoch, if it is remembered.
    #[must_use]
    pub fn epoch(&self, producer_id: ProducerId) -> Option<ProducerEpoch> {
        self.producers.get(&producer_id).map(|producer| producer.epoch)
    }

    /// Where the request was written, if it is remembered: the query of R10 after partition growth.
    #[must_use]
    pub fn find(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
    ) -> Option<super::AcceptedRequest> {
        let producer = self.producers.get(&producer_id).filter(|producer| producer.epoch == epoch)?;
        let index = producer.window.binary_search_by_key(&sequence, |request| request.sequence).ok()?;
        producer.window.get(index).copied()
    }

    /// Moves the clock of idle times; a clock that never goes back, counted from any start. Earlier values change
    /// nothing.
    pub fn advance_clock(&mut self, now: Duration) {
        self.clock = self.clock.max(now);
    }

    /// Judges the entries of a batch in order, each against the state left by those before it. Changes nothing.
    #[must_use]
    pub fn check(&self, entries: &[RequestEntry]) -> CheckOutcome {
        let mut touched: BTreeMap<ProducerId, Touched> = BTreeMap::new();
        let mut new_producers = 0;
        let mut verdicts = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let known = self.producers.get(&entry.producer_id);
            let verdict = match touched.remove(&entry.producer_id) {
                // A gateway's own id has no client that could reuse another; there are few of them.
                None if known.is_none()
                    && entry.source == EntrySource::Client
                    && self.is_full(new_producers) =>
                {
                    EntryVerdict::TooManyProducers
                }
                None => {
                    let verdict = known.map_or(EntryVerdict::Append, |producer| producer.judge(entry));
                    if verdict == EntryVerdict::Append {
                        new_producers += usize::from(known.is_none());
                        touched.insert(entry.producer_id, Touched::Once(index));
                    }
                    verdict
                }
                Some(before) => {
                    let mut producer = match before {
                        Touched::Once(first) => self.with_entry(&entries[first]),
                        Touched::More(producer) => producer,
                    };
                    let verdict = judge_in_batch(&producer, known, entry);
                    if verdict == EntryVerdict::Append {
                        producer.accept(entry, self.end_offset, self.clock);
                    }
                    touched.insert(entry.producer_id, Touched::More(producer));
                    verdict
                }
            };
            verdicts.push(verdict);
        }
        if verdicts.iter().all(|verdict| *verdict == EntryVerdict::Append) {
            CheckOutcome::Append
        } else {
            CheckOutcome::Refused(verdicts)
        }
    }

    /// Takes the next batch of the log, data or control.
    ///
    /// # Errors
    /// A [`ProducerStateError`]: the partition must stop, and this state must not be used any more.
    pub fn apply(&mut self, batch: &SealedBatch) -> Result<(), ProducerStateError> {
        if batch.base_offset() < self.end_offset {
            return Err(ProducerStateError::NotNext {
                expected: self.end_offset,
                actual: batch.base_offset(),
            });
        }
        if batch.header().kind == BatchKind::Control {
            if let ControlRecord::ProducerExpiry { producer_ids } = ControlRecord::from_batch(batch)? {
                for producer_id in producer_ids {
                    self.producers.remove(&producer_id);
                }
            }
        } else {
            self.apply_entries(&batch.entries()?, batch.base_offset())?;
        }
        self.end_offset = batch.next_offset();
        Ok(())
    }

    fn apply_entries(&mut self, entries: &[RequestEntry], base: Offset) -> Result<(), ProducerStateError> {
        let mut base_offset = base;
        let clock = self.clock;
        for entry in entries {
            let producer =
                self.producers.entry(entry.producer_id).or_insert_with(|| ProducerState::new(entry, clock));
            let verdict = producer.judge(entry);
            if verdict != EntryVerdict::Append {
                return Err(ProducerStateError::Contradiction {
                    producer_id: entry.producer_id,
                    sequence: entry.sequence,
                    base_offset,
                    verdict,
                });
            }
            producer.accept(entry, base_offset, clock);
            base_offset = base_offset.plus(u64::from(entry.record_count));
        }
        Ok(())
    }

    /// Producers whose last entry is at least this long ago, rising by id; for the expiry record that a leader
    /// writes (R10: 7 days for clients, 1 h for gateways). Never one with an open transaction.
    #[must_use]
    pub fn idle_since(&self, client: Duration, gateway: Duration) -> Vec<ProducerId> {
        let idle = |producer: &ProducerState| self.clock.saturating_sub(producer.last_seen);
        let limit = |producer: &ProducerState| match producer.source {
            EntrySource::Client => client,
            EntrySource::Gateway => gateway,
        };
        self.producers
            .iter()
            .filter(|(_, producer)| producer.transaction.is_none() && idle(producer) >= limit(producer))
            .map(|(id, _)| *id)
            .collect()
    }

    /// The producer without an open transaction whose last entry is longest ago, and how long.
    #[must_use]
    pub fn longest_idle(&self) -> Option<(ProducerId, Duration)> {
        self.producers
            .iter()
            .filter(|(_, producer)| producer.transaction.is_none())
            .min_by_key(|(_, producer)| producer.last_seen)
            .map(|(id, producer)| (*id, self.clock.saturating_sub(producer.last_seen)))
    }

    /// The requests that are remembered of a producer, rising by sequence.
    pub fn window(&self, producer_id: ProducerId) -> impl Iterator<Item = &super::AcceptedRequest> {
        self.producers.get(&producer_id).into_iter().flat_map(|producer| producer.window.iter())
    }

    fn is_full(&self, new_producers: usize) -> bool {
        self.producers.len() + new_producers >= limits::PRODUCERS_PER_PARTITION_MAX
    }

    /// The producer's state as it would be behind this entry.
    fn with_entry(&self, entry: &RequestEntry) -> ProducerState {
        let mut producer = self
            .producers
            .get(&entry.producer_id)
            .cloned()
            .unwrap_or_else(|| ProducerState::new(entry, self.clock));
        producer.accept(entry, self.end_offset, self.clock);
        producer
    }
}

/// Like [`ProducerState::judge`], telling repetitions of the batch itself from those of the log.
fn judge_in_batch(
    producer: &ProducerState,
    known: Option<&ProducerState>,
    entry: &RequestEntry,
) -> EntryVerdict {
    match producer.judge(entry) {
        EntryVerdict::Duplicate { .. } => match known.map(|known| known.judge(entry)) {
            Some(verdict @ EntryVerdict::Duplicate { .. }) => verdict,
            _ => EntryVerdict::RepeatedInBatch,
        },
        verdict => verdict,
    }
}
