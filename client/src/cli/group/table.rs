//! Groups as text.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_proto::v1;

use super::super::output::{Align, Grid, facts, or_dash};
use super::super::time::{rfc3339_wire, span_text, span_wire};

fn state_text(state: v1::GroupState) -> &'static str {
    match state {
        v1::GroupState::Unspecified => "unknown",
        v1::GroupState::Empty => "empty",
        v1::GroupState::Stable => "stable",
        v1::GroupState::Reconciling => "reconciling",
    }
}

pub(super) fn groups(groups: &[v1::GroupSummary], on_terminal: bool) -> String {
    if groups.is_empty() {
        return "no groups\n".to_owned();
    }
    let mut grid = Grid::new(&[("GROUP", Align::Left), ("STATE", Align::Left), ("MEMBERS", Align::Right)]);
    for group in groups {
        grid.row(vec![group.group.clone(), state_text(group.state()).into(), or_dash(group.member_count)]);
    }
    grid.render(on_terminal)
}

pub(super) fn description(response: &v1::DescribeGroupResponse, on_terminal: bool) -> String {
    let group = response.group.clone().unwrap_or_default();
    let mut text = facts(&[
        ("Group", group.group.clone()),
        ("State", state_text(group.state()).to_owned()),
        ("Epoch", or_dash(response.group_epoch)),
        ("Members", response.members.len().to_string()),
    ]);
    if !response.members.is_empty() {
        text.push('\n');
        text.push_str(&members(&response.members, on_terminal));
    }
    if !response.partitions.is_empty() {
        text.push('\n');
        text.push_str(&partitions(&response.partitions, on_terminal));
    }
    text
}

fn members(members: &[v1::GroupMemberInfo], on_terminal: bool) -> String {
    let mut grid = Grid::new(&[
        ("MEMBER", Align::Left),
        ("EPOCH", Align::Right),
        ("TOPICS", Align::Left),
        ("PARTITIONS", Align::Right),
        ("JOINED", Align::Left),
        ("LAST HEARD OF", Align::Left),
    ]);
    for member in members {
        grid.row(vec![
            member.member_id.clone(),
            or_dash(member.member_epoch),
            member.topics.join(","),
            member.assigned.len().to_string(),
            rfc3339_wire(member.joined_time_ms),
            rfc3339_wire(member.last_heartbeat_time_ms),
        ]);
    }
    grid.render(on_terminal)
}

fn partitions(partitions: &[v1::GroupPartition], on_terminal: bool) -> String {
    let mut grid = Grid::new(&[
        ("TOPIC", Align::Left),
        ("PARTITION", Align::Right),
        ("COMMITTED", Align::Right),
        ("END", Align::Right),
        ("LAG", Align::Right),
        ("BEHIND", Align::Right),
        ("CHANGE/S", Align::Right),
        ("RETENTION USED", Align::Right),
        ("TO DRAIN", Align::Right),
        ("MEMBER", Align::Left),
    ]);
    for partition in partitions {
        grid.row(vec![
            partition.topic.clone(),
            or_dash(partition.partition),
            or_dash(partition.committed_offset),
            or_dash(partition.end_offset),
            or_dash(partition.lag),
            span_wire(partition.lag_time.as_ref()),
            or_dash(partition.lag_change_per_second.map(|change| format!("{change:+.1}"))),
            or_dash(partition.retention_used.map(|share| format!("{:.1} %", share * 100.0))),
            span_wire(partition.time_to_drain.as_ref()),
            if partition.member_id.is_empty() { "-".to_owned() } else { partition.member_id.clone() },
        ]);
    }
    grid.render(on_terminal)
}

/// How far a group is behind in one topic.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TopicLag {
    partitions: u64,
    uncommitted: u64,
    unknown: u64,
    records: i64,
    records_worst: i64,
    time_worst: Duration,
    change_per_second: Option<f64>,
    retention_used_worst: Option<f64>,
}

impl TopicLag {
    pub(super) fn add(&mut self, partition: &v1::GroupPartition) {
        self.partitions += 1;
        match (partition.committed_offset, partition.lag) {
            (None, _) => self.uncommitted += 1,
            (Some(_), None) => self.unknown += 1,
            (Some(_), Some(lag)) => {
                self.records += lag;
                self.records_worst = self.records_worst.max(lag);
            }
        }
        let time = partition.lag_time.and_then(|time| Duration::try_from(time).ok());
        self.time_worst = self.time_worst.max(time.unwrap_or_default());
        if let Some(change) = partition.lag_change_per_second {
            *self.change_per_second.get_or_insert(0.0) += change;
        }
        if let Some(used) = partition.retention_used {
            let worst = self.retention_used_worst.get_or_insert(used);
            *worst = worst.max(used);
        }
    }
}

