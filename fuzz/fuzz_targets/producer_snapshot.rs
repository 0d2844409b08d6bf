//! A snapshot of producer state, from disk or from the leader.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wharf_log::producer::ProducerStates;

fuzz_target!(|data: &[u8]| {
    let origin = Path::new("fuzz");
    assert!(ProducerStates::decode_snapshot(origin, data).is_err() || data.starts_with(b"WPSN"));
    let bytes = wharf_fuzz::framed(b"WPSN", 1, data);
    if let Ok(states) = ProducerStates::decode_snapshot(origin, &bytes) {
        assert_eq!(states.encode_snapshot(), bytes);
    }
});
