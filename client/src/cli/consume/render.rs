//! Records as text, JSON lines or YAML documents.

use serde::Serialize;
use wharf_proto::v1;

use super::ConsumeArgs;
use crate::cli::OutputFormat;
use crate::cli::error::CliError;
use crate::cli::text::{RecordFormat, base64};

/// Prints records of one topic into a buffer.
#[derive(Debug)]
pub(super) struct Renderer {
    topic: String,
    format: RecordFormat,
    output: OutputFormat,
}

/// A record as programs read it. Bytes that are not UTF-8 stand in the fields with `_base64`.
#[derive(Debug, Serialize)]
struct RecordJson<'a> {
    topic: &'a str,
    partition: i32,
    offset: Option<i64>,
    timestamp_ms: Option<i64>,
    append_time_ms: Option<i64>,
    leader_epoch: Option<i32>,
    /// Null where there is no key; left out where `key_base64` has it.
    #[serde(skip_serializing_if = "Absent::is_elsewhere")]
    key: Absent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    /// Null for a tombstone; left out where `value_base64` has it.
    #[serde(skip_serializing_if = "Absent::is_elsewhere")]
    value: Absent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    headers: Vec<HeaderJson<'a>>,
}

#[derive(Debug, Serialize)]
struct HeaderJson<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Absent::is_elsewhere")]
    value: Absent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// A text, or why there is none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Absent<'a> {
    Text(&'a str),
    Null(()),
    #[serde(skip)]
    Elsewhere,
}

impl Absent<'_> {
    fn is_elsewhere(&self) -> bool {
        matches!(self, Absent::Elsewhere)
    }
}

/// The two fields of some bytes.
fn fields(bytes: Option<&[u8]>) -> (Absent<'_>, Option<String>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (Absent::Null(()), None),
        Some((_, Ok(text))) => (Absent::Text(text), None),
        Some((bytes, Err(_))) => (Absent::Elsewhere, Some(base64(bytes))),
    }
}

impl Renderer {
    pub(super) fn new(args: &ConsumeArgs, output: OutputFormat) -> Self {
        Renderer { topic: args.topic.clone(), format: args.format.clone(), output }
    }

    /// Appends a record to `out`.
    pub(super) fn render(
        &self,
        partition: i32,
        record: &v1::FetchedRecord,
        out: &mut Vec<u8>,
    ) -> Result<(), CliError> {
        match self.output {
            OutputFormat::Table => {
                self.format.render(&self.topic, partition, record, out);
                Ok(())
            }
            OutputFormat::Json => {
                serde_json::to_writer(&mut *out, &self.json(partition, record)).map_err(problem)?;
                out.push(b'\n');
                Ok(())
            }
            OutputFormat::Yaml => {
                out.extend_from_slice(b"---\n");
                serde_norway::to_writer(out, &self.json(partition, record)).map_err(problem)
            }
        }
    }

    fn json<'a>(&'a self, partition: i32, record: &'a v1::FetchedRecord) -> RecordJson<'a> {
        let (key, key_base64) = fields(record.key.as_deref());
        let (value, value_base64) = fields(record.value.as_deref());
        let header = |header: &'a v1::Header| {
            let (value, value_base64) = fields(header.value.as_deref());
            HeaderJson { name: &header.name, value, value_base64 }
        };
        RecordJson {
            topic: &self.topic,
            partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            append_time_ms: record.append_time_ms,
            leader_epoch: record.leader_epoch,
            key,
            key_base64,
            value,
            value_base64,
            headers: record.headers.iter().map(header).collect(),
        }
    }
}

fn problem(error: impl std::fmt::Display) -> CliError {
    CliError::Render { problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rendered(output: OutputFormat, record: &v1::FetchedRecord) -> String {
        let format = r"%p:%o %k=%v\n".parse().unwrap();
        let renderer = Renderer { topic: "t".into(), format, output };
        let mut out = Vec::new();
        renderer.render(2, record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn record() -> v1::FetchedRecord {
        v1::FetchedRecord {
            offset: Some(7),
            timestamp_ms: Some(1),
            append_time_ms: Some(2),
            leader_epoch: Some(3),
            key: Some("u\"1".into()),
            value: Some("hello".into()),
            headers: vec![v1::Header { name: "h".into(), value: Some(vec![0xff].into()), value_text: None }],
            ..Default::default()
        }
    }

    #[test]
    fn json_has_one_line_a_record_and_base64_only_where_needed() {
        assert_eq!(
            rendered(OutputFormat::Json, &record()),
            concat!(
                r#"{"topic":"t","partition":2,"offset":7,"timestamp_ms":1,"append_time_ms":2,"leader_epoch":3,"#,
                r#""key":"u\"1","value":"hello","headers":[{"name":"h","value_base64":"/w=="}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn keyless_tombstones_are_null() {
        let record =
            v1::FetchedRecord { key: None, value: None, tombstone: true, headers: vec![], ..record() };
        let json = rendered(OutputFormat::Json, &record);
        assert!(json.contains(r#""key":null,"value":null"#), "{json}");
    }

    #[test]
    fn yaml_has_one_document_a_record() {
        let yaml = rendered(OutputFormat::Yaml, &record());
        assert!(yaml.starts_with("---\ntopic: t\npartition: 2\noffset: 7\n"), "{yaml}");
    }

    #[test]
    fn text_follows_the_format() {
        assert_eq!(rendered(OutputFormat::Table, &record()), "2:7 u\"1=hello\n");
    }
}
