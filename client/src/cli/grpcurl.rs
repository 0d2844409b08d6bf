//! `wharf grpcurl`: what a verb does, as a call that needs nothing but grpcurl.
//!
//! The requests are made by the same functions that the verbs use, so that the printed line cannot drift from what is done.

use clap::{Args, Subcommand};
use prost::Message;
use wharf_proto::v1;
use wharf_proto::v1::fetch_request::Position;
use wharf_proto::v1::list_offsets_request::At;

use super::Globals;
use super::cluster::ClusterVerb;
use super::error::CliError;
use super::group::GroupVerb;
use super::json::request_text;
use super::output::write_stdout;
use super::position::Place;
use super::produce::AcksArg;
use super::text::{NameValue, shell_quote};
use super::topic::TopicVerb;

/// The verb to translate.
#[derive(Debug, Subcommand)]
pub enum GrpcurlVerb {
    /// Topics, with the arguments of `wharf topic`
    #[command(subcommand)]
    Topic(TopicVerb),
    /// One record
    Produce(ProduceOneArgs),
    /// Records of one partition
    #[command(visible_alias = "consume")]
    Fetch(FetchArgs),
    /// Offsets of a topic's partitions
    Offsets(OffsetsArgs),
    /// A group's position
    Commit(CommitArgs),
    /// A group's committed positions
    Committed(CommittedArgs),
    /// A producer identity for safe retries
    InitProducer,
    /// Groups, with the arguments of `wharf group`
    #[command(subcommand)]
    Group(GroupVerb),
    /// The cluster, with the arguments of `wharf cluster`
    #[command(subcommand)]
    Cluster(ClusterVerb),
}

/// A record to write.
#[derive(Debug, Args)]
pub struct ProduceOneArgs {
    /// Topic
    topic: String,
    /// Value; without one the record is a tombstone
    value: Option<String>,
    /// Key
    #[arg(short, long)]
    key: Option<String>,
    /// A header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    headers: Vec<NameValue>,
    /// Partition [default: by key]
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// When the record counts as written
    #[arg(long, value_enum)]
    acks: Option<AcksArg>,
    /// Producer id, epoch and sequence, as in 1000,0,17
    #[arg(long, value_name = "ID,EPOCH,SEQUENCE", value_parser = parse_producer)]
    producer: Option<v1::ProducerSequence>,
}

fn parse_producer(text: &str) -> Result<v1::ProducerSequence, String> {
    let numbers: Vec<i64> = text.split(',').map_while(|part| part.trim().parse().ok()).collect();
    match numbers[..] {
        [producer_id, epoch, sequence] => {
            let producer_epoch = i32::try_from(epoch).map_err(|_| "the epoch is too large".to_owned())?;
            Ok(v1::ProducerSequence { producer_id, producer_epoch, sequence })
        }
        _ => Err("three numbers are needed, as in 1000,0,17".to_owned()),
    }
}

/// What to read.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Topic
    topic: String,
    /// Partition
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// Where to start
    #[arg(long, value_name = "POSITION", default_value = "earliest")]
    from: Place,
    /// Most records
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    max_records: Option<i32>,
    /// How long to wait for a first record, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(i32).range(0..=30_000))]
    max_wait_ms: Option<i32>,
}

/// Which offsets to find.
#[derive(Debug, Args)]
pub struct OffsetsArgs {
    /// Topic
    topic: String,
    /// earliest, latest, a time or how long ago
    #[arg(long, value_name = "POSITION", default_value = "latest")]
    at: Place,
}

/// What to commit.
#[derive(Debug, Args)]
pub struct CommitArgs {
    /// Group
    group: String,
    /// Topic
    topic: String,
    /// Partition
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// Offset of the next record to read
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
}

/// Whose positions to read.
#[derive(Debug, Args)]
pub struct CommittedArgs {
    /// Group
    group: String,
}

pub(super) fn run(verb: &GrpcurlVerb, globals: &Globals) -> Result<(), CliError> {
    let mut line = command_line(verb, &globals.endpoint)?;
    line.push('\n');
    write_stdout(line.as_bytes())
}

fn command_line(verb: &GrpcurlVerb, endpoint: &str) -> Result<String, CliError> {
    let endpoint = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
    match verb {
        GrpcurlVerb::Topic(verb) => topic_line(verb, endpoint),
        GrpcurlVerb::Group(verb) => group_line(verb, endpoint),
        GrpcurlVerb::Cluster(ClusterVerb::Info) => {
            admin(endpoint, "DescribeCluster", &v1::DescribeClusterRequest {})
        }
        GrpcurlVerb::Produce(args) => broker(endpoint, "Produce", &produce_request(args)),
        GrpcurlVerb::Fetch(args) => broker(endpoint, "Fetch", &fetch_request(args)),
        GrpcurlVerb::Offsets(args) => broker(endpoint, "ListOffsets", &offsets_request(args)?),
        GrpcurlVerb::Commit(args) => broker(endpoint, "Commit", &commit_request(args)),
        GrpcurlVerb::Committed(args) => {
            let request = v1::GetCommittedRequest { group: args.group.clone(), partitions: Vec::new() };
            broker(endpoint, "GetCommitted", &request)
        }
        GrpcurlVerb::InitProducer => broker(endpoint, "InitProducer", &v1::InitProducerRequest::default()),
    }
}

