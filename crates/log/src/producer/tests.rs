#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use wharf_types::{
    Compression, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs,
    TopicId, TopicPartition, limits,
};

use super::*;
use crate::batch::{
    BatchBuilder, BatchKind, ControlRecord, EntrySource, RecordView, RequestEntry, Seal, SealedBatch,
    UnsealedBatch,
};

fn entry(producer: u64, epoch: u32, sequence: u64) -> RequestEntry {
    RequestEntry {
        producer_id: ProducerId::new(producer),
        producer_epoch: ProducerEpoch::new(epoch),
        sequence: Sequence::new(sequence),
        record_count: 1,
        source: EntrySource::Client,
    }
}

fn sealed(batch: UnsealedBatch, base_offset: Offset, kind: BatchKind) -> SealedBatch {
    let partition =
        TopicPartition { topic_id: TopicId::from_bytes([1; 16]), partition: PartitionIndex::new(0) };
    batch
        .seal(&Seal {
            partition,
            base_offset,
            leader_epoch: LeaderEpoch::new(0),
            hw_hint: Offset::ZERO,
            ack_mode: true,
            append_time: TimestampMs::EPOCH,
            kind,
        })
        .unwrap()
}

fn batch(entries: &[RequestEntry], base_offset: Offset) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    for entry in entries {
        for _ in 0..entry.record_count {
            let view =
                RecordView { key: None, value: Some(b"v"), headers: &[], timestamp: TimestampMs::EPOCH };
            builder.push_record(&view).unwrap();
        }
        builder.push_entry(*entry).unwrap();
    }
    sealed(builder.finish().unwrap(), base_offset, BatchKind::Data)
}

/// Appends where the check allows it, as a leader does.
fn append(states: &mut ProducerStates, entries: &[RequestEntry]) -> CheckOutcome {
    let outcome = states.check(entries);
    if outcome == CheckOutcome::Append {
        states.apply(&batch(entries, states.end_offset())).unwrap();
    }
    outcome
}

fn verdict(states: &ProducerStates, entry: RequestEntry) -> EntryVerdict {
    match states.check(&[entry]) {
        CheckOutcome::Append => EntryVerdict::Append,
        CheckOutcome::Refused(verdicts) => verdicts[0],
    }
}

#[test]
fn a_repeated_request_gets_its_first_offsets() {
    let mut states = ProducerStates::new(Offset::new(40));
    let request = RequestEntry { record_count: 3, ..entry(1, 0, 7) };
    assert_eq!(append(&mut states, &[entry(2, 0, 0), request]), CheckOutcome::Append);
    let expected = EntryVerdict::Duplicate { base_offset: Offset::new(41), last_offset: Offset::new(43) };
    assert_eq!(verdict(&states, request), expected);
    assert_eq!(states.end_offset(), Offset::new(44));
    let found = states.find(ProducerId::new(1), ProducerEpoch::new(0), Sequence::new(7)).unwrap();
    assert_eq!(found.last_offset(), Offset::new(43));
}

#[test]
fn sequences_may_arrive_in_any_order_while_the_window_has_room() {
    let mut states = ProducerStates::default();
    for sequence in [5, 3, 9, 1] {
        assert_eq!(append(&mut states, &[entry(1, 0, sequence)]), CheckOutcome::Append);
    }
    let window: Vec<_> = states.window(ProducerId::new(1)).map(|request| request.sequence.value()).collect();
    assert_eq!(window, [1, 3, 5, 9]);
}

#[test]
fn below_the_smallest_of_a_full_window_is_out_of_order() {
    let mut states = ProducerStates::default();
    for index in 0..limits::PRODUCER_WINDOW as u64 {
        append(&mut states, &[entry(1, 0, 100 + 2 * index)]);
    }
    let smallest = Sequence::new(100);
    assert_eq!(verdict(&states, entry(1, 0, 99)), EntryVerdict::OutOfOrder { smallest });
    assert_eq!(append(&mut states, &[entry(1, 0, 101)]), CheckOutcome::Append);
    let smallest = Sequence::new(101);
    assert_eq!(verdict(&states, entry(1, 0, 100)), EntryVerdict::OutOfOrder { smallest });
    assert_eq!(states.window(ProducerId::new(1)).count(), limits::PRODUCER_WINDOW);
}

