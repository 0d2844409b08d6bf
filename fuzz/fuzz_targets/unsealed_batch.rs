//! What a gateway sends to a leader.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wharf_log::batch::{BatchKind, SealedBatch, UnsealedBatch};

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    if mode & 1 == 1 {
        wharf_fuzz::fix_payload_crc(&mut bytes);
    }
    let Ok(batch) = UnsealedBatch::decode(Bytes::from(bytes.clone())) else { return };
    assert_eq!(batch.to_bytes(), bytes);
    if let Ok(records) = batch.records() {
        wharf_fuzz::walk_records(records, batch.record_count());
    }
    let sealed = batch.seal(&wharf_fuzz::seal(1_000, BatchKind::Data)).expect("far from the last offset");
    let verified = SealedBatch::verify(sealed.bytes().clone(), Some(wharf_fuzz::partition()));
    assert_eq!(verified.as_ref(), Ok(&sealed));
    assert!(sealed.entries().is_ok());
});
