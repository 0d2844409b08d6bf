//! From a data directory to a running controller.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use raft::eraftpb::{Entry, EntryType, Snapshot};
use tokio::sync::watch;
use wharf_metadata::codec::{self, DecodeError};
use wharf_metadata::{ClusterId, Image, METADATA_VERSION, METADATA_VERSION_FEATURE};

use crate::config::{Bootstrap, ControllerConfig};
use crate::driver::{Driver, DriverError, Published, Status};
use crate::error::OpenError;
use crate::handle::{ControllerHandle, Shared};
use crate::storage::{Damage, METADATA_DIR, RaftStore, SyncMode, exists};
use crate::transport::Transport;

/// Opens controllers.
#[derive(Clone, Copy, Debug)]
pub struct Controller;

impl Controller {
    /// Starts a controller and waits until this voter leads or knows a leader and its image is current. A sole voter is
    /// there within a few writes.
    ///
    /// # Errors
    /// [`OpenError`]. A damaged log is never changed, replaced or truncated here (R3).
    pub async fn open(
        config: ControllerConfig,
        transport: impl Transport,
    ) -> Result<ControllerHandle, OpenError> {
        let handle = Controller::start(config, transport).await?;
        match handle.wait_ready().await {
            Ok(()) => Ok(handle),
            Err(error) => {
                handle.shutdown().await;
                Err(error)
            }
        }
    }

    /// Opens the log, or makes it at a first start, and starts the driver's thread. Where there are several voters, the
    /// handle must take in their messages before any of them can be ready.
    ///
    /// # Errors
    /// [`OpenError`], as of [`Controller::open`].
    pub async fn start(
        config: ControllerConfig,
        transport: impl Transport,
    ) -> Result<ControllerHandle, OpenError> {
        if config.node_id.value() == 0 {
            return Err(OpenError::InvalidConfig { reason: "the id of a controller is at least 1" });
        }
        if !config.voters.contains(&config.node_id) {
            return Err(OpenError::InvalidConfig { reason: "the voters must contain this controller" });
        }
        let opening = config.clone();
        // RocksDB reads and syncs: not on a worker of the runtime.
        let opened = tokio::task::spawn_blocking(move || open_store(&opening)).await;
        let panicked = |error: tokio::task::JoinError| DriverError::Panicked { reason: error.to_string() };
        let (store, image) = opened.map_err(|error| OpenError::Driver(panicked(error)))??;
        start(store, image, config, Box::new(transport))
    }
}

fn start(
    store: RaftStore,
    image: Image,
    config: ControllerConfig,
    transport: Box<dyn Transport>,
) -> Result<ControllerHandle, OpenError> {
    let (inputs, received) = sync_channel(config.queue.max(1));
    let (image_sender, image_receiver) = watch::channel(Arc::new(image.clone()));
    let initial = Status { leader: None, leads: false, term: 0, ready: false };
    let (status_sender, status) = watch::channel(initial);
    let (failure_sender, failure) = watch::channel(None);
    let published = Published { image: image_sender, status: status_sender, failure: failure_sender };
    let random = (rand::random(), ClusterId::from_bytes(*uuid::Uuid::new_v4().as_bytes()));
    let (queue, timeout) = (config.queue, config.command_timeout);
    let driver =
        Driver::new(store, image, published, transport, config, random).map_err(OpenError::Driver)?;
    let thread = std::thread::Builder::new().name("wharf-controller".to_owned());
    let thread = thread.spawn(move || driver.run(&received)).map_err(OpenError::Thread)?;
    let thread = Mutex::new(Some(thread));
    let shared = Shared { inputs, image: image_receiver, status, failure, thread, queue, timeout };
    Ok(ControllerHandle::new(shared))
}

/// Opens the log with its image, making a new log where that is right.
fn open_store(config: &ControllerConfig) -> Result<(RaftStore, Image), OpenError> {
    let path = config.data_dir.join(METADATA_DIR);
    let raft_id = u64::from(config.node_id.value());
    if !exists(&config.data_dir) {
        if config.bootstrap == Bootstrap::Refuse {
            return Err(OpenError::Missing { path });
        }
        let voters: Vec<u64> = config.voters.iter().map(|voter| u64::from(voter.value())).collect();
        RaftStore::create(&config.data_dir, raft_id, &first_snapshot(&Image::empty(1), &voters))?;
    }
    let damaged = |damage: Damage| match damage {
        Damage::Database(ref error) if is_lock_error(error) => OpenError::InUse { path: path.clone() },
        // A full or failing disk, or missing rights: the files may well be sound, so nobody is sent to recovery.
        Damage::Database(ref error) if is_io_error(error) => {
            OpenError::Unreadable { path: path.clone(), damage }
        }
        Damage::FloorUnreadable { ref source, .. } if source.kind() != std::io::ErrorKind::NotFound => {
            OpenError::Unreadable { path: path.clone(), damage }
        }
        Damage::NewerFormat { .. }
        | Damage::Image { source: DecodeError::UnknownFormat { .. }, .. }
        | Damage::Record { source: DecodeError::UnknownRecord, .. } => {
            OpenError::NewerVersion { path: path.clone(), reason: damage.to_string() }
        }
        damage => OpenError::Damaged { path: path.clone(), damage },
    };
    let (store, image) = open_log(&config.data_dir, config.sync_mode).map_err(damaged)?;
    if store.raft_id() != raft_id {
        return Err(OpenError::WrongNode { path, expected: raft_id, actual: store.raft_id() });
    }
    let version = image.feature(METADATA_VERSION_FEATURE);
    if version > METADATA_VERSION {
        let reason =
            format!("{METADATA_VERSION_FEATURE} is {version}; this version knows {METADATA_VERSION}");
        return Err(OpenError::NewerVersion { path, reason });
    }
    Ok((store, image))
}

/// Opens a log with the image of its snapshot, and checks that every record after it can be read.
pub(crate) fn open_log(data_dir: &Path, mode: SyncMode) -> Result<(RaftStore, Image), Damage> {
    let store = RaftStore::open(data_dir, mode)?;
    let snapshot = store.read_snapshot()?;
    let index = snapshot.get_metadata().index;
    let image = codec::decode_snapshot(snapshot.data).map_err(|source| Damage::Image { index, source })?;
    if image.applied_index() != index {
        return Err(Damage::ImageIndex { snapshot: index, image: image.applied_index() });
    }
    let normal = |entry: &&Entry| entry.get_entry_type() == EntryType::EntryNormal;
    for entry in store.entries().filter(normal) {
        codec::decode_record(entry.data.clone())
            .map_err(|source| Damage::Record { index: entry.index, source })?;
    }
    Ok((store, image))
}

/// The snapshot from which every voter of a new log starts, equal on all (facts.md section 2).
pub(crate) fn first_snapshot(image: &Image, voters: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.set_data(codec::encode_snapshot(image));
    let meta = snapshot.mut_metadata();
    meta.index = image.applied_index();
    meta.term = 1;
    meta.mut_conf_state().set_voters(voters.to_vec());
    snapshot
}

/// RocksDB tells a held lock from other IO errors only by its text.
fn is_lock_error(error: &rocksdb::Error) -> bool {
    error.kind() == rocksdb::ErrorKind::IOError
        && ["lock hold by current process", "While lock file"]
            .iter()
            .any(|text| error.as_ref().contains(text))
}

/// Whether the operating system failed, rather than that a file is missing or wrong.
fn is_io_error(error: &rocksdb::Error) -> bool {
    let missing = error.as_ref().contains("No such file");
    error.kind() == rocksdb::ErrorKind::IOError && !missing
}
