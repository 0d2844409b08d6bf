//! Opening the store: RocksDB's options, the check of what is found, and setting a damaged store aside.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, Options,
};

use super::error::OffsetsStoreError;
use super::{COLUMN_FAMILY, OffsetsStore, OffsetsStoreOptions, PowerLossMode};

const WRITE_BUFFER_BYTES: usize = 8 << 20;
const BLOCK_CACHE_BYTES: usize = 8 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const WAL_BYTES_MAX: u64 = 32 << 20;
const TABLE_BYTES: u64 = 8 << 20;
const OPEN_FILES_MAX: i32 = 128;
const INFO_LOG_BYTES_MAX: usize = 1 << 20;
const INFO_LOGS_MAX: usize = 2;

/// A store that [`OffsetsStore::open_or_rebuild`] opened.
#[derive(Debug)]
#[allow(dead_code, reason = "the damage is logged here; who wants to count it finds it here")]
pub(crate) struct Opened {
    /// The store.
    pub(crate) store: OffsetsStore,
    /// The store that was found damaged, if one was: this one is empty then, and every partition replays its log.
    pub(crate) damaged: Option<DamagedStore>,
}

/// A store that was set aside.
#[derive(Debug)]
#[allow(dead_code, reason = "as for `Opened`")]
pub(crate) struct DamagedStore {
    /// What was found.
    pub(crate) error: OffsetsStoreError,
    /// Where its files are now; the store that lay there before is gone.
    pub(crate) moved_to: PathBuf,
}

impl OffsetsStore {
    /// Opens the store in the folder `path`, creates it where nothing is, and reads every row of it once: damage is found
    /// here, not when a group asks. Blocks for as long as that takes.
    ///
    /// # Errors
    /// [`OffsetsStoreError`]; where [`OffsetsStoreError::is_damage`], see [`OffsetsStore::open_or_rebuild`].
    pub(crate) fn open(path: &Path, options: OffsetsStoreOptions) -> Result<Self, OffsetsStoreError> {
        check_current(path)?;
        let families = [
            ColumnFamilyDescriptor::new(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, Options::default()),
            ColumnFamilyDescriptor::new(COLUMN_FAMILY, family_options()),
        ];
        let db = DB::open_cf_descriptors(&database_options(options), path, families)
            .map_err(|source| OffsetsStoreError::Open { path: path.to_owned(), source })?;
        OffsetsStore::from_database(db, path)
    }

    /// As [`OffsetsStore::open`], but a damaged store is moved aside, to `path` with `.damaged` appended, and an empty one
    /// opened: RocksDB is a cache of the log (R15). At most one damaged store is kept.
    ///
    /// # Errors
    /// [`OffsetsStoreError`] that is not damage, or failed to move the folder.
    pub(crate) fn open_or_rebuild(
        path: &Path,
        options: OffsetsStoreOptions,
    ) -> Result<Opened, OffsetsStoreError> {
        let error = match OffsetsStore::open(path, options) {
            Ok(store) => return Ok(Opened { store, damaged: None }),
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        let moved_to = set_aside(path)?;
        tracing::error!(
            %error,
            path = %path.display(),
            moved_to = %moved_to.display(),
            "the offsets store is damaged and was moved aside; every partition replays its log"
        );
        let store = OffsetsStore::open(path, options)?;
        Ok(Opened { store, damaged: Some(DamagedStore { error, moved_to }) })
    }
}

fn database_options(options: OffsetsStoreOptions) -> Options {
    let mut database = Options::default();
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    database.set_paranoid_checks(true);
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_manual_wal_flush(options.power_loss_mode == PowerLossMode::On);
    database.set_max_total_wal_size(WAL_BYTES_MAX);
    database.set_max_background_jobs(2);
    database.set_max_open_files(OPEN_FILES_MAX);
    database.set_max_log_file_size(INFO_LOG_BYTES_MAX);
    database.set_keep_log_file_num(INFO_LOGS_MAX);
    database
}

fn family_options() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    let mut family = Options::default();
    family.set_block_based_table_factory(&table);
    family.set_write_buffer_size(WRITE_BUFFER_BYTES);
    family.set_max_write_buffer_number(2);
    family.set_target_file_size_base(TABLE_BYTES);
    family.set_max_bytes_for_level_base(4 * TABLE_BYTES);
    family.set_compression_type(DBCompressionType::Lz4);
    family
}

/// Refuses a folder whose `CURRENT` is gone while other files of a store are there. RocksDB would make a new store and
/// replay the old logs of writes into it, without the tables that they build on.
fn check_current(path: &Path) -> Result<(), OffsetsStoreError> {
    let folder = |source| OffsetsStoreError::Folder { path: path.to_owned(), source };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(folder(error)),
    };
    let mut remains = None;
    for entry in entries {
        let name = entry.map_err(folder)?.file_name();
        let name = name.to_string_lossy();
        if name == "CURRENT" {
            return Ok(());
        }
        if name.ends_with(".sst") || name.ends_with(".log") || name.starts_with("MANIFEST-") {
            remains = Some(name.into_owned());
        }
    }
    match remains {
        None => Ok(()),
        Some(name) => Err(OffsetsStoreError::Damaged {
            path: path.to_owned(),
            detail: format!("it has the file {name} but no file CURRENT"),
        }),
    }
}

fn set_aside(path: &Path) -> Result<PathBuf, OffsetsStoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    let target = PathBuf::from(name);
    let folder = |source| OffsetsStoreError::Folder { path: target.clone(), source };
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(folder(error)),
        _ => {}
    }
    fs::rename(path, &target).map_err(folder)?;
    if let Some(parent) = path.parent() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(folder)?;
    }
    Ok(target)
}
