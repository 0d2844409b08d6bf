//! What the tests of the controller share.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use wharf_controller::{Controller, ControllerConfig, ControllerHandle, CreateTopicRequest, NoTransport, Registration};
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
