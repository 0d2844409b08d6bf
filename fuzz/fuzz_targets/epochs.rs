//! The file of leader epochs, and questions to it.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wharf_log::epochs::EpochCache;
use wharf_types::{LeaderEpoch, Offset};

fuzz_target!(|data: &[u8]| {
    let Some((&question, payload)) = data.split_first() else { return };
    let origin = Path::new("fuzz");
    let _ = EpochCache::decode(origin, payload);
    let bytes = wharf_fuzz::framed(b"WEPO", 1, payload);
    let Ok(mut epochs) = EpochCache::decode(origin, &bytes) else { return };
    let same = EpochCache::decode(origin, &epochs.encode()).expect("it was just encoded");
    assert_eq!(same, epochs);

    let asked = LeaderEpoch::new(u32::from(question));
    let log_end = epochs.latest().map_or(Offset::ZERO, |latest| latest.start.plus(u64::from(question)));
    if let Some(answer) = epochs.end_offset_for(asked, log_end) {
        assert!(answer.epoch <= asked && answer.end <= log_end);
    }
    let cut = log_end.plus(0).value().saturating_sub(u64::from(question) * 2);
    epochs.truncate_from_end(Offset::new(cut));
    assert!(epochs.latest().is_none_or(|latest| latest.start < Offset::new(cut)));
    let start = Offset::new(u64::from(question));
    let before = epochs.epoch_at(start);
    epochs.truncate_from_start(start);
    assert_eq!(epochs.epoch_at(start), before);
    assert!(EpochCache::decode(origin, &epochs.encode()).is_ok());
});
