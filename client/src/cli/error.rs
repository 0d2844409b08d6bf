//! Why a verb failed: one line for people, a hint, an exit code.

use std::io;

use wharf_proto::v1::ErrorReason;

use super::output::count_text;
use crate::error::ClientError;
use crate::producer::RequestFailure;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A call failed.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The topic to write or read is not there.
    #[error("topic `{topic}` does not exist")]
    NoTopic {
        /// Its name.
        topic: String,
    },
    /// A request of a stream failed for good.
    #[error("line {first_line}: {failure}; {acknowledged} records before it were written")]
    Produce {
        /// Line of the request's first record.
        first_line: u64,
        /// Records that were acknowledged.
        acknowledged: u64,
        /// Topic.
        topic: String,
        /// What failed.
        failure: Box<RequestFailure>,
    },
    /// A partition could not be read further.
    #[error("partition {partition} of `{topic}`: {source}")]
    Fetch {
        /// Topic.
        topic: String,
        /// Partition.
        partition: i32,
        /// Why.
        source: ClientError,
    },
    /// A line has no key separator.
    #[error("line {line} has no key separator {separator:?}")]
    NoSeparator {
        /// Its number, from 1.
        line: u64,
        /// The separator.
        separator: String,
    },
    /// A line is too long to be a record.
    #[error("line {line} has more than {bytes_max} bytes, the most that a record may have")]
    LineTooLong {
        /// Its number, from 1.
        line: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The topic has no such partition.
    #[error("topic `{topic}` has {}, there is no partition {partition}", count_text(*count as u64, "partition"))]
    NoPartition {
        /// Topic.
        topic: String,
        /// Its number of partitions.
        count: usize,
        /// What was asked for.
        partition: i32,
    },
    /// Arguments that do not fit together, which clap cannot see.
    #[error("{problem}")]
    Usage {
        /// What is wrong.
        problem: &'static str,
    },
    /// Reading or writing failed.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried, as in "open x.tsv".
        what: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Nobody reads the output any more. Not an error to be told.
    #[error("the reader of the output has gone")]
    BrokenPipe,
    /// The question before a risky act was not answered with yes.
    #[error("not done: {what} was not confirmed")]
    NotConfirmed {
        /// The act.
        what: String,
    },
    /// A result could not be put into JSON or YAML.
    #[error("could not print the result: {problem}")]
    Render {
        /// Why.
        problem: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// What failed while `what` was done, with a closed pipe told apart.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> CliError {
        if source.kind() == io::ErrorKind::BrokenPipe {
            CliError::BrokenPipe
        } else {
            CliError::Io { what: what.into(), source }
        }
    }

    /// Code of the process; see the table of the module.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::BrokenPipe => 0,
            CliError::NoTopic { .. } | CliError::NoPartition { .. } => 1,
            CliError::Usage { .. } | CliError::NotConfirmed { .. } => 2,
            CliError::NoSeparator { .. }
            | CliError::LineTooLong { .. }
            | CliError::Io { .. }
            | CliError::Render { .. } => 4,
            CliError::Interrupted => 130,
            CliError::Client(error) | CliError::Fetch { source: error, .. } => client_exit_code(error),
            CliError::Produce { failure, .. } => client_exit_code(&failure.error),
        }
    }

    fn client_error(&self) -> Option<&ClientError> {
        match self {
            CliError::Client(error) | CliError::Fetch { source: error, .. } => Some(error),
            CliError::Produce { failure, .. } => Some(&failure.error),
            _ => None,
        }
    }

    /// What follows `error: `.
    #[must_use]
    pub fn line(&self) -> String {
        match self.client_error().and_then(ClientError::api) {
            Some(api) => format!("{self} ({})", api.reason_name()),
            None => self.to_string(),
        }
    }

    /// What follows `hint: `: something that the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            CliError::NoTopic { topic } => {
                Some(format!("create it with `wharf topic create {topic} --partitions 12`"))
            }
            CliError::NoSeparator { .. } => Some(
                "--skip-invalid counts and skips such lines; --key-separator takes escapes as in '\\t'"
                    .into(),
            ),
            CliError::NotConfirmed { .. } => Some("--yes answers the question beforehand".into()),
            CliError::Fetch { topic, partition, source } => {
                fetch_hint(topic, *partition, source).or_else(|| client_hint(source))
            }
            other => other.client_error().and_then(client_hint),
        }
    }
}