fn topic_line(verb: &TopicVerb, endpoint: &str) -> Result<String, CliError> {
    match verb {
        TopicVerb::Create(args) => admin(endpoint, "CreateTopic", &args.request()),
        TopicVerb::Ls(args) => admin(endpoint, "ListTopics", &args.request()),
        TopicVerb::Describe(args) => admin(endpoint, "GetTopic", &args.request()),
        TopicVerb::Alter(args) => admin(endpoint, "UpdateTopic", &args.request()),
        TopicVerb::Delete(args) => admin(endpoint, "DeleteTopic", &args.request()),
        TopicVerb::SkipDamaged(args) => admin(endpoint, "SkipDamaged", &args.request()),
    }
}

fn group_line(verb: &GroupVerb, endpoint: &str) -> Result<String, CliError> {
    match verb {
        GroupVerb::Ls(args) => admin(endpoint, "ListGroups", &args.request()),
        GroupVerb::Describe(args) => admin(endpoint, "DescribeGroup", &args.request()),
        GroupVerb::Lag(args) => admin(endpoint, "DescribeGroup", &args.request()),
        GroupVerb::Seek(args) => admin(endpoint, "ResetOffsets", &args.request()),
        GroupVerb::Delete(args) => admin(endpoint, "DeleteGroup", &args.request()),
    }
}

fn admin<M: Message>(endpoint: &str, rpc: &str, request: &M) -> Result<String, CliError> {
    line(endpoint, "AdminService", rpc, request)
}

fn broker<M: Message>(endpoint: &str, rpc: &str, request: &M) -> Result<String, CliError> {
    line(endpoint, "BrokerService", rpc, request)
}

/// Each RPC of the API takes the message of its own name.
fn line<M: Message>(endpoint: &str, service: &str, rpc: &str, request: &M) -> Result<String, CliError> {
    let json = request_text(&format!("{rpc}Request"), request)?;
    Ok(format!(
        "grpcurl -plaintext -d {} {} wharf.v1.{service}/{rpc}",
        shell_quote(&json),
        shell_quote(endpoint)
    ))
}

fn produce_request(args: &ProduceOneArgs) -> v1::ProduceRequest {
    let header = |pair: &NameValue| v1::Header {
        name: pair.name.clone(),
        value: None,
        value_text: Some(pair.value.clone()),
    };
    let record = v1::Record {
        key_text: args.key.clone(),
        value_text: args.value.clone(),
        tombstone: args.value.is_none(),
        headers: args.headers.iter().map(header).collect(),
        ..v1::Record::default()
    };
    v1::ProduceRequest {
        topic: args.topic.clone(),
        records: vec![record],
        partition: args.partition,
        acks: args.acks.map_or(v1::Acks::Unspecified, AcksArg::to_wire).into(),
        producer: args.producer,
        transaction_id: None,
    }
}

fn fetch_request(args: &FetchArgs) -> v1::FetchRequest {
    let position = match (args.from, args.from.append_time()) {
        (Place::Offset(offset), _) => Position::Offset(offset.to_wire()),
        (_, Some(time)) => Position::FromAppendTimeMs(time.to_wire()),
        (Place::Latest, _) => Position::Start(v1::StartPosition::Latest.into()),
        _ => Position::Start(v1::StartPosition::Earliest.into()),
    };
    v1::FetchRequest {
        topic: args.topic.clone(),
        partition: args.partition,
        position: Some(position),
        max_records: args.max_records.unwrap_or_default(),
        max_wait_ms: args.max_wait_ms.unwrap_or_default(),
        text: true,
        ..v1::FetchRequest::default()
    }
}

fn offsets_request(args: &OffsetsArgs) -> Result<v1::ListOffsetsRequest, CliError> {
    let at = match (args.at, args.at.append_time()) {
        (Place::Offset(_), _) => {
            return Err(CliError::Usage { problem: "--at takes earliest, latest or a time" });
        }
        (_, Some(time)) => At::AppendTimeMs(time.to_wire()),
        (Place::Earliest, _) => At::Start(v1::StartPosition::Earliest.into()),
        _ => At::Start(v1::StartPosition::Latest.into()),
    };
    Ok(v1::ListOffsetsRequest {
        topic: args.topic.clone(),
        at: Some(at),
        ..v1::ListOffsetsRequest::default()
    })
}