pub(super) fn lag(topics: &BTreeMap<&str, TopicLag>, on_terminal: bool) -> String {
    let mut grid = Grid::new(&[
        ("TOPIC", Align::Left),
        ("PARTITIONS", Align::Right),
        ("UNCOMMITTED", Align::Right),
        ("LAG", Align::Right),
        ("WORST", Align::Right),
        ("BEHIND", Align::Right),
        ("CHANGE/S", Align::Right),
        ("RETENTION USED", Align::Right),
    ]);
    for (topic, lag) in topics {
        // A sum that lacks a partition is a lower bound, and says so.
        let bound = if lag.unknown > 0 { "≥" } else { "" };
        grid.row(vec![
            (*topic).to_owned(),
            lag.partitions.to_string(),
            lag.uncommitted.to_string(),
            format!("{bound}{}", lag.records),
            lag.records_worst.to_string(),
            span_text(lag.time_worst),
            or_dash(lag.change_per_second.map(|change| format!("{change:+.1}"))),
            or_dash(lag.retention_used_worst.map(|share| format!("{:.1} %", share * 100.0))),
        ]);
    }
    if grid.is_empty() { "no positions\n".to_owned() } else { grid.render(on_terminal) }
}

pub(super) fn lag_json(group: &str, topics: &BTreeMap<&str, TopicLag>) -> Value {
    let topics: Vec<Value> = topics
        .iter()
        .map(|(topic, lag)| {
            json!({
                "topic": topic,
                "partitions": lag.partitions,
                "partitions_uncommitted": lag.uncommitted,
                "partitions_unknown": lag.unknown,
                "lag": lag.records,
                "lag_worst": lag.records_worst,
                "lag_ms_worst": u64::try_from(lag.time_worst.as_millis()).unwrap_or(u64::MAX),
                "lag_change_per_second": lag.change_per_second,
                "retention_used_worst": lag.retention_used_worst,
            })
        })
        .collect();
    json!({ "group": group, "topics": topics })
}

pub(super) fn moves(offsets: &[v1::OffsetReset], dry_run: bool, on_terminal: bool) -> String {
    if offsets.is_empty() {
        return "nothing to move\n".to_owned();
    }
    let mut grid = Grid::new(&[
        ("TOPIC", Align::Left),
        ("PARTITION", Align::Right),
        ("BEFORE", Align::Right),
        (if dry_run { "WOULD BE" } else { "AFTER" }, Align::Right),
        ("MOVED BY", Align::Right),
    ]);
    for offset in offsets {
        let by = offset.after_offset.zip(offset.before_offset).map(|(after, before)| after - before);
        grid.row(vec![
            offset.topic.clone(),
            or_dash(offset.partition),
            or_dash(offset.before_offset),
            or_dash(offset.after_offset),
            or_dash(by.map(|by| format!("{by:+}"))),
        ]);
    }
    grid.render(on_terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i32, committed: Option<i64>, lag: Option<i64>) -> v1::GroupPartition {
        v1::GroupPartition {
            topic: "t".into(),
            partition: Some(number),
            committed_offset: committed,
            end_offset: Some(10),
            lag,
            lag_time: lag.map(|_| prost_types::Duration { seconds: 61, nanos: 0 }),
            lag_change_per_second: Some(-1.5),
            retention_used: Some(0.25),
            ..Default::default()
        }
    }

    #[test]
    fn a_description_tells_what_is_known() {
        let response = v1::DescribeGroupResponse {
            group: Some(v1::GroupSummary {
                group: "g".into(),
                state: v1::GroupState::Empty.into(),
                member_count: Some(0),
            }),
            group_epoch: Some(0),
            partitions: vec![partition(0, Some(3), Some(7))],
            ..Default::default()
        };
        assert_eq!(
            description(&response, false),
            "Group    g\nState    empty\nEpoch    0\nMembers  0\n\n\
             TOPIC  PARTITION  COMMITTED  END  LAG  BEHIND  CHANGE/S  RETENTION USED  TO DRAIN  MEMBER\n\
             ──────────────────────────────────────────────────────────────────────────────────────────\n\
             t              0          3   10    7   1m 1s      -1.5          25.0 %         -  -\n"
        );
    }

    #[test]
    fn lag_is_summed_by_topic_and_marked_where_a_part_is_unknown() {
        let mut topic = TopicLag::default();
        topic.add(&partition(0, Some(3), Some(7)));
        topic.add(&partition(1, Some(3), None));
        topic.add(&partition(2, None, None));
        let topics = BTreeMap::from([("t", topic)]);
        assert_eq!(
            lag(&topics, false),
            "TOPIC  PARTITIONS  UNCOMMITTED  LAG  WORST  BEHIND  CHANGE/S  RETENTION USED\n\
             ─────────────────────────────────────────────────────────────────────────────\n\
             t               3            1   ≥7      7   1m 1s      -4.5          25.0 %\n"
        );
        assert_eq!(lag_json("g", &topics)["topics"][0]["lag"], 7);
    }

    #[test]
    fn moves_show_before_and_after() {
        let offsets = [v1::OffsetReset {
            topic: "t".into(),
            partition: Some(0),
            before_offset: Some(100),
            after_offset: Some(40),
        }];
        assert_eq!(
            moves(&offsets, true, false),
            "TOPIC  PARTITION  BEFORE  WOULD BE  MOVED BY\n\
             ─────────────────────────────────────────────\n\
             t              0     100        40       -60\n"
        );
    }
}
