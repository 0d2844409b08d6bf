//! `wharf topic`.

use clap::{Args, Subcommand};
use wharf_proto::v1::{self, ErrorReason};

use super::Globals;
use super::confirm::confirm;
use super::error::CliError;
use super::json::{JsonStyle, to_json, to_json_list};
use super::text::NameValue;

mod table;

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub enum TopicVerb {
    /// Create a topic
    Create(CreateArgs),
    /// List topics
    #[command(alias = "list")]
    Ls(ListArgs),
    /// Show a topic's configuration and partitions
    Describe(DescribeArgs),
    /// Change a topic's configuration or add partitions
    Alter(AlterArgs),
    /// Delete a topic with its records
    Delete(DeleteArgs),
    /// Let readers pass over a damaged range that no replica could repair
    SkipDamaged(SkipDamagedArgs),
}

/// A topic to create.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name: 1 to 249 of [A-Za-z0-9._-]
    topic: String,
    /// Number of partitions [default: 1]
    #[arg(short, long, default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(i32).range(0..))]
    partitions: i32,
    /// Replicas of each partition [default: 3, or the number of storage nodes]
    #[arg(short, long, default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(i32).range(0..))]
    replication_factor: i32,
    /// A setting, as in retention.ms=3600000; may be repeated
    #[arg(short, long = "config", value_name = "NAME=VALUE")]
    configs: Vec<NameValue>,
    /// Accept a topic of this name that exists already, as it is
    #[arg(long)]
    if_not_exists: bool,
    /// Only check
    #[arg(long)]
    validate_only: bool,
}

impl CreateArgs {
    pub(super) fn request(&self) -> v1::CreateTopicRequest {
        v1::CreateTopicRequest {
            topic: self.topic.clone(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            config: pairs(&self.configs),
            validate_only: self.validate_only,
        }
    }
}

fn pairs(list: &[NameValue]) -> std::collections::BTreeMap<String, String> {
    list.iter().map(|pair| (pair.name.clone(), pair.value.clone())).collect()
}

/// Which topics to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only names that start with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Also topics of the broker's own
    #[arg(long)]
    internal: bool,
}

impl ListArgs {
    pub(super) fn request(&self) -> v1::ListTopicsRequest {
        v1::ListTopicsRequest {
            prefix: self.prefix.clone(),
            include_internal: self.internal,
            ..Default::default()
        }
    }
}

/// Which topic to show.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// Name
    topic: String,
    /// Show every setting, not only those that differ from the defaults
    #[arg(short, long)]
    all: bool,
}

impl DescribeArgs {
    pub(super) fn request(&self) -> v1::GetTopicRequest {
        v1::GetTopicRequest { topic: self.topic.clone(), ..Default::default() }
    }
}

/// What to change in a topic.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["set", "unset", "partitions"]))]
pub struct AlterArgs {
    /// Name
    topic: String,
    /// A setting to change, as in retention.ms=3600000; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<NameValue>,
    /// A setting to put back to its default; may be repeated
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// New number of partitions; it only grows
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Permit more partitions on a topic with keyed records, although keys then go to other partitions
    #[arg(long)]
    allow_key_remap: bool,
    /// Only check
    #[arg(long)]
    validate_only: bool,
}

impl AlterArgs {
    pub(super) fn request(&self) -> v1::UpdateTopicRequest {
        v1::UpdateTopicRequest {
            topic: self.topic.clone(),
            partitions: self.partitions,
            allow_key_remap: self.allow_key_remap,
            set_config: pairs(&self.set),
            unset_config: self.unset.clone(),
            validate_only: self.validate_only,
        }
    }
}

/// Which topic to delete.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Name
    topic: String,
    /// Remove the files at once instead of keeping them in the trash for a time
    #[arg(long)]
    purge: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only check
    #[arg(long)]
    validate_only: bool,
}

impl DeleteArgs {
    pub(super) fn request(&self) -> v1::DeleteTopicRequest {
        v1::DeleteTopicRequest {
            topic: self.topic.clone(),
            purge: self.purge,
            validate_only: self.validate_only,
        }
    }
}

/// Which damaged range to give up.
#[derive(Debug, Args)]
pub struct SkipDamagedArgs {
    /// Name
    topic: String,
    /// Number of the partition
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// First damaged offset
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    from: i64,
    /// First good offset after it: next_good of the error
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only check
    #[arg(long)]
    validate_only: bool,
}