fn commit_request(args: &CommitArgs) -> v1::CommitRequest {
    let offset = v1::OffsetCommit {
        topic: args.topic.clone(),
        partition: args.partition,
        offset: args.offset,
        ..v1::OffsetCommit::default()
    };
    v1::CommitRequest { group: args.group.clone(), offsets: vec![offset], member: None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Harness {
        #[command(subcommand)]
        verb: GrpcurlVerb,
    }

    fn printed(words: &[&str]) -> String {
        let harness = Harness::parse_from(std::iter::once("grpcurl").chain(words.iter().copied()));
        let line = command_line(&harness.verb, "localhost:7070").unwrap();
        let (head, rest) = line.split_once(" -d ").unwrap();
        assert_eq!(head, "grpcurl -plaintext");
        rest.to_owned()
    }

    #[test]
    fn topics() {
        assert_eq!(
            printed(&["topic", "create", "clicks", "-p", "3", "-c", "retention.ms=3600000"]),
            r#"'{"topic":"clicks","partitions":3,"config":{"retention.ms":"3600000"}}' localhost:7070 wharf.v1.AdminService/CreateTopic"#
        );
        assert_eq!(printed(&["topic", "ls"]), "'{}' localhost:7070 wharf.v1.AdminService/ListTopics");
        assert_eq!(
            printed(&["topic", "alter", "clicks", "--unset", "retention.ms", "-p", "6", "--allow-key-remap"]),
            r#"'{"topic":"clicks","partitions":6,"allow_key_remap":true,"unset_config":["retention.ms"]}' localhost:7070 wharf.v1.AdminService/UpdateTopic"#
        );
        assert_eq!(
            printed(&["topic", "delete", "clicks"]),
            r#"'{"topic":"clicks"}' localhost:7070 wharf.v1.AdminService/DeleteTopic"#
        );
    }

    #[test]
    fn records() {
        assert_eq!(
            printed(&["produce", "clicks", "it's", "-k", "u1", "-H", "a=1", "--producer", "1000,0,7"]),
            r#"'{"topic":"clicks","records":[{"key_text":"u1","value_text":"it'\''s","headers":[{"name":"a","value_text":"1"}]}],"producer":{"producer_id":"1000","sequence":"7"}}' localhost:7070 wharf.v1.BrokerService/Produce"#
        );
        assert_eq!(
            printed(&["fetch", "clicks", "-p", "1", "--from", "0"]),
            r#"'{"topic":"clicks","partition":1,"offset":"0","text":true}' localhost:7070 wharf.v1.BrokerService/Fetch"#
        );
        assert_eq!(
            printed(&["consume", "clicks", "--from", "earliest"]),
            r#"'{"topic":"clicks","start":"START_POSITION_EARLIEST","text":true}' localhost:7070 wharf.v1.BrokerService/Fetch"#
        );
        assert_eq!(
            printed(&["offsets", "clicks"]),
            r#"'{"topic":"clicks","start":"START_POSITION_LATEST"}' localhost:7070 wharf.v1.BrokerService/ListOffsets"#
        );
    }

    #[test]
    fn groups() {
        assert_eq!(
            printed(&["commit", "g", "clicks", "1", "1"]),
            r#"'{"group":"g","offsets":[{"topic":"clicks","partition":1,"offset":"1"}]}' localhost:7070 wharf.v1.BrokerService/Commit"#
        );
        assert_eq!(
            printed(&["group", "describe", "g"]),
            r#"'{"group":"g"}' localhost:7070 wharf.v1.AdminService/DescribeGroup"#
        );
        assert_eq!(
            printed(&["group", "seek", "g", "--to", "1h30m", "-t", "clicks", "-n"]),
            r#"'{"group":"g","topic":"clicks","duration":"5400s","validate_only":true}' localhost:7070 wharf.v1.AdminService/ResetOffsets"#
        );
        assert_eq!(
            printed(&["group", "seek", "g", "--to", "-100"]),
            r#"'{"group":"g","shift_by":"-100"}' localhost:7070 wharf.v1.AdminService/ResetOffsets"#
        );
    }

    #[test]
    fn cluster_and_producer() {
        assert_eq!(
            printed(&["cluster", "info"]),
            "'{}' localhost:7070 wharf.v1.AdminService/DescribeCluster"
        );
        assert_eq!(printed(&["init-producer"]), "'{}' localhost:7070 wharf.v1.BrokerService/InitProducer");
        assert!(parse_producer("1,2").is_err() && parse_producer("a,b,c").is_err());
    }
}
