//! Compression of a records section.

use bytes::{Bytes, BytesMut};
use wharf_types::Compression;

use super::{BatchError, RECORDS_RAW_BYTES_MAX};

/// The level at which Zstandard was best for log-like records: better ratio than 3, twice as fast.
const ZSTD_LEVEL: i32 = 1;

/// Appends the compressed form of `raw` to `output`, or appends nothing and gives `false` if it would not be smaller.
pub(crate) fn compress(
    compression: Compression,
    raw: &[u8],
    output: &mut BytesMut,
) -> Result<bool, BatchError> {
    let start = output.len();
    let bound = match compression {
        Compression::None => return Ok(false),
        Compression::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
        Compression::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
    };
    output.resize(start + bound, 0);
    let target = &mut output[start..];
    let failed = BatchError::Compression { bytes: raw.len() };
    let written = match compression {
        Compression::None => return Ok(false),
        Compression::Lz4 => lz4_flex::block::compress_into(raw, target).map_err(|_| failed)?,
        Compression::Zstd => zstd::bulk::compress_to_buffer(raw, target, ZSTD_LEVEL).map_err(|_| failed)?,
    };
    let smaller = written < raw.len();
    output.truncate(if smaller { start + written } else { start });
    Ok(smaller)
}

/// The records section before compression: a slice of the input if there was none.
pub(crate) fn decompress(
    compression: Compression,
    stored: Bytes,
    raw_bytes: usize,
) -> Result<Bytes, BatchError> {
    if compression == Compression::None {
        return Ok(stored);
    }
    if raw_bytes > RECORDS_RAW_BYTES_MAX {
        return Err(BatchError::TooLarge {
            field: "records length",
            maximum: RECORDS_RAW_BYTES_MAX as u64,
            actual: raw_bytes as u64,
        });
    }
    let mut raw = vec![0; raw_bytes];
    let written = match compression {
        Compression::None => Some(raw_bytes),
        Compression::Lz4 => lz4_flex::block::decompress_into(&stored, &mut raw).ok(),
        Compression::Zstd => zstd::bulk::decompress_to_buffer(&stored, raw.as_mut_slice()).ok(),
    };
    if written == Some(raw_bytes) {
        Ok(Bytes::from(raw))
    } else {
        Err(BatchError::Decompression { expected: raw_bytes })
    }
}