impl SkipDamagedArgs {
    pub(super) fn request(&self) -> v1::SkipDamagedRequest {
        v1::SkipDamagedRequest {
            topic: self.topic.clone(),
            partition: self.partition,
            from_offset: self.from,
            to_offset: self.to,
            validate_only: self.validate_only,
        }
    }
}

pub(super) async fn run(verb: TopicVerb, globals: &Globals) -> Result<(), CliError> {
    match verb {
        TopicVerb::Create(args) => create(&args, globals).await,
        TopicVerb::Ls(args) => list(&args, globals).await,
        TopicVerb::Describe(args) => describe(&args, globals).await,
        TopicVerb::Alter(args) => alter(&args, globals).await,
        TopicVerb::Delete(args) => delete(&args, globals).await,
        TopicVerb::SkipDamaged(args) => skip_damaged(&args, globals).await,
    }
}

async fn create(args: &CreateArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let outcome = client.decode(client.admin().create_topic(client.request(args.request())).await);
    let response = match outcome {
        Err(error) if args.if_not_exists && error.reason() == Some(ErrorReason::TopicAlreadyExists) => {
            let existing = client.describe_topic(&args.topic).await?;
            let response = v1::CreateTopicResponse { topic: Some(existing.topic), config: existing.config };
            return globals.output().print(
                || to_json("CreateTopicResponse", &response, JsonStyle::Result),
                |_| {
                    format!(
                        "topic {} exists already, {}\n",
                        args.topic,
                        table::counts(response.topic.as_ref())
                    )
                },
            );
        }
        outcome => outcome?,
    };
    let done = if args.validate_only { "can be created" } else { "created" };
    globals.output().print(
        || to_json("CreateTopicResponse", &response, JsonStyle::Result),
        |_| format!("topic {} {done}, {}\n", args.topic, table::counts(response.topic.as_ref())),
    )
}

async fn list(args: &ListArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let topics = client.list_topics(&args.prefix, args.internal).await?;
    let response = v1::ListTopicsResponse { topics, next_page_token: String::new() };
    globals.output().print(
        || to_json_list("ListTopicsResponse", &response),
        |on_terminal| table::topics(&response.topics, on_terminal),
    )
}

async fn describe(args: &DescribeArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let topic = client.describe_topic(&args.topic).await?;
    let response = v1::GetTopicResponse {
        topic: Some(topic.topic),
        config: topic.config,
        partitions: topic.partitions,
        next_page_token: String::new(),
    };
    globals.output().print(
        || to_json_list("GetTopicResponse", &response),
        |on_terminal| table::description(&response, args.all, on_terminal),
    )
}

async fn alter(args: &AlterArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let response = client.decode(client.admin().update_topic(client.request(args.request())).await)?;
    let done = if args.validate_only { "can be altered" } else { "altered" };
    globals.output().print(
        || to_json("UpdateTopicResponse", &response, JsonStyle::Result),
        |_| {
            let settings = table::settings(&response.config, false);
            format!("topic {} {done}, {}\n{settings}", args.topic, table::counts(response.topic.as_ref()))
        },
    )
}

async fn delete(args: &DeleteArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let what = format!("Delete topic {} with all its records", args.topic);
    confirm(&what, args.yes || args.validate_only)?;
    let response = client.decode(client.admin().delete_topic(client.request(args.request())).await)?;
    let done = if args.validate_only { "can be deleted" } else { "deleted" };
    globals.output().print(
        || to_json("DeleteTopicResponse", &response, JsonStyle::Result),
        |_| format!("topic {} ({}) {done}\n", args.topic, response.topic_id),
    )
}

async fn skip_damaged(args: &SkipDamagedArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let (topic, partition) = (&args.topic, args.partition);
    let what = format!("Give up offsets {} to {} of {topic}/{partition} for good", args.from, args.to - 1);
    confirm(&what, args.yes || args.validate_only)?;
    let response = client.decode(client.admin().skip_damaged(client.request(args.request())).await)?;
    let done = if args.validate_only { "can be skipped" } else { "skipped" };
    let (from, to) = (response.from_offset.unwrap_or(args.from), response.to_offset.unwrap_or(args.to));
    globals.output().print(
        || to_json("SkipDamagedResponse", &response, JsonStyle::Result),
        |_| format!("{topic}/{partition}: readers go on at {to}, offsets from {from} on are {done}\n"),
    )
}
