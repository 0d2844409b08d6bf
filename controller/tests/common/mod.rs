//! What the tests of the controller share.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use wharf_controller::{
    Controller, ControllerConfig, ControllerHandle, CreateTopicRequest, NoTransport, Registration,
};
use wharf_metadata::{Image, Incarnation, LogDirId};
use wharf_types::{BrokerEpoch, NodeId};

pub(crate) fn config(dir: &Path) -> ControllerConfig {
    ControllerConfig::new(dir, NodeId::new(1))
}

pub(crate) async fn open(dir: &Path) -> ControllerHandle {
    Controller::open(config(dir), NoTransport).await.unwrap()
}

pub(crate) fn create(name: &str, partitions: u32) -> CreateTopicRequest {
    CreateTopicRequest { name: name.to_owned(), partitions, ..CreateTopicRequest::default() }
}

pub(crate) fn registration(incarnation: u8, marker: Option<BrokerEpoch>) -> Registration {
    Registration {
        node_id: NodeId::new(1),
        incarnation: Incarnation::from_bytes([incarnation; 16]),
        marker,
        log_dirs: vec![LogDirId::from_bytes([7; 16])],
        rack: None,
        advertised_address: "localhost:7071".to_owned(),
        boot_id: "boot".to_owned(),
        version: "test".to_owned(),
        io_error_recorded: false,
    }
}

pub(crate) async fn register(
    controller: &ControllerHandle,
    incarnation: u8,
    marker: Option<BrokerEpoch>,
) -> BrokerEpoch {
    controller.register_storage(registration(incarnation, marker)).await.unwrap()
}

pub(crate) fn names(image: &Image) -> Vec<String> {
    image.topics().map(|topic| topic.name.to_string()).collect()
}

/// Copies a folder as it is at this moment: what a process that is killed now leaves behind.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// A small deterministic generator (splitmix64), so that a failing case can be run again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
