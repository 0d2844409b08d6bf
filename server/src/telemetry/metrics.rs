//! Every metric of the server, in one place. Labels are bounded: RPC methods and codes are fixed, groups and topics
//! are sampled up to a limit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};
use tonic::Code;

/// Bounds of latencies, in seconds.
const LATENCY_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// RPCs that are counted by name; others are `other`.
const METHODS: [&str; 20] = [
    "/wharf.v1.BrokerService/Produce",
    "/wharf.v1.BrokerService/ProduceStream",
    "/wharf.v1.BrokerService/Fetch",
    "/wharf.v1.BrokerService/Commit",
    "/wharf.v1.BrokerService/GetCommitted",
    "/wharf.v1.BrokerService/ListOffsets",
    "/wharf.v1.BrokerService/InitProducer",
    "/wharf.v1.AdminService/GetServerInfo",
    "/wharf.v1.AdminService/DescribeCluster",
    "/wharf.v1.AdminService/CreateTopic",
    "/wharf.v1.AdminService/GetTopic",
    "/wharf.v1.AdminService/ListTopics",
    "/wharf.v1.AdminService/UpdateTopic",
    "/wharf.v1.AdminService/DeleteTopic",
    "/wharf.v1.AdminService/DeleteRecords",
    "/wharf.v1.AdminService/SkipDamaged",
    "/wharf.v1.AdminService/ListGroups",
    "/wharf.v1.AdminService/DescribeGroup",
    "/wharf.v1.AdminService/ResetOffsets",
    "/wharf.v1.AdminService/DeleteGroup",
];

/// The metrics of a process.
pub(crate) struct ServerMetrics {
    registry: Registry,
    methods: HashMap<&'static str, MethodMetrics>,
    other: MethodMetrics,
    rpc_errors: IntCounterVec,
    appended_records: IntCounter,
    appended_bytes: IntCounter,
    appended_batches: IntCounter,
    fetched_records: IntCounter,
    flushes: IntCounter,
    flush_seconds: Histogram,
    corruptions: IntCounter,
    group_lag_records: IntGaugeVec,
    group_lag_seconds: GaugeVec,
    topic_bytes: IntGaugeVec,
    /// Set when the metrics are read.
    pub(crate) gauges: Gauges,
}

/// One group's lag on one topic.
pub(crate) struct TopicLag {
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) records: u64,
    pub(crate) seconds: f64,
}

/// Values that are looked up when the metrics are read.
pub(crate) struct Gauges {
    pub(crate) disk_total_bytes: IntGauge,
    pub(crate) disk_available_bytes: IntGauge,
    pub(crate) disk_reserve_bytes: IntGauge,
    pub(crate) storage_full: IntGauge,
    pub(crate) log_bytes: IntGauge,
    pub(crate) partitions: IntGauge,
    pub(crate) tail_cache_bytes: IntGauge,
    pub(crate) produce_buffer_bytes: IntGauge,
    pub(crate) resident_bytes: IntGauge,
}

#[derive(Clone)]
struct MethodMetrics {
    requests: IntCounter,
    in_flight: IntGauge,
    seconds: Histogram,
    name: &'static str,
}

/// One call that is being counted.
pub(crate) struct RpcMetrics {
    method: MethodMetrics,
    errors: IntCounterVec,
    finished: bool,
}

impl RpcMetrics {
    /// The call has its first answer, or its error.
    pub(crate) fn finished(&mut self, code: Code, took: Duration) {
        self.finished = true;
        self.method.in_flight.dec();
        self.method.seconds.observe(took.as_secs_f64());
        if code != Code::Ok {
            self.errors.with_label_values(&[self.method.name, code_name(code)]).inc();
        }
    }
}

