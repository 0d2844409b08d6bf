//! What the descriptor set for reflection promises, and the rules of the API that generated code depends on.
#![allow(clippy::unwrap_used)]

use prost_reflect::{DescriptorPool, Kind};
use wharf_proto::FILE_DESCRIPTOR_SET;

fn pool() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap()
}

#[test]
fn reflection_sees_public_packages_only_and_every_import() {
    let pool = pool();
    let packages: std::collections::BTreeSet<_> =
        pool.files().map(|file| file.package_name().to_owned()).collect();
    assert_eq!(Vec::from_iter(&packages), ["google.protobuf", "google.rpc", "wharf.v1"]);
    let services: Vec<_> = pool.services().map(|service| service.full_name().to_owned()).collect();
    assert_eq!(services, ["wharf.v1.AdminService", "wharf.v1.BrokerService"]);
    assert!(pool.get_message_by_name("google.rpc.ErrorInfo").is_some());
    assert!(pool.files().all(|file| file.file_descriptor_proto().source_code_info.is_none()));
}

#[test]
fn hot_messages_have_no_maps_and_low_field_numbers() {
    let pool = pool();
    for name in [
        "ProduceRequest",
        "Record",
        "Header",
        "FetchRequest",
        "FetchResponse",
        "FetchedRecord",
        "OffsetCommit",
    ] {
        let message = pool.get_message_by_name(&format!("wharf.v1.{name}")).unwrap();
        for field in message.fields() {
            assert!(!field.is_map(), "{}", field.full_name());
            assert!(field.number() <= 15, "{}", field.full_name());
        }
    }
}

/// JSON users must see `"offset":"0"`.
#[test]
fn numbers_of_responses_whose_zero_means_something_have_presence() {
    const MEANINGFUL: &[&str] = &[
        "partition",
        "offset",
        "next_offset",
        "log_start_offset",
        "high_watermark",
        "last_stable_offset",
        "lag",
        "leader_epoch",
        "producer_id",
        "producer_epoch",
        "timestamp_ms",
        "append_time_ms",
    ];
    let pool = pool();
    for name in [
        "RecordPosition",
        "FetchedRecord",
        "FetchResponse",
        "CommittedOffset",
        "PartitionOffset",
        "InitProducerResponse",
        "PartitionInfo",
        "GroupPartition",
        "OffsetReset",
        "RecordDeletionResult",
    ] {
        let message = pool.get_message_by_name(&format!("wharf.v1.{name}")).unwrap();
        for field in message.fields().filter(|field| MEANINGFUL.contains(&field.name())) {
            assert!(field.supports_presence(), "{}", field.full_name());
        }
    }
}

/// A client that decodes from a `Bytes` must not copy keys and values.
#[test]
fn payloads_are_decoded_without_a_copy() {
    use prost::Message;
    use wharf_proto::v1::{FetchResponse, FetchedRecord};

    let record = FetchedRecord { value: Some(vec![7; 100_000].into()), ..Default::default() };
    let encoded =
        bytes::Bytes::from(FetchResponse { records: vec![record], ..Default::default() }.encode_to_vec());
    let whole = encoded.as_ptr_range();
    let decoded = FetchResponse::decode(encoded.clone()).unwrap();
    assert!(whole.contains(&decoded.records[0].value.as_ref().unwrap().as_ptr()));
}

#[test]
fn identities_are_64_bit_and_epochs_32_bit() {
    for message in pool().all_messages().filter(|m| m.parent_file().package_name() == "wharf.v1") {
        for field in message.fields() {
            match field.name() {
                "producer_id" | "offset" | "sequence" => {
                    assert!(matches!(field.kind(), Kind::Int64), "{}", field.full_name());
                }
                "partition" | "leader_epoch" | "member_epoch" | "producer_epoch" => {
                    assert!(matches!(field.kind(), Kind::Int32), "{}", field.full_name());
                }
                _ => {}
            }
        }
    }
}
