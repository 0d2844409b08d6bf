//! Messages of the API as JSON, by their descriptors: no field has to be named twice.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use super::error::CliError;

static POOL: LazyLock<Result<DescriptorPool, String>> = LazyLock::new(|| {
    DescriptorPool::decode(wharf_proto::FILE_DESCRIPTOR_SET).map_err(|error| error.to_string())
});

/// Two ways to write a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonStyle {
    /// Results: all fields that have a value, also zeros and empty lists; 64-bit numbers as numbers.
    Result,
    /// Requests for grpcurl: the canonical mapping, only what differs from the default.
    Request,
}

/// A message as JSON with the field names of the `.proto` files. `name` is its name within `wharf.v1`.
///
/// # Errors
/// [`CliError::Render`] if the message is none of this version's.
pub(super) fn to_json<M: Message>(name: &str, message: &M, style: JsonStyle) -> Result<Value, CliError> {
    let render = |problem: String| CliError::Render { problem };
    let pool = POOL.as_ref().map_err(|problem| render(problem.clone()))?;
    let full_name = format!("wharf.v1.{name}");
    let descriptor =
        pool.get_message_by_name(&full_name).ok_or_else(|| render(format!("no message {full_name}")))?;
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(|error| render(error.to_string()))?;
    let options = match style {
        JsonStyle::Result => SerializeOptions::new()
            .use_proto_field_name(true)
            .stringify_64_bit_integers(false)
            .skip_default_fields(false),
        JsonStyle::Request => SerializeOptions::new().use_proto_field_name(true),
    };
    dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|error| render(error.to_string()))
}

/// A request as grpcurl takes it, on one line.
///
/// # Errors
/// [`CliError::Render`] if the message is none of this version's.
pub(super) fn request_text<M: Message>(name: &str, message: &M) -> Result<String, CliError> {
    Ok(to_json(name, message, JsonStyle::Request)?.to_string())
}

/// [`to_json`] for a gathered list: without the token of the next page, which there is none of.
pub(super) fn to_json_list<M: Message>(name: &str, message: &M) -> Result<Value, CliError> {
    let mut value = to_json(name, message, JsonStyle::Result)?;
    if let Some(object) = value.as_object_mut() {
        object.remove("next_page_token");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;
    use wharf_proto::v1;

    use super::*;

    #[test]
    fn results_have_all_fields_and_plain_numbers() {
        let message = v1::OffsetReset {
            topic: "t".into(),
            partition: Some(0),
            before_offset: None,
            after_offset: Some(7),
        };
        assert_eq!(
            to_json("OffsetReset", &message, JsonStyle::Result).unwrap(),
            json!({"topic": "t", "partition": 0, "after_offset": 7})
        );
    }

    #[test]
    fn requests_follow_the_canonical_mapping() {
        let message = v1::FetchRequest {
            topic: "t".into(),
            position: Some(v1::fetch_request::Position::Offset(0)),
            text: true,
            ..Default::default()
        };
        assert_eq!(
            to_json("FetchRequest", &message, JsonStyle::Request).unwrap(),
            json!({"topic": "t", "offset": "0", "text": true})
        );
    }
}