#[test]
fn a_gateways_window_is_shorter() {
    let mut states = ProducerStates::default();
    for sequence in 0..=limits::GATEWAY_PRODUCER_WINDOW as u64 {
        append(&mut states, &[RequestEntry { source: EntrySource::Gateway, ..entry(1, 0, sequence) }]);
    }
    let smallest = Sequence::new(1);
    assert_eq!(verdict(&states, entry(1, 0, 0)), EntryVerdict::OutOfOrder { smallest });
}

#[test]
fn a_higher_epoch_starts_afresh_and_fences_the_lower() {
    let mut states = ProducerStates::default();
    append(&mut states, &[entry(1, 4, 10)]);
    assert_eq!(append(&mut states, &[entry(1, 5, 10)]), CheckOutcome::Append);
    let current = ProducerEpoch::new(5);
    assert_eq!(verdict(&states, entry(1, 4, 11)), EntryVerdict::Fenced { current });
    assert_eq!(states.window(ProducerId::new(1)).count(), 1);
}

#[test]
fn entries_are_judged_behind_those_before_them_and_nothing_is_appended_in_part() {
    let mut states = ProducerStates::default();
    append(&mut states, &[entry(1, 0, 0)]);
    let entries =
        [entry(1, 0, 1), entry(1, 0, 1), entry(1, 0, 0), entry(2, 1, 0), entry(2, 0, 5), entry(3, 0, 0)];
    let duplicate = EntryVerdict::Duplicate { base_offset: Offset::ZERO, last_offset: Offset::ZERO };
    let expected = vec![
        EntryVerdict::Append,
        EntryVerdict::RepeatedInBatch,
        duplicate,
        EntryVerdict::Append,
        EntryVerdict::Fenced { current: ProducerEpoch::new(1) },
        EntryVerdict::Append,
    ];
    assert_eq!(append(&mut states, &entries), CheckOutcome::Refused(expected));
    assert_eq!(states.end_offset(), Offset::new(1));
    assert_eq!(append(&mut states, &[entry(1, 0, 1), entry(1, 0, 2), entry(2, 1, 0)]), CheckOutcome::Append);
}

#[test]
fn a_window_can_fill_inside_one_batch() {
    let mut states = ProducerStates::default();
    let mut entries: Vec<_> =
        (0..limits::PRODUCER_WINDOW as u64).map(|index| entry(1, 0, 10 + index)).collect();
    entries.push(entry(1, 0, 5));
    let CheckOutcome::Refused(verdicts) = append(&mut states, &entries) else { panic!("refused") };
    assert_eq!(verdicts.last(), Some(&EntryVerdict::OutOfOrder { smallest: Sequence::new(10) }));
    entries.pop();
    assert_eq!(append(&mut states, &entries), CheckOutcome::Append);
}

#[test]
fn a_full_partition_takes_no_new_producer_until_one_expired() {
    let mut states = ProducerStates::default();
    for producer in 1..=limits::PRODUCERS_PER_PARTITION_MAX as u64 {
        states.advance_clock(Duration::from_secs(producer));
        append(&mut states, &[entry(producer, 0, 0)]);
    }
    let newcomer = entry(1 << 40, 0, 0);
    assert_eq!(verdict(&states, newcomer), EntryVerdict::TooManyProducers);
    assert_eq!(append(&mut states, &[entry(1, 0, 1)]), CheckOutcome::Append);
    let (longest, idle) = states.longest_idle().unwrap();
    assert_eq!((longest.value(), idle), (2, Duration::from_secs(9_998)));

    let expiry = ControlRecord::ProducerExpiry { producer_ids: vec![longest] };
    let control =
        sealed(expiry.to_batch(TimestampMs::EPOCH).unwrap(), states.end_offset(), BatchKind::Control);
    states.apply(&control).unwrap();
    assert_eq!(states.epoch(longest), None);
    assert_eq!(append(&mut states, &[newcomer]), CheckOutcome::Append);
}

#[test]
fn idle_producers_are_found_by_the_limit_of_their_kind() {
    let mut states = ProducerStates::default();
    append(&mut states, &[entry(1, 0, 0), RequestEntry { source: EntrySource::Gateway, ..entry(2, 0, 0) }]);
    states.advance_clock(Duration::from_secs(3_600));
    append(&mut states, &[entry(3, 0, 0)]);
    let idle = states.idle_since(Duration::from_secs(7_200), Duration::from_secs(3_600));
    assert_eq!(idle, [ProducerId::new(2)]);
}

