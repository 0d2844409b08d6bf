//! What a client finds out without documentation: limits, health, reflection.

#![allow(clippy::unwrap_used)]

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use wharf_proto::v1::{DescribeClusterRequest, GetServerInfoRequest, NodeRole, NodeState};
use wharf_tests::broker::Broker;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_tells_its_limits() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    let info = api.admin.get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    let limits = info.limits.unwrap();
    let mib = 1 << 20;
    assert_eq!((limits.record_bytes_max, limits.record_bytes_default), (5 * mib / 2, mib));
    assert_eq!((limits.produce_request_bytes_max, limits.response_bytes_max), (4 * mib, 3 * mib));
    assert_eq!(
        (limits.headers_per_record_max, limits.header_name_bytes_max, limits.name_bytes_max),
        (1_000, 255, 249)
    );
    assert_eq!(limits.commit_metadata_bytes_max, 4_096);
    assert_eq!(
        (limits.fetch_bytes_default, limits.fetch_bytes_max, limits.fetch_wait_ms_max),
        (mib, 3 * mib, 30_000)
    );
    assert_eq!((limits.unary_timeout_ms_default, limits.produce_timeout_ms_max), (30_000, 30_000));
    assert_eq!((limits.produce_stream_unanswered_max, limits.producer_window_requests), (64, 128));
    assert_eq!((limits.page_size_default, limits.page_size_max), (100, 1_000));
    assert!(
        limits.records_per_request_max > 0
            && limits.partitions_per_topic_max > 0
            && limits.offsets_per_commit_max > 0
    );
    let mut sorted = info.features.clone();
    sorted.sort();
    assert_eq!(info.features, sorted, "features come in lexical order");
    assert!(!info.version.is_empty() && !info.cluster_id.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_is_one_node_with_all_roles() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 3).await;
    let cluster = api.admin.describe_cluster(DescribeClusterRequest {}).await.unwrap().into_inner();
    let [node] = cluster.nodes.as_slice() else { panic!("{cluster:?}") };
    assert_eq!(cluster.controller_node_id, node.node_id);
    assert_eq!(node.state, i32::from(NodeState::Alive));
    for role in [NodeRole::Controller, NodeRole::Storage, NodeRole::Gateway] {
        assert!(node.roles.contains(&i32::from(role)), "{node:?}");
    }
    assert!(node.replicas.unwrap() >= 3 && node.leaders.unwrap() >= 3, "{node:?}");
    assert!(node.disk_total_bytes.unwrap() > node.disk_available_bytes.unwrap());
    let id = cluster.cluster_id;
    broker.restart();
    let again =
        broker.api().await.admin.describe_cluster(DescribeClusterRequest {}).await.unwrap().into_inner();
    assert_eq!(again.cluster_id, id, "a cluster keeps its identity");
}

async fn until_serving(watch: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>) {
    while watch.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_served_for_all_and_for_each_service() {
    let broker = Broker::start();
    let mut health = HealthClient::new(broker.api().await.channel);
    for service in ["", "wharf.v1.BrokerService", "wharf.v1.AdminService"] {
        let request = HealthCheckRequest { service: service.into() };
        until_serving(&mut health.watch(request.clone()).await.unwrap().into_inner()).await;
        let answer = health.check(request.clone()).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
        let mut watch = health.watch(request).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    }
    let unknown = health.check(HealthCheckRequest { service: "nope".into() }).await;
    assert_eq!(unknown.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_turns_before_the_stop() {
    let mut broker = Broker::start();
    let mut health = HealthClient::new(broker.api().await.channel);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    until_serving(&mut watch).await;
    let stopped = tokio::task::spawn_blocking(move || broker.terminate());
    // Watchers hear it, or the stream ends with the server.
    while let Ok(Some(answer)) = watch.message().await {
        assert_eq!(answer.status(), ServingStatus::NotServing);
    }
    assert_eq!(stopped.await.unwrap().code(), Some(0));
}

macro_rules! reflection {
    ($name:ident, $version:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            use pb::server_reflection_request::MessageRequest;
            use pb::server_reflection_response::MessageResponse;
            use tonic_reflection::pb::$version as pb;
            let broker = Broker::start();
            let channel = broker.api().await.channel;
            let mut client = pb::server_reflection_client::ServerReflectionClient::new(channel);
            let ask =
                |message| pb::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
            let requests = vec![
                ask(MessageRequest::ListServices(String::new())),
                ask(MessageRequest::FileContainingSymbol("wharf.v1.BrokerService".into())),
                ask(MessageRequest::FileContainingSymbol("google.rpc.ErrorInfo".into())),
                ask(MessageRequest::FileContainingSymbol("wharf.v1.ErrorReason".into())),
                ask(MessageRequest::FileByFilename("wharf/v1/admin.proto".into())),
            ];
            let answers = client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap();
            let mut answers = answers.into_inner();
            let first = answers.message().await.unwrap().unwrap().message_response.unwrap();
            let MessageResponse::ListServicesResponse(list) = first else { panic!("{first:?}") };
            let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
            for name in ["wharf.v1.BrokerService", "wharf.v1.AdminService", "grpc.health.v1.Health"] {
                assert!(names.contains(&name), "{names:?}");
            }
            assert!(names.iter().all(|name| !name.contains("internal")), "{names:?}");
            for _ in 0..4 {
                let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
                let MessageResponse::FileDescriptorResponse(files) = answer else { panic!("{answer:?}") };
                assert!(!files.file_descriptor_proto.is_empty());
            }
        }
    };
}

reflection!(reflection_v1_knows_everything_public, v1);
reflection!(reflection_v1alpha_knows_everything_public, v1alpha);
