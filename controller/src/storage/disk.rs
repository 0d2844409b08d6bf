//! The raft log's keys and values in RocksDB.
//!
//! | key | value, after its checksum |
//! |---|---|
//! | `F` | format: u32 1, then u64 raft id, little endian |
//! | `H` | hard state: `eraftpb.HardState` |
//! | `S` | newest snapshot: `eraftpb.Snapshot` with the cluster image as its data |
//! | `T` | what the log starts after: u64 index, u64 term, little endian |
//! | `E` + u64 index, big endian | entry: `eraftpb.Entry` |
//!
//! Every value starts with the CRC32C of its key and the rest of it (4 bytes, little endian), so that a value under the
//! wrong key is found too.

use std::path::Path;

use protobuf::Message as _;
use raft::eraftpb::{Entry, HardState, Snapshot};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, IteratorMode, LogLevel, Options,
    WriteBatch, WriteOptions,
};

use super::{Damage, LogPosition, SyncMode};

const FORMAT: u32 = 1;
const KEY_FORMAT: &[u8] = b"F";
const KEY_HARD_STATE: &[u8] = b"H";
const KEY_SNAPSHOT: &[u8] = b"S";
const KEY_TRUNCATED: &[u8] = b"T";
const PREFIX_ENTRY: u8 = b'E';

/// Everything that the database holds, checked value by value.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) raft_id: u64,
    pub(super) hard_state: HardState,
    pub(super) snapshot: Snapshot,
    pub(super) truncated: LogPosition,
    pub(super) entries: Vec<Entry>,
}

/// The open database.
pub(super) struct Disk {
    db: DB,
    mode: SyncMode,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("path", &self.db.path())
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// One atomic change.
#[derive(Default)]
pub(super) struct Batch(WriteBatch);

impl Batch {
    pub(super) fn put_format(&mut self, raft_id: u64) {
        let mut value = FORMAT.to_le_bytes().to_vec();
        value.extend(raft_id.to_le_bytes());
        self.put(KEY_FORMAT, &value);
    }

    pub(super) fn put_hard_state(&mut self, state: &HardState) -> Result<(), protobuf::ProtobufError> {
        self.put(KEY_HARD_STATE, &state.write_to_bytes()?);
        Ok(())
    }

    pub(super) fn put_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), protobuf::ProtobufError> {
        self.put(KEY_SNAPSHOT, &snapshot.write_to_bytes()?);
        Ok(())
    }

    pub(super) fn put_truncated(&mut self, position: LogPosition) {
        let mut value = position.index.to_le_bytes().to_vec();
        value.extend(position.term.to_le_bytes());
        self.put(KEY_TRUNCATED, &value);
    }

    pub(super) fn put_entry(&mut self, entry: &Entry) -> Result<(), protobuf::ProtobufError> {
        self.put(&entry_key(entry.index), &entry.write_to_bytes()?);
        Ok(())
    }

    /// Deletes the entries from `from` up to, not including, `to`.
    pub(super) fn delete_entries(&mut self, from: u64, to: u64) {
        self.0.delete_range(entry_key(from), entry_key(to));
    }

    fn put(&mut self, key: &[u8], payload: &[u8]) {
        let mut value = checksum(key, payload).to_le_bytes().to_vec();
        value.extend(payload);
        self.0.put(key, value);
    }
}

