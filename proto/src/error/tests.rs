#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::*;
use crate::google_rpc;
use crate::v1::ErrorReason;

fn every_reason() -> impl Iterator<Item = ErrorReason> {
    (0..).map_while(|number| ErrorReason::try_from(number).ok())
}

/// As a server would send it and a client would see it, through real headers.
fn over_the_wire(status: &Status) -> Status {
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    Status::from_header_map(&headers).unwrap()
}

fn full(reason: ErrorReason) -> ApiError {
    ApiError::new(reason, "topic \"clicks\": größer als erlaubt, try 1 %")
        .with_metadata("limit", 1_048_576)
        .with_metadata("size", 2_000_000)
        .with_field_violation("records[0].value", "too large")
        .with_retry_after(Duration::from_millis(1500))
        .with_applied(Applied::Some("0:17,2:5".to_owned()))
}

#[test]
fn every_reason_round_trips_through_a_status_and_a_message() {
    assert_eq!(every_reason().count(), 39);
    for reason in every_reason() {
        for error in [full(reason), ApiError::new(reason, "short")] {
            let status = over_the_wire(&error.clone().into_status());
            assert_eq!(ApiError::from_status(&status).as_ref(), Some(&error));
            assert_eq!(ApiError::from_rpc_status(&error.to_rpc_status()), Some(error));
        }
    }
}

#[test]
fn every_reason_has_a_code_and_its_name_reads_back() {
    for reason in every_reason().skip(1) {
        assert!(!matches!(code_of(reason), Code::Ok | Code::Unknown | Code::Internal), "{reason:?}");
        assert_eq!(reason_from_name(reason_name(reason)), Some(reason));
    }
    assert_eq!(reason_name(ErrorReason::TopicNotFound), "TOPIC_NOT_FOUND");
    assert_eq!(code_of(ErrorReason::DataCorrupted), Code::DataLoss);
}

#[test]
fn an_independent_decoder_reads_the_details() {
    let status = over_the_wire(&full(ErrorReason::RecordTooLarge).into_status());
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("wharf", "RECORD_TOO_LARGE"));
    assert_eq!(info.metadata["limit"], "1048576");
    assert_eq!(info.metadata["applied"], "some");
    assert_eq!(info.metadata["positions"], "0:17,2:5");
    let bad = status.get_details_bad_request().unwrap();
    assert_eq!(bad.field_violations[0].field, "records[0].value");
    assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_millis(1500)));
}

#[test]
fn trailers_say_the_same_in_ascii() {
    let error = ApiError::new(ErrorReason::Overloaded, "busy")
        .with_applied(Applied::None)
        .with_retry_after(Duration::from_micros(1_001));
    let status = over_the_wire(&error.into_status());
    let text = |name| status.metadata().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(text("wharf-reason"), Some("OVERLOADED"));
    assert_eq!(text("wharf-applied"), Some("none"));
    assert_eq!(text("wharf-retry-after-ms"), Some("2"));
    assert_eq!(text("grpc-retry-pushback-ms"), Some("2"));
}

#[test]
fn a_partial_write_stops_retries_that_would_write_twice() {
    let error = ApiError::new(ErrorReason::QuotaExceeded, "quota").with_applied(Applied::Some("0:1".into()));
    let status = error.into_status();
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    assert_eq!(status.metadata().get("wharf-retry-after-ms").unwrap(), "1000");
}

#[test]
fn trailers_are_enough_when_the_details_are_lost() {
    let sent = full(ErrorReason::QuotaExceeded).into_status();
    let stripped = Status::with_metadata(sent.code(), sent.message(), sent.metadata().clone());
    let read = ApiError::from_status(&stripped).unwrap();
    assert_eq!(read.reason, ErrorReason::QuotaExceeded);
    assert_eq!(read.applied, Some(Applied::Some(String::new())));
    assert_eq!(read.retry_after, Some(Duration::from_millis(1500)));
}

#[test]
fn details_never_exceed_their_limit() {
    let mut error = full(ErrorReason::InvalidRequest);
    error.message = "ß".repeat(10_000);
    for number in 0..5_000 {
        error = error.with_field_violation(format!("records[{number}].key"), "x".repeat(50));
    }
    for _ in 0..100 {
        error = error.with_metadata("long", "v".repeat(500));
    }
    error.applied = Some(Applied::Some("1:2,".repeat(5_000)));
    let status = over_the_wire(&error.into_status());
    assert!(status.details().len() <= DETAILS_BYTES_MAX, "{}", status.details().len());
    assert!(status.message().len() <= MESSAGE_BYTES_MAX);
    let read = ApiError::from_status(&status).unwrap();
    assert_eq!(read.applied, Some(Applied::Unknown), "a list that does not fit must not be cut");
    assert_eq!(status.metadata().get("wharf-applied").unwrap(), "unknown");
}

#[test]
fn field_violations_that_fit_are_kept() {
    let mut error = ApiError::invalid("records[0].key", "set twice");
    assert_eq!(error.message, "records[0].key: set twice");
    for number in 1..1_000 {
        error = error.with_field_violation(format!("records[{number}].key"), "set twice");
    }
    let read = ApiError::from_rpc_status(&error.to_rpc_status()).unwrap();
    assert!((10..1_000).contains(&read.field_violations.len()), "{}", read.field_violations.len());
    assert_eq!(read.field_violations[0], ("records[0].key".to_owned(), "set twice".to_owned()));
}

#[test]
fn foreign_and_broken_statuses_are_not_ours() {
    assert_eq!(ApiError::from_status(&Status::unavailable("connection reset")), None);
    let garbage = Status::with_details(Code::Internal, "x", bytes::Bytes::from_static(&[0xff; 40]));
    assert_eq!(ApiError::from_status(&garbage), None);
    let mut foreign = full(ErrorReason::Timeout).to_rpc_status();
    let info = google_rpc::ErrorInfo { domain: "else.example".into(), ..Default::default() };
    foreign.details[0].value = prost::Message::encode_to_vec(&info);
    assert_eq!(ApiError::from_rpc_status(&foreign), None);
}

#[test]
fn a_reason_of_a_newer_server_keeps_code_and_name() {
    let info = google_rpc::ErrorInfo {
        reason: "TOO_SHINY".into(),
        domain: DOMAIN.into(),
        metadata: Default::default(),
    };
    let status = google_rpc::Status {
        code: Code::Aborted as i32,
        message: "m".into(),
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
            value: prost::Message::encode_to_vec(&info),
        }],
    };
    let read = ApiError::from_rpc_status(&status).unwrap();
    assert_eq!((read.code, read.reason), (Code::Aborted, ErrorReason::Unspecified));
    assert_eq!(read.metadata_value("reason"), Some("TOO_SHINY"));
}

#[test]
fn applied_is_only_filled_in_where_nothing_was_said() {
    let error = ApiError::new(ErrorReason::Timeout, "late").or_applied(Applied::None);
    assert_eq!(error.applied, Some(Applied::Unknown));
    let error = ApiError::new(ErrorReason::TopicNotFound, "no").or_applied(Applied::None);
    assert_eq!(error.applied, Some(Applied::None));
}