#[test]
fn a_follower_stops_at_an_entry_that_the_leader_must_not_have_appended() {
    let mut states = ProducerStates::default();
    append(&mut states, &[entry(1, 3, 0)]);
    let error = states.clone().apply(&batch(&[entry(1, 3, 0)], states.end_offset())).unwrap_err();
    assert!(matches!(error, ProducerStateError::Contradiction { .. }));
    let error = states.apply(&batch(&[entry(1, 3, 1)], Offset::ZERO)).unwrap_err();
    assert!(matches!(error, ProducerStateError::NotNext { .. }));
}

#[test]
fn every_flipped_bit_of_a_snapshot_is_noticed() {
    let mut states = ProducerStates::default();
    append(&mut states, &[entry(1, 0, 0), entry(9, 2, 5)]);
    let bytes = states.encode_snapshot();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(ProducerStates::decode_snapshot(Path::new("x"), &flipped).is_err(), "bit {bit}");
    }
}

fn entries_strategy() -> impl Strategy<Value = Vec<Vec<RequestEntry>>> {
    let one = (1..4u64, 0..3u32, 0..300u64, 1..4u32, any::<bool>()).prop_map(
        |(producer, epoch, sequence, record_count, gateway)| RequestEntry {
            record_count,
            source: if gateway { EntrySource::Gateway } else { EntrySource::Client },
            ..entry(producer, epoch, sequence)
        },
    );
    proptest::collection::vec(proptest::collection::vec(one, 1..6), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A snapshot anywhere and the replay behind it give the same state as the whole log (I11).
    #[test]
    fn state_is_the_fold_of_the_log(batches in entries_strategy(), at in 0..80usize) {
        let mut states = ProducerStates::default();
        let mut log = Vec::new();
        for entries in &batches {
            let base_offset = states.end_offset();
            if append(&mut states, entries) == CheckOutcome::Append {
                log.push(batch(entries, base_offset));
            }
        }
        let at = at.min(log.len());
        let mut replayed = ProducerStates::default();
        for batch in &log[..at] {
            replayed.apply(batch).unwrap();
        }
        let snapshot = replayed.encode_snapshot();
        let mut replayed = ProducerStates::decode_snapshot(Path::new("x"), &snapshot).unwrap();
        prop_assert_eq!(&replayed.encode_snapshot(), &snapshot);
        for batch in &log[at..] {
            replayed.apply(batch).unwrap();
        }
        prop_assert_eq!(replayed.encode_snapshot(), states.encode_snapshot());
    }

    /// Judging a batch gives the verdicts that judging and appending its entries one by one would give.
    #[test]
    fn a_batch_is_judged_as_its_entries_one_by_one(batches in entries_strategy()) {
        let mut states = ProducerStates::default();
        for entries in &batches {
            let mut model = states.clone();
            let start = model.end_offset();
            let expected: Vec<_> = entries
                .iter()
                .map(|entry| match append(&mut model, &[*entry]) {
                    CheckOutcome::Append => EntryVerdict::Append,
                    CheckOutcome::Refused(verdicts) => match verdicts[0] {
                        EntryVerdict::Duplicate { base_offset, .. } if base_offset >= start => {
                            EntryVerdict::RepeatedInBatch
                        }
                        verdict => verdict,
                    },
                })
                .collect();
            match append(&mut states, entries) {
                CheckOutcome::Append => prop_assert!(expected.iter().all(|v| *v == EntryVerdict::Append)),
                CheckOutcome::Refused(verdicts) => prop_assert_eq!(verdicts, expected),
            }
        }
    }

    #[test]
    fn any_snapshot_payload_is_refused_or_read_without_panic(
        count in 0..3u32,
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let kind = crate::framed::FrameKind { magic: *b"WPSN", version: 1 };
        let mut payload = 1_000u64.to_le_bytes().to_vec();
        payload.extend_from_slice(&count.to_le_bytes());
        payload.extend_from_slice(&rest);
        let bytes = crate::framed::encode(kind, &payload);
        if let Ok(states) = ProducerStates::decode_snapshot(Path::new("x"), &bytes) {
            prop_assert_eq!(states.encode_snapshot(), bytes);
        }
    }
}