impl Disk {
    /// Opens the database, or makes an empty one. One that exists is never replaced: whether it should exist is the
    /// caller's to say.
    pub(super) fn open(path: &Path, mode: SyncMode, create: bool) -> Result<Self, rocksdb::Error> {
        let mut options = Options::default();
        options.create_if_missing(create);
        options.set_error_if_exists(create);
        options.set_paranoid_checks(true);
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        options.set_manual_wal_flush(mode == SyncMode::PowerLossTest);
        // The log is small and compacted often: one memtable, a tiny cache, two threads.
        options.set_write_buffer_size(1 << 20);
        options.set_max_write_buffer_number(2);
        options.set_max_total_wal_size(4 << 20);
        options.set_max_background_jobs(2);
        options.set_max_open_files(32);
        options.set_compression_type(DBCompressionType::None);
        options.set_stats_dump_period_sec(0);
        options.set_keep_log_file_num(2);
        options.set_max_log_file_size(1 << 20);
        options.set_log_level(LogLevel::Warn);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(1 << 20));
        options.set_block_based_table_factory(&table);
        Ok(Disk { db: DB::open(&options, path)?, mode })
    }

    /// Applies a change; after `sync` it and all before it survive a power loss.
    pub(super) fn write(&self, batch: Batch, sync: bool) -> Result<(), rocksdb::Error> {
        let mut options = WriteOptions::default();
        match self.mode {
            SyncMode::Normal => {
                options.set_sync(sync);
                self.db.write_opt(batch.0, &options)
            }
            SyncMode::PowerLossTest => {
                self.db.write_opt(batch.0, &options)?;
                if sync { self.db.flush_wal(true) } else { Ok(()) }
            }
        }
    }

    /// Makes all writes survive a power loss.
    pub(super) fn sync(&self) -> Result<(), rocksdb::Error> {
        self.db.flush_wal(true)
    }

    /// The newest snapshot, read again.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Damage> {
        decode(KEY_SNAPSHOT, &self.required(KEY_SNAPSHOT, "snapshot")?)
    }

    /// Reads and checks everything.
    pub(super) fn load(&self) -> Result<Loaded, Damage> {
        let format = self.required(KEY_FORMAT, "format")?;
        let raft_id = match (number(&format, 0, 4), number(&format, 4, 8), format.len()) {
            (Some(version), Some(raft_id), 12) if version == u64::from(FORMAT) => raft_id,
            (Some(version), ..) if version > u64::from(FORMAT) => {
                return Err(Damage::NewerFormat { actual: version, expected: FORMAT });
            }
            _ => return Err(Damage::Undecodable { key: "format".to_owned() }),
        };
        let truncated = self.required(KEY_TRUNCATED, "truncated")?;
        let truncated = match (number(&truncated, 0, 8), number(&truncated, 8, 8), truncated.len()) {
            (Some(index), Some(term), 16) => LogPosition { index, term },
            _ => return Err(Damage::Undecodable { key: "truncated".to_owned() }),
        };
        Ok(Loaded {
            raft_id,
            hard_state: decode(KEY_HARD_STATE, &self.required(KEY_HARD_STATE, "hard state")?)?,
            snapshot: self.snapshot()?,
            truncated,
            entries: self.entries()?,
        })
    }

    fn entries(&self) -> Result<Vec<Entry>, Damage> {
        let mut entries = Vec::new();
        for item in self.db.iterator(IteratorMode::Start) {
            let (key, value) = item?;
            if [KEY_FORMAT, KEY_HARD_STATE, KEY_SNAPSHOT, KEY_TRUNCATED].contains(&key.as_ref()) {
                continue;
            }
            let index = match key.split_first() {
                Some((&PREFIX_ENTRY, index)) => index.try_into().map(u64::from_be_bytes).ok(),
                _ => None,
            };
            let index = index.ok_or_else(|| Damage::UnknownKey { key: key.to_vec() })?;
            let entry: Entry = decode(&key, verify(&key, &value)?)?;
            if entry.index != index {
                return Err(Damage::Misplaced { key: index, entry: entry.index });
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn required(&self, key: &[u8], name: &'static str) -> Result<Vec<u8>, Damage> {
        let value = self.db.get(key)?.ok_or(Damage::Missing { key: name })?;
        verify(key, &value).map(<[u8]>::to_vec)
    }
}

fn entry_key(index: u64) -> [u8; 9] {
    let mut key = [PREFIX_ENTRY; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

fn checksum(key: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), payload)
}

/// The payload of a value whose checksum holds.
fn verify<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damage> {
    match value.split_first_chunk::<4>() {
        Some((expected, payload)) if checksum(key, payload) == u32::from_le_bytes(*expected) => Ok(payload),
        _ => Err(Damage::Checksum { key: String::from_utf8_lossy(key).into_owned() }),
    }
}

fn decode<M: protobuf::Message>(key: &[u8], payload: &[u8]) -> Result<M, Damage> {
    M::parse_from_bytes(payload)
        .map_err(|_| Damage::Undecodable { key: String::from_utf8_lossy(key).into_owned() })
}

/// The little-endian number of `length` bytes, at most 8, at `at`.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..length)?.copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_and_values_have_the_documented_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), SyncMode::Normal, true).unwrap();
        let mut batch = Batch::default();
        batch.put_format(1);
        batch.put_truncated(LogPosition { index: 1, term: 1 });
        disk.write(batch, true).unwrap();
        // Checksum; version, raft id.
        let format = [0xa1, 0xe8, 0xa6, 0x6a, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(disk.db.get(b"F").unwrap().unwrap(), format);
        // Checksum; index, term.
        let truncated = [0x7f, 0x84, 0xc7, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(disk.db.get(b"T").unwrap().unwrap(), truncated);
        assert_eq!(entry_key(258), *b"E\0\0\0\0\0\0\x01\x02");
    }
}