fn client_exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Api(_) | ClientError::Foreign { .. } | ClientError::Protocol { .. } => 1,
        ClientError::InvalidEndpoint { .. } => 2,
        ClientError::Unreachable { .. }
        | ClientError::ConnectionLost { .. }
        | ClientError::TimedOut { .. } => 3,
    }
}

fn client_hint(error: &ClientError) -> Option<String> {
    match error {
        ClientError::Unreachable { .. } => Some(
            "start one with `wharf standalone`, or name another with --endpoint or WHARF_ENDPOINT".into(),
        ),
        ClientError::ConnectionLost { .. } => {
            Some("whether the call took effect is unknown; make it again".into())
        }
        ClientError::TimedOut { .. } => Some("--timeout sets the limit".into()),
        ClientError::Foreign { .. } => Some("is there a Wharf broker at --endpoint?".into()),
        ClientError::Api(api) => reason_hint(api.reason),
        ClientError::InvalidEndpoint { .. } | ClientError::Protocol { .. } => None,
    }
}

fn reason_hint(reason: ErrorReason) -> Option<String> {
    let hint = match reason {
        ErrorReason::TopicNotFound => "`wharf topic ls` shows the topics",
        ErrorReason::GroupNotFound => "`wharf group ls` shows the groups",
        ErrorReason::TopicAlreadyExists => "--if-not-exists accepts a topic that is there",
        ErrorReason::GroupNotEmpty => "stop the group's members first, `wharf group describe` shows them",
        ErrorReason::KeyRemapNotAllowed => {
            "--allow-key-remap permits it: keys then go to other partitions than before"
        }
        ErrorReason::StorageFull => "free disk space, shorten retention or delete topics",
        ErrorReason::OffsetOutOfRange => "`wharf topic describe` shows the offsets that are there",
        ErrorReason::Overloaded | ErrorReason::QuotaExceeded => "try again later or send less at once",
        ErrorReason::InvalidConfig => {
            "`wharf topic describe TOPIC --all` shows every name and value of an existing topic"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn fetch_hint(topic: &str, partition: i32, error: &ClientError) -> Option<String> {
    let api = error.api()?;
    match api.reason {
        ErrorReason::OffsetOutOfRange => Some(format!(
            "offsets {} to {} are there; --from earliest, or --on-out-of-range earliest to go on by itself",
            api.metadata_value("log_start_offset").unwrap_or("?"),
            api.metadata_value("high_watermark").unwrap_or("?"),
        )),
        ErrorReason::DataCorrupted => Some(format!(
            "readers pass over the range after `wharf topic skip-damaged {topic} --partition {partition} --from OFFSET \
             --to {}`",
            api.metadata_value("next_good").unwrap_or("OFFSET"),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use wharf_proto::error::ApiError;

    use super::*;

    #[test]
    fn a_missing_broker_says_how_to_start_one() {
        let error = CliError::from(ClientError::Unreachable {
            endpoint: "localhost:7070".into(),
            cause: "Connection refused (os error 111)".into(),
        });
        assert_eq!(error.line(), "no broker at localhost:7070: Connection refused (os error 111)");
        assert!(error.hint().unwrap().starts_with("start one with `wharf standalone`"));
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn the_reason_stands_after_the_message() {
        let api = ApiError::new(ErrorReason::TopicNotFound, "there is no topic \"t\"");
        let error = CliError::from(ClientError::Api(Box::new(api)));
        assert_eq!(error.line(), "there is no topic \"t\" (TOPIC_NOT_FOUND)");
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn damage_says_how_to_pass_over_it() {
        let api = ApiError::new(ErrorReason::DataCorrupted, "damaged").with_metadata("next_good", 42);
        let source = ClientError::Api(Box::new(api));
        let error = CliError::Fetch { topic: "t".into(), partition: 3, source };
        assert!(error.hint().unwrap().contains("skip-damaged t --partition 3 --from OFFSET --to 42"));
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let error = CliError::io("write", io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.exit_code(), 0);
    }
}
