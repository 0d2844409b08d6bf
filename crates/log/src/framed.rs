//! Small files that are replaced as a whole: checkpoint, manifest, identity, markers, partition metadata.
//!
//! | byte | length | field                                        |
//! |------|--------|----------------------------------------------|
//! | 0    | 4      | magic, the kind of file                      |
//! | 4    | 2      | version of the payload's format              |
//! | 6    | 2      | reserved, 0                                  |
//! | 8    | 4      | payload length in bytes                      |
//! | 12   | 4      | CRC32C of bytes 0 to 12 and of the payload   |
//! | 16   | n      | payload                                      |
//!
//! Integers are little-endian. Invariant: under the file's name there is always one whole version of it, because a
//! new one is written beside it, synced, renamed over it and the directory synced.

use std::io;
use std::path::{Path, PathBuf};

use crate::vfs::{OpenMode, Vfs};

/// Suffix of a file that is being written; leftovers are removed when the directory is opened.
pub(crate) const TMP_SUFFIX: &str = ".tmp";
const HEADER_BYTES: usize = 16;
/// Largest payload: far above what any of these files needs, and a bound on what damage can make us allocate.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Which kind of file, and which version of it this code reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameKind {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u16,
}

/// Why a file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The file system failed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The file is not what was written.
    #[error("{path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A newer Wharf wrote the file.
    #[error("{path} has format version {actual}, this build reads up to {supported}", path = path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// The version found.
        actual: u16,
        /// The newest version that this build reads.
        supported: u16,
    },
}

/// The payload in its frame.
pub(crate) fn encode(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&kind.magic);
    bytes.extend_from_slice(&kind.version.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), payload);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The payload of a framed file's bytes, or what is wrong with them.
pub(crate) fn decode<'a>(path: &Path, kind: FrameKind, bytes: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let damaged = |reason| FrameError::Damaged { path: path.to_owned(), reason };
    let header: &[u8; HEADER_BYTES] =
        bytes.first_chunk().ok_or_else(|| damaged("it is shorter than a header"))?;
    if header[..4] != kind.magic {
        return Err(damaged("it does not start with its magic"));
    }
    let payload = &bytes[HEADER_BYTES..];
    let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if payload.len() != length as usize {
        return Err(damaged("its length is not the one in its header"));
    }
    let crc = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    if crc != crc32c::crc32c_append(crc32c::crc32c(&header[..12]), payload) {
        return Err(damaged("its checksum does not match"));
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version == 0 || version > kind.version {
        return Err(FrameError::UnknownVersion {
            path: path.to_owned(),
            actual: version,
            supported: kind.version,
        });
    }
    Ok(payload)
}

/// Replaces the file durably.
pub(crate) fn store(vfs: &dyn Vfs, path: &Path, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the payload of a framed file is too large"));
    }
    replace(vfs, path, &encode(kind, payload))
}

/// The file's payload, or nothing if there is no such file.
pub(crate) fn load(vfs: &dyn Vfs, path: &Path, kind: FrameKind) -> Result<Option<Vec<u8>>, FrameError> {
    let Some(bytes) = read_whole(vfs, path)? else {
        return Ok(None);
    };
    decode(path, kind, &bytes).map(|payload| Some(payload.to_vec()))
}

/// All bytes of a small file, or nothing if there is no such file.
pub(crate) fn read_whole(vfs: &dyn Vfs, path: &Path) -> Result<Option<Vec<u8>>, FrameError> {
    let io_error = |source| FrameError::Io { path: path.to_owned(), source };
    let file = match vfs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    let length = usize::try_from(file.len().map_err(io_error)?).unwrap_or(usize::MAX);
    if length > PAYLOAD_BYTES_MAX + HEADER_BYTES {
        return Err(FrameError::Damaged { path: path.to_owned(), reason: "it is larger than any such file" });
    }
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, 0).map_err(io_error)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Replaces a file durably: written beside it, synced, renamed over it, directory synced.
pub(crate) fn replace(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_beside(vfs, path, bytes)?.sync_data()?;
    vfs.rename(&tmp_path(path), path)?;
    vfs.sync_dir(parent(path))
}

/// Writes the file's next version beside it, not yet synced.
pub(crate) fn write_beside(
    vfs: &dyn Vfs,
    path: &Path,
    bytes: &[u8],
) -> io::Result<std::sync::Arc<dyn crate::vfs::VfsFile>> {
    let file = vfs.open(&tmp_path(path), OpenMode::CreateOrTruncate)?;
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

/// Where the file's next version is written.
pub(crate) fn tmp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TMP_SUFFIX);
    PathBuf::from(name)
}

/// The directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KIND: FrameKind = FrameKind { magic: *b"TEST", version: 2 };

    #[test]
    fn a_frame_has_these_bytes() {
        #[rustfmt::skip]
        let expected: &[u8] = &[
            b'T', b'E', b'S', b'T', // magic
            2, 0,                   // version
            0, 0,                   // reserved
            3, 0, 0, 0,             // payload length
            0xfa, 0xea, 0x2f, 0xe7, // CRC32C
            b'a', b'b', b'c',       // payload
        ];
        let bytes = encode(KIND, b"abc");
        assert_eq!(bytes[..12], expected[..12]);
        assert_eq!(bytes[16..], expected[16..]);
        assert_eq!(decode(Path::new("x"), KIND, &bytes).unwrap(), b"abc");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(KIND, b"payload");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(Path::new("x"), KIND, &flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(Path::new("x"), KIND, &bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let bytes = encode(FrameKind { version: 3, ..KIND }, b"");
        let error = decode(Path::new("x"), KIND, &bytes).unwrap_err();
        assert!(matches!(error, FrameError::UnknownVersion { actual: 3, supported: 2, .. }));
    }
}
