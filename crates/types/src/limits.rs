//! Limits of the public contract. `GetServerInfo` tells all of them to clients.

/// Longest name of a topic, group, member or transactional id, in bytes.
pub const NAME_BYTES_MAX: usize = 249;
/// Longest header name, in bytes of UTF-8; the shortest is 1.
pub const HEADER_NAME_BYTES_MAX: usize = 255;
/// Most headers of one record.
pub const HEADERS_PER_RECORD_MAX: usize = 1_000;
/// Default of a topic's `max.message.bytes`.
pub const MESSAGE_BYTES_DEFAULT: u32 = 1 << 20;
/// Largest `max.message.bytes` of a topic: 2.5 MiB.
pub const MESSAGE_BYTES_MAX: u32 = 5 << 19;
/// Largest produce request, in bytes of its encoding.
pub const PRODUCE_REQUEST_BYTES_MAX: usize = 4 << 20;
/// Largest response or stream frame that Wharf sends, in bytes of its encoding.
pub const RESPONSE_BYTES_MAX: usize = 3 << 20;
/// What a record counts beside its key, value and headers, in bytes, for every limit, credit and `max_bytes`.
pub const RECORD_OVERHEAD_BYTES: usize = 64;
/// Longest metadata of a committed offset, in bytes.
pub const COMMIT_METADATA_BYTES_MAX: usize = 4 << 10;
/// Most partitions of one topic.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 16_384;
/// Largest replication factor.
pub const REPLICATION_FACTOR_MAX: u32 = 15;
/// Producer ids are below this, so that JSON numbers hold them exactly.
pub const PRODUCER_ID_END: u64 = 1 << 53;
/// Requests that a partition remembers of each client's producer (R10).
pub const PRODUCER_WINDOW: usize = 128;
/// Requests that a partition remembers of a gateway's own producer id (R10).
pub const GATEWAY_PRODUCER_WINDOW: usize = 16;
/// Most producers that one partition remembers (R10).
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;
/// Most unanswered requests of one producer on one stream, and for each gateway and partition (R10).
pub const PRODUCER_UNANSWERED_MAX: usize = 64;
/// Longest long poll, in milliseconds.
pub const MAX_WAIT_MS: u32 = 30_000;
/// Deadline of a unary call whose client set none, in milliseconds.
pub const DEADLINE_DEFAULT_MS: u32 = 30_000;
/// Default of a fetch's `max_bytes`.
pub const FETCH_BYTES_DEFAULT: u32 = 1 << 20;
/// Partitions of each internal topic; never changes.
pub const INTERNAL_TOPIC_PARTITIONS: u32 = 16;
/// The internal topic of group offsets.
pub const OFFSETS_TOPIC: &str = "__offsets";
/// The internal topic of transactions.
pub const TRANSACTIONS_TOPIC: &str = "__transactions";
/// Default and largest page of a list.
pub const PAGE_SIZE_DEFAULT: u32 = 100;
/// Largest page of a list.
pub const PAGE_SIZE_MAX: u32 = 1_000;
/// Most records in one produce request, so that its batch stays within its size whatever the records are.
pub const RECORDS_PER_REQUEST_MAX: usize = 65_536;
/// Most offsets in one commit request.
pub const OFFSETS_PER_COMMIT_MAX: usize = 10_000;
