//! What is built is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_log::batch::{BatchBuilder, BatchKind, HeaderView, RecordView, UnsealedBatch};
use wharf_types::{Compression, TimestampMs};

/// Takes up to `count` bytes off the front.
fn take<'a>(data: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, rest) = data.split_at(count.min(data.len()));
    *data = rest;
    head
}

fn number(data: &mut &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let taken = take(data, 8);
    bytes[..taken.len()].copy_from_slice(taken);
    u64::from_le_bytes(bytes)
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let compression = match take(&mut data, 1).first().map(|byte| byte % 3) {
        Some(0) => Compression::None,
        Some(1) => Compression::Lz4,
        Some(_) => Compression::Zstd,
        None => return,
    };
    let mut builder = BatchBuilder::new(compression);
    let mut expected = Vec::new();
    while let &[flags, key_bytes, value_bytes, ..] = data {
        take(&mut data, 3);
        let timestamp =
            TimestampMs::new(if flags & 4 == 0 { u64::from(key_bytes) } else { number(&mut data) });
        let key = take(&mut data, usize::from(key_bytes));
        let value = take(&mut data, usize::from(value_bytes) * 16);
        let key = (flags & 1 == 0).then_some(key);
        let value = (flags & 2 == 0).then_some(value);
        let name = "n".repeat(1 + usize::from(flags >> 4));
        let headers = [HeaderView { name: &name, value: key }];
        let headers: &[HeaderView<'_>] = if flags & 8 == 0 { &[] } else { &headers };
        let view = RecordView { key, value, headers, timestamp };
        if builder.push_record(&view).is_ok() {
            expected.push((timestamp, key, value, headers.len(), name));
        }
    }
    let Ok(built) = builder.finish() else {
        assert!(expected.is_empty());
        return;
    };
    let decoded = UnsealedBatch::decode(built.to_bytes()).expect("a built batch is valid");
    assert_eq!(decoded, built);
    let sealed = decoded.seal(&wharf_fuzz::seal(1_000, BatchKind::Data)).expect("far from the last offset");
    let mut count = 0;
    for (index, record) in sealed.records().expect("it decompresses").enumerate() {
        let record = record.expect("a built record is valid");
        let (timestamp, key, value, header_count, name) = &expected[index];
        assert_eq!(record.offset.value(), 1_000 + index as u64);
        assert_eq!(record.timestamp, *timestamp);
        assert_eq!(record.key.as_deref(), *key);
        assert_eq!(record.value.as_deref(), *value);
        assert_eq!(record.headers.len(), *header_count);
        for header in record.headers.iter() {
            assert_eq!((header.name, header.value), (name.as_str(), *key));
        }
        count += 1;
    }
    assert_eq!(count, expected.len());
});
