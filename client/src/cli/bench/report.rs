//! What was measured.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use wharf_proto::v1;

use crate::cli::Globals;
use crate::cli::error::CliError;
use crate::cli::output::facts;

/// Latencies in microseconds up to a minute, to three digits.
#[derive(Debug)]
pub(super) struct Latencies(Histogram<u64>);

const LATENCY_US_MAX: u64 = 60_000_000;

impl Latencies {
    pub(super) fn new() -> Result<Self, CliError> {
        Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
            .map(Latencies)
            .map_err(|error| CliError::Render { problem: error.to_string() })
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_US_MAX);
        self.0.saturating_record(microseconds.max(1));
    }

    pub(super) fn merge(&mut self, other: &Latencies) -> Result<(), CliError> {
        self.0.add(&other.0).map_err(|error| CliError::Render { problem: error.to_string() })
    }

    fn summary(&self) -> LatencySummary {
        LatencySummary {
            mean: self.0.mean(),
            p50: self.0.value_at_quantile(0.5),
            p90: self.0.value_at_quantile(0.9),
            p99: self.0.value_at_quantile(0.99),
            p999: self.0.value_at_quantile(0.999),
            max: self.0.max(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LatencySummary {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// The conditions of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Conditions {
    pub(super) kind: &'static str,
    pub(super) mode: &'static str,
    pub(super) topic: String,
    pub(super) partitions: i32,
    pub(super) connections: u16,
    pub(super) in_flight: usize,
    pub(super) record_bytes: Option<u32>,
    pub(super) records_per_request: Option<u32>,
    pub(super) keyed: Option<bool>,
    pub(super) acks: Option<&'static str>,
}

/// What was done in a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) requests: u64,
    pub(super) requests_refused: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    pub(super) latencies: Latencies,
}

/// A run as it is printed. MB are 10^6 bytes of keys, values and headers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    conditions: Conditions,
    seconds: f64,
    requests: u64,
    requests_refused: u64,
    records: u64,
    bytes: u64,
    requests_per_second: f64,
    records_per_second: f64,
    mb_per_second: f64,
    latency_us: LatencySummary,
}

impl Report {
    pub(super) fn new(conditions: Conditions, outcome: &Outcome) -> Self {
        let seconds = outcome.elapsed.as_secs_f64().max(1e-6);
        Report {
            conditions,
            seconds,
            requests: outcome.requests,
            requests_refused: outcome.requests_refused,
            records: outcome.records,
            bytes: outcome.bytes,
            requests_per_second: outcome.requests as f64 / seconds,
            records_per_second: outcome.records as f64 / seconds,
            mb_per_second: outcome.bytes as f64 / seconds / 1e6,
            latency_us: outcome.latencies.summary(),
        }
    }

    pub(super) fn print(&self, globals: &Globals) -> Result<(), CliError> {
        globals.output().print(
            || serde_json::to_value(self).map_err(|error| CliError::Render { problem: error.to_string() }),
            |_| self.table(),
        )
    }

    fn table(&self) -> String {
        let milliseconds = |us: u64| format!("{:.2}", us as f64 / 1e3);
        let latency = &self.latency_us;
        let mut pairs = vec![
            (
                "Measured",
                format!("{} {} on {}", self.conditions.kind, self.conditions.mode, self.conditions.topic),
            ),
            (
                "Throughput",
                format!("{:.0} records/s, {:.1} MB/s", self.records_per_second, self.mb_per_second),
            ),
            (
                "Requests",
                format!("{} in {:.2} s, {:.0}/s", self.requests, self.seconds, self.requests_per_second),
            ),
            (
                "Latency (ms)",
                format!(
                    "p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
                    milliseconds(latency.p50),
                    milliseconds(latency.p90),
                    milliseconds(latency.p99),
                    milliseconds(latency.p999),
                    milliseconds(latency.max)
                ),
            ),
        ];
        if self.requests_refused > 0 {
            pairs.push(("Refused", format!("{} requests, for now", self.requests_refused)));
        }
        facts(&pairs)
    }
}

/// Bytes of a record that was read, as they count in a report.
pub(super) fn fetched_bytes(record: &v1::FetchedRecord) -> u64 {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers: usize = record.headers.iter().map(|header| header.name.len() + length(&header.value)).sum();
    (length(&record.key) + length(&record.value) + headers) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn report() -> Report {
        let mut latencies = Latencies::new().unwrap();
        for milliseconds in 1..=100 {
            latencies.record(Duration::from_millis(milliseconds));
        }
        let conditions = Conditions {
            kind: "produce",
            mode: "stream",
            topic: "t".into(),
            partitions: 12,
            connections: 1,
            in_flight: 64,
            record_bytes: Some(1_024),
            records_per_request: Some(64),
            keyed: Some(false),
            acks: Some("all"),
        };
        let outcome = Outcome {
            requests: 100,
            requests_refused: 0,
            records: 6_400,
            bytes: 6_553_600,
            elapsed: Duration::from_secs(2),
            latencies,
        };
        Report::new(conditions, &outcome)
    }

    #[test]
    fn a_report_has_rates_and_percentiles() {
        let text = report().table();
        assert!(text.contains("Throughput    3200 records/s, 3.3 MB/s\n"), "{text}");
        assert!(text.contains("Requests      100 in 2.00 s, 50/s\n"), "{text}");
        assert!(text.contains("p50 50."), "{text}");
    }

    #[test]
    fn the_json_is_flat_and_keeps_its_names() {
        let json = serde_json::to_value(report()).unwrap();
        for name in
            ["kind", "mode", "requests_per_second", "records_per_second", "mb_per_second", "latency_us"]
        {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert_eq!(json["records_per_second"], 3_200.0);
    }
}