impl Drop for RpcMetrics {
    fn drop(&mut self) {
        if !self.finished {
            self.method.in_flight.dec();
            self.errors.with_label_values(&[self.method.name, code_name(Code::Cancelled)]).inc();
        }
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Registers what was built; the names below are distinct.
fn register<M: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    metric: M,
) -> prometheus::Result<M> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl ServerMetrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// If two of them have the same name, which a test rules out.
    pub(crate) fn new() -> prometheus::Result<Arc<Self>> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| register(&registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| register(&registry, IntGauge::new(name, help)?);
        let requests = register(
            &registry,
            IntCounterVec::new(
                Opts::new("wharf_rpc_requests_total", "Calls that began, by method."),
                &["method"],
            )?,
        )?;
        let in_flight = register(
            &registry,
            IntGaugeVec::new(
                Opts::new("wharf_rpc_in_flight", "Calls without an answer yet, by method."),
                &["method"],
            )?,
        )?;
        let seconds_opts = HistogramOpts::new(
            "wharf_rpc_duration_seconds",
            "Time to the answer (for streams: to its beginning), by method.",
        )
        .buckets(LATENCY_BUCKETS.to_vec());
        let seconds = register(&registry, HistogramVec::new(seconds_opts, &["method"])?)?;
        let method = |path: &'static str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            MethodMetrics {
                requests: requests.with_label_values(&[name]),
                in_flight: in_flight.with_label_values(&[name]),
                seconds: seconds.with_label_values(&[name]),
                name,
            }
        };
        let flush_opts =
            HistogramOpts::new("wharf_log_flush_duration_seconds", "Time of one flush of one log.")
                .buckets(LATENCY_BUCKETS.to_vec());
        let metrics = ServerMetrics {
            methods: METHODS.iter().map(|path| (*path, method(path))).collect(),
            other: method("other"),
            rpc_errors: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("wharf_rpc_errors_total", "Calls that failed, by method and gRPC code."),
                    &["method", "code"],
                )?,
            )?,
            appended_records: counter("wharf_storage_appended_records_total", "Records appended as leader.")?,
            appended_bytes: counter(
                "wharf_storage_appended_bytes_total",
                "Bytes of batches appended as leader.",
            )?,
            appended_batches: counter("wharf_storage_appended_batches_total", "Batches appended as leader.")?,
            fetched_records: counter("wharf_gateway_fetched_records_total", "Records sent to readers.")?,
            flushes: counter("wharf_log_flushes_total", "Flushes of logs to stable storage.")?,
            flush_seconds: register(&registry, Histogram::with_opts(flush_opts)?)?,
            corruptions: counter("wharf_log_corruptions_total", "Damaged ranges met by recovery or a read.")?,
            group_lag_records: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("wharf_group_lag_records", "Unread records of a group on a topic."),
                    &["group", "topic"],
                )?,
            )?,
            group_lag_seconds: register(
                &registry,
                GaugeVec::new(
                    Opts::new("wharf_group_lag_seconds", "Age of a group's oldest unread record on a topic."),
                    &["group", "topic"],
                )?,
            )?,
            topic_bytes: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("wharf_log_size_bytes", "Bytes of a topic's segments."),
                    &["topic"],
                )?,
            )?,
            gauges: Gauges {
                disk_total_bytes: gauge(
                    "wharf_disk_total_bytes",
                    "Size of the data directory's file system.",
                )?,
                disk_available_bytes: gauge(
                    "wharf_disk_available_bytes",
                    "What can still be written there.",
                )?,
                disk_reserve_bytes: gauge(
                    "wharf_disk_reserve_bytes",
                    "What is kept back: produce is refused below.",
                )?,
                storage_full: gauge(
                    "wharf_storage_full",
                    "1 while produce is refused for the disk reserve.",
                )?,
                log_bytes: gauge("wharf_storage_log_bytes", "Bytes of all segments of the node.")?,
                partitions: gauge("wharf_storage_partitions", "Partitions that the node serves.")?,
                tail_cache_bytes: gauge(
                    "wharf_storage_tail_cache_bytes",
                    "Bytes of recent batches in memory.",
                )?,
                produce_buffer_bytes: gauge(
                    "wharf_gateway_produce_buffer_bytes",
                    "Bytes of unanswered records.",
                )?,
                resident_bytes: gauge("process_resident_memory_bytes", "Memory of the process.")?,
            },
            registry: registry.clone(),
        };
        Ok(Arc::new(metrics))
    }

    /// Begins to count a call.
    pub(crate) fn rpc(&self, path: &str) -> RpcMetrics {
        let method = self.methods.get(path).unwrap_or(&self.other).clone();
        method.requests.inc();
        method.in_flight.inc();
        RpcMetrics { method, errors: self.rpc_errors.clone(), finished: false }
    }

    pub(crate) fn appended(&self, records: u64, bytes: usize) {
        self.appended_records.inc_by(records);
        self.appended_bytes.inc_by(bytes as u64);
        self.appended_batches.inc();
    }

    pub(crate) fn fetched(&self, records: usize) {
        self.fetched_records.inc_by(records as u64);
    }

    pub(crate) fn flushed(&self, took: Duration) {
        self.flushes.inc();
        self.flush_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn corruption_found(&self) {
        self.corruptions.inc();
    }

    /// Replaces what is shown of all groups.
    pub(crate) fn group_lag(&self, lags: &[TopicLag]) {
        self.group_lag_records.reset();
        self.group_lag_seconds.reset();
        for lag in lags {
            let labels = [lag.group.as_str(), lag.topic.as_str()];
            self.group_lag_records.with_label_values(&labels).set(lag.records.cast_signed());
            self.group_lag_seconds.with_label_values(&labels).set(lag.seconds);
        }
    }

    /// Replaces what is shown of all topics.
    pub(crate) fn topic_sizes<'a>(&self, sizes: impl Iterator<Item = (&'a str, u64)>) {
        self.topic_bytes.reset();
        for (topic, bytes) in sizes {
            self.topic_bytes.with_label_values(&[topic]).set(bytes.cast_signed());
        }
    }

    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    /// If they cannot be encoded.
    pub(crate) fn encode(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_distinct_and_calls_are_counted() {
        let metrics = ServerMetrics::new().unwrap();
        metrics.rpc("/wharf.v1.BrokerService/Produce").finished(Code::NotFound, Duration::from_millis(1));
        drop(metrics.rpc("/no.such/Method"));
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        assert!(text.contains("wharf_rpc_errors_total{code=\"NOT_FOUND\",method=\"Produce\"} 1"), "{text}");
        assert!(text.contains("wharf_rpc_in_flight{method=\"other\"} 0"), "{text}");
    }
}
