//! Pages of lists. A token is the last name (or number) of the page before it, marked with the list it belongs to.

use wharf_proto::error::ApiError;
use wharf_types::{limits, murmur2};

/// The page size that a request asks for.
///
/// # Errors
/// `INVALID_REQUEST` for a negative one.
pub(super) fn page_size(asked: i32) -> Result<usize, ApiError> {
    match u32::try_from(asked) {
        Err(_) => Err(ApiError::invalid("page_size", format!("{asked} is negative; 0 means the default"))),
        Ok(0) => Ok(limits::PAGE_SIZE_DEFAULT as usize),
        Ok(size) => Ok(size.min(limits::PAGE_SIZE_MAX) as usize),
    }
}

/// The name of a list under these arguments: a token is good for the same call only.
pub(super) fn list_of(list: &str, arguments: &[&str]) -> String {
    // Names cannot hold a zero byte, so the arguments cannot run into each other.
    format!("{list}-{:08x}", murmur2(arguments.join("\0").as_bytes()))
}

/// The token of the page that follows `last`.
pub(super) fn token(list: &str, last: &str) -> String {
    format!("{list}:{last}")
}

/// What stands in a token; none for the first page.
///
/// # Errors
/// `INVALID_REQUEST` for a token that is not of this list.
pub(super) fn parse<'a>(list: &str, token: &'a str) -> Result<Option<&'a str>, ApiError> {
    if token.is_empty() {
        return Ok(None);
    }
    match token.split_once(':') {
        Some((kind, last)) if kind == list && !last.is_empty() => Ok(Some(last)),
        _ => Err(bad_token()),
    }
}

/// The number in a token; 0 for the first page.
///
/// # Errors
/// `INVALID_REQUEST` for a token that is not of this list.
pub(super) fn parse_number(list: &str, token: &str) -> Result<usize, ApiError> {
    parse(list, token)?.map_or(Ok(0), |last| last.parse().map_err(|_| bad_token()))
}

fn bad_token() -> ApiError {
    ApiError::invalid(
        "page_token",
        "is not a token of this list; send next_page_token as it came, or nothing",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_belong_to_their_list() {
        assert_eq!(parse("topics", &token("topics", "clicks")).unwrap(), Some("clicks"));
        assert_eq!(parse("topics", "").unwrap(), None);
        assert!(parse("groups", &token("topics", "clicks")).is_err());
        assert!(parse_number("members", "members:x").is_err());
        assert_eq!(parse_number("members", "members:7").unwrap(), 7);
    }

    #[test]
    fn page_sizes_are_bounded() {
        assert!(page_size(-1).is_err());
        assert_eq!(page_size(0).unwrap(), 100);
        assert_eq!(page_size(i32::MAX).unwrap(), 1_000);
    }
}
