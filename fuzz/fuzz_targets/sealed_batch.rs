//! What is read from a segment or sent by a leader.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wharf_log::batch::{BatchKind, ControlRecord, SealedBatch};
use wharf_log::producer::ProducerStates;

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    if mode & 1 == 1 {
        wharf_fuzz::fix_crcs(&mut bytes);
    }
    let Ok(batch) = SealedBatch::verify(Bytes::from(bytes.clone()), None) else { return };
    assert_eq!(batch.bytes(), &bytes);
    assert_eq!(SealedBatch::decode_header(&bytes).as_ref(), Ok(batch.header()));
    let mut rest = Bytes::from(bytes);
    assert_eq!(SealedBatch::split_first(&mut rest, None), Ok(Some(batch.clone())));
    assert!(rest.is_empty());
    if let Ok(records) = batch.records() {
        wharf_fuzz::walk_records(records, batch.header().record_count);
    }
    if batch.header().kind == BatchKind::Control {
        let _ = ControlRecord::from_batch(&batch);
    }
    let mut states = ProducerStates::default();
    if states.apply(&batch).is_ok() {
        assert_eq!(states.end_offset(), batch.next_offset());
        assert!(states.clone().apply(&batch).is_err(), "a batch is never applied twice");
    }
});
