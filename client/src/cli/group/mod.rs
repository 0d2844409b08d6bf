//! `wharf group`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use wharf_proto::v1;
use wharf_proto::v1::reset_offsets_request::Target;

use super::confirm::confirm;
use super::error::CliError;
use super::json::{JsonStyle, to_json, to_json_list};
use super::output::write_stdout;
use super::position::{Place, SeekTarget};
use super::{Globals, OutputFormat};
use crate::client::Client;
use crate::lists::GroupDescription;

mod table;

/// What to do with groups.
#[derive(Debug, Subcommand)]
pub enum GroupVerb {
    /// List groups
    #[command(alias = "list")]
    Ls(ListArgs),
    /// Show a group's members and positions
    Describe(NameArgs),
    /// Show how far a group is behind, by topic
    Lag(LagArgs),
    /// Move a group's committed positions
    Seek(SeekArgs),
    /// Delete a group with its positions
    Delete(DeleteArgs),
}

/// Which groups to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only names that start with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

impl ListArgs {
    pub(super) fn request(&self) -> v1::ListGroupsRequest {
        v1::ListGroupsRequest { prefix: self.prefix.clone(), ..Default::default() }
    }
}

/// Which group.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name
    group: String,
}

impl NameArgs {
    pub(super) fn request(&self) -> v1::DescribeGroupRequest {
        v1::DescribeGroupRequest { group: self.group.clone(), ..Default::default() }
    }
}

/// Whose lag to show.
#[derive(Debug, Args)]
pub struct LagArgs {
    /// Name
    group: String,
    /// Go on, once in this time; Ctrl-C ends it
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = humantime::parse_duration)]
    watch: Option<Duration>,
}

impl LagArgs {
    pub(super) fn request(&self) -> v1::DescribeGroupRequest {
        v1::DescribeGroupRequest { group: self.group.clone(), ..Default::default() }
    }
}

/// Where to move a group.
#[derive(Debug, Args)]
pub struct SeekArgs {
    /// Name; with --topic it need not exist and is created
    group: String,
    /// earliest, latest, an offset, a time, how long ago (1h), or shift:-100
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    to: SeekTarget,
    /// Only this topic [default: all for which the group has a position]
    #[arg(short, long)]
    topic: Option<String>,
    /// Only this partition of the topic; may be repeated
    #[arg(short, long = "partition", value_name = "PARTITION", requires = "topic", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Only show what would be moved
    #[arg(short = 'n', long, visible_alias = "validate-only")]
    dry_run: bool,
}

impl SeekArgs {
    pub(super) fn request(&self) -> v1::ResetOffsetsRequest {
        let span = |span: Duration| prost_types::Duration {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
        };
        let target = match self.to {
            SeekTarget::Shift(by) => Target::ShiftBy(by),
            SeekTarget::Place(Place::Earliest) => Target::Start(v1::StartPosition::Earliest.into()),
            SeekTarget::Place(Place::Latest) => Target::Start(v1::StartPosition::Latest.into()),
            SeekTarget::Place(Place::Offset(offset)) => Target::Offset(offset.to_wire()),
            SeekTarget::Place(Place::Time(time)) => Target::AppendTimeMs(time.to_wire()),
            SeekTarget::Place(Place::Ago(ago)) => Target::Duration(span(ago)),
        };
        v1::ResetOffsetsRequest {
            group: self.group.clone(),
            topic: self.topic.clone().unwrap_or_default(),
            partitions: self.partitions.clone(),
            target: Some(target),
            validate_only: self.dry_run,
        }
    }
}

/// Which group to delete.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Name
    group: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only check
    #[arg(long)]
    validate_only: bool,
}

impl DeleteArgs {
    pub(super) fn request(&self) -> v1::DeleteGroupRequest {
        v1::DeleteGroupRequest { group: self.group.clone(), validate_only: self.validate_only }
    }
}

pub(super) async fn run(verb: GroupVerb, globals: &Globals) -> Result<(), CliError> {
    match verb {
        GroupVerb::Ls(args) => list(&args, globals).await,
        GroupVerb::Describe(args) => describe(&args, globals).await,
        GroupVerb::Lag(args) => lag(&args, globals).await,
        GroupVerb::Seek(args) => seek(&args, globals).await,
        GroupVerb::Delete(args) => delete(&args, globals).await,
    }
}

async fn list(args: &ListArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let groups = client.list_groups(&args.prefix).await?;
    let response = v1::ListGroupsResponse { groups, next_page_token: String::new() };
    globals.output().print(
        || to_json_list("ListGroupsResponse", &response),
        |on_terminal| table::groups(&response.groups, on_terminal),
    )
}

fn response_of(group: GroupDescription) -> v1::DescribeGroupResponse {
    v1::DescribeGroupResponse {
        group: Some(group.group),
        group_epoch: group.group_epoch,
        members: group.members,
        partitions: group.partitions,
        next_page_token: String::new(),
    }
}

async fn describe(args: &NameArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let response = response_of(client.describe_group(&args.group).await?);
    globals.output().print(
        || to_json_list("DescribeGroupResponse", &response),
        |on_terminal| table::description(&response, on_terminal),
    )
}

async fn lag(args: &LagArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let Some(interval) = args.watch else { return print_lag(&client, args, globals).await };
    let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(100)));
    let output = globals.output();
    loop {
        ticks.tick().await;
        if output.on_terminal() && output.format() == OutputFormat::Table {
            // Home, and clear what is below, so that the table stands still.
            write_stdout(b"\x1b[H\x1b[2J")?;
        }
        print_lag(&client, args, globals).await?;
    }
}

async fn print_lag(client: &Client, args: &LagArgs, globals: &Globals) -> Result<(), CliError> {
    let response = response_of(client.describe_group(&args.group).await?);
    let mut topics: BTreeMap<&str, table::TopicLag> = BTreeMap::new();
    for partition in &response.partitions {
        topics.entry(&partition.topic).or_default().add(partition);
    }
    globals
        .output()
        .print(|| Ok(table::lag_json(&args.group, &topics)), |on_terminal| table::lag(&topics, on_terminal))
}

async fn seek(args: &SeekArgs, globals: &Globals) -> Result<(), CliError> {
    if args.topic.is_none() && matches!(args.to, SeekTarget::Place(Place::Offset(_))) {
        return Err(CliError::Usage {
            problem: "an offset needs --topic: it means a place in one topic only",
        });
    }
    let client = globals.connect().await?;
    let response = client.decode(client.admin().reset_offsets(client.request(args.request())).await)?;
    globals.output().print(
        || to_json("ResetOffsetsResponse", &response, JsonStyle::Result),
        |on_terminal| table::moves(&response.offsets, args.dry_run, on_terminal),
    )
}

async fn delete(args: &DeleteArgs, globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let what = format!("Delete group {} with its positions", args.group);
    confirm(&what, args.yes || args.validate_only)?;
    let response = client.decode(client.admin().delete_group(client.request(args.request())).await)?;
    let done = if args.validate_only { "can be deleted" } else { "deleted" };
    globals.output().print(
        || to_json("DeleteGroupResponse", &response, JsonStyle::Result),
        |_| format!("group {} {done}\n", args.group),
    )
}
