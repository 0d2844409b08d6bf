//! Topics as text.

use wharf_proto::v1;

use super::super::output::{Align, Grid, bytes_text, count_text, facts, or_dash};

/// `12 partitions, 3 replicas`.
pub(super) fn counts(topic: Option<&v1::TopicSummary>) -> String {
    let (partitions, replicas) =
        topic.map_or((0, 0), |topic| (topic.partition_count, topic.replication_factor));
    format!("{}, {}", count_text(partitions, "partition"), count_text(replicas, "replica"))
}

pub(super) fn topics(topics: &[v1::TopicSummary], on_terminal: bool) -> String {
    if topics.is_empty() {
        return "no topics\n".to_owned();
    }
    let mut grid = Grid::new(&[
        ("TOPIC", Align::Left),
        ("PARTITIONS", Align::Right),
        ("REPLICAS", Align::Right),
        ("ID", Align::Left),
    ]);
    for topic in topics {
        grid.row(vec![
            topic.topic.clone(),
            topic.partition_count.to_string(),
            topic.replication_factor.to_string(),
            topic.topic_id.clone(),
        ]);
    }
    grid.render(on_terminal)
}

/// Settings, one on a line; those that are set are marked when all are shown.
pub(super) fn settings(config: &[v1::ConfigEntry], all: bool) -> String {
    let mut text = String::new();
    for entry in config.iter().filter(|entry| all || !entry.is_default) {
        let mark = if all && entry.is_default { "  (default)" } else { "" };
        text.push_str(&format!("  {}={}{mark}\n", entry.name, entry.value));
    }
    text
}

pub(super) fn description(response: &v1::GetTopicResponse, all: bool, on_terminal: bool) -> String {
    let topic = response.topic.clone().unwrap_or_default();
    let sizes = response.partitions.iter().filter_map(|partition| partition.size_bytes);
    let size_bytes: u64 = sizes.map(|size| u64::try_from(size).unwrap_or(0)).sum();
    let records: i64 = response
        .partitions
        .iter()
        .filter_map(|partition| Some(partition.high_watermark? - partition.log_start_offset?))
        .sum();
    let mut text = facts(&[
        ("Topic", topic.topic.clone()),
        ("Id", topic.topic_id.clone()),
        ("Partitions", topic.partition_count.to_string()),
        ("Replicas", topic.replication_factor.to_string()),
        ("Offsets held", records.to_string()),
        ("Size", bytes_text(size_bytes)),
    ]);
    let settings = settings(&response.config, all);
    let head = if all { "Settings" } else { "Settings that differ from the defaults" };
    if settings.is_empty() {
        text.push_str(&format!("{head}: none\n"));
    } else {
        text.push_str(&format!("{head}:\n{settings}"));
    }
    text.push('\n');
    text.push_str(&partitions(&response.partitions, on_terminal));
    text.push_str(&damage(&topic.topic, &response.partitions));
    text
}

fn partitions(partitions: &[v1::PartitionInfo], on_terminal: bool) -> String {
    let mut grid = Grid::new(&[
        ("PARTITION", Align::Right),
        ("LEADER", Align::Right),
        ("EPOCH", Align::Right),
        ("START", Align::Right),
        ("END", Align::Right),
        ("SIZE", Align::Right),
        ("REPLICAS", Align::Left),
        ("IN SYNC", Align::Left),
    ]);
    for partition in partitions {
        let size = partition.size_bytes.and_then(|size| u64::try_from(size).ok());
        grid.row(vec![
            or_dash(partition.partition),
            or_dash(partition.leader),
            or_dash(partition.leader_epoch),
            or_dash(partition.log_start_offset),
            or_dash(partition.high_watermark),
            or_dash(size.map(bytes_text)),
            numbers(&partition.replicas),
            numbers(&partition.isr),
        ]);
    }
    grid.render(on_terminal)
}

fn damage(topic: &str, partitions: &[v1::PartitionInfo]) -> String {
    let mut text = String::new();
    for partition in partitions {
        for range in &partition.damaged {
            let number = partition.partition.unwrap_or_default();
            let (from, to) = (range.from_offset.unwrap_or_default(), range.to_offset.unwrap_or_default());
            text.push_str(&format!(
                "DAMAGED  {topic}/{number}: offsets {from} to {} cannot be read; `wharf topic skip-damaged {topic} \
                 --partition {number} --from {from} --to {to}` lets readers pass\n",
                to - 1
            ));
        }
    }
    text
}

fn numbers(list: &[i32]) -> String {
    list.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> v1::GetTopicResponse {
        let entry = |name: &str, value: &str, is_default| v1::ConfigEntry {
            name: name.into(),
            value: value.into(),
            is_default,
        };
        v1::GetTopicResponse {
            topic: Some(v1::TopicSummary {
                topic: "flights".into(),
                topic_id: "0190f3d2-0000-7000-8000-000000000001".into(),
                partition_count: 2,
                replication_factor: 1,
                internal: false,
            }),
            config: vec![entry("compression.type", "none", true), entry("retention.ms", "3600000", false)],
            partitions: vec![
                v1::PartitionInfo {
                    partition: Some(0),
                    leader: Some(1),
                    leader_epoch: Some(1),
                    replicas: vec![1],
                    isr: vec![1],
                    log_start_offset: Some(0),
                    high_watermark: Some(120),
                    last_stable_offset: Some(120),
                    size_bytes: Some(2_048),
                    damaged: vec![v1::DamagedRange { from_offset: Some(10), to_offset: Some(20) }],
                },
                v1::PartitionInfo { partition: Some(1), leader_epoch: Some(0), ..Default::default() },
            ],
            next_page_token: String::new(),
        }
    }

    #[test]
    fn a_description_tells_settings_partitions_and_damage() {
        assert_eq!(
            description(&example(), false, false),
            "Topic         flights\n\
             Id            0190f3d2-0000-7000-8000-000000000001\n\
             Partitions    2\n\
             Replicas      1\n\
             Offsets held  120\n\
             Size          2.0 KiB\n\
             Settings that differ from the defaults:\n  retention.ms=3600000\n\
             \n\
             PARTITION  LEADER  EPOCH  START  END     SIZE  REPLICAS  IN SYNC\n\
             ─────────────────────────────────────────────────────────────────\n        \
             0       1      1      0  120  2.0 KiB  1         1\n        \
             1       -      0      -    -        -\n\
             DAMAGED  flights/0: offsets 10 to 19 cannot be read; `wharf topic skip-damaged flights --partition 0 \
             --from 10 --to 20` lets readers pass\n"
        );
    }

    #[test]
    fn all_settings_mark_the_defaults() {
        assert_eq!(
            settings(&example().config, true),
            "  compression.type=none  (default)\n  retention.ms=3600000\n"
        );
    }

    #[test]
    fn topics_are_listed_with_their_counts() {
        let topic = example().topic.unwrap_or_default();
        assert_eq!(
            topics(&[topic], false),
            "TOPIC    PARTITIONS  REPLICAS  ID\n\
             ────────────────────────────────────────────────────────────────────\n\
             flights           2         1  0190f3d2-0000-7000-8000-000000000001\n"
        );
        assert_eq!(topics(&[], false), "no topics\n");
    }
}
