//! Rules about the names of messages, fields and enums.

use super::context::{Context, path, tag, written_oneofs};

/// Checks one file.
pub(super) fn check(context: &mut Context<'_>) {
    check_messages(context);
    check_enums(context);
}

fn check_messages(context: &mut Context<'_>) {
    for (at, message) in context.messages() {
        if !is_pascal(message.name()) {
            context.error(&at, "MESSAGE_PASCAL_CASE", format!("{} must be PascalCase", message.name()));
        }
        for (index, field) in message.field.iter().enumerate() {
            if !is_lower_snake(field.name()) {
                context.error(
                    &path(&at, tag::MESSAGE_FIELD, index),
                    "FIELD_LOWER_SNAKE_CASE",
                    format!("{} must be lower_snake_case", field.name()),
                );
            }
        }
        for (index, name) in written_oneofs(message) {
            if !is_lower_snake(name) {
                context.error(
                    &path(&at, tag::MESSAGE_ONEOF, index),
                    "ONEOF_LOWER_SNAKE_CASE",
                    format!("{name} must be lower_snake_case"),
                );
            }
        }
    }
}

fn check_enums(context: &mut Context<'_>) {
    for (at, enumeration) in context.enums() {
        let name = enumeration.name();
        if !is_pascal(name) {
            context.error(&at, "ENUM_PASCAL_CASE", format!("{name} must be PascalCase"));
        }
        if enumeration.options.as_ref().is_some_and(|options| options.allow_alias()) {
            context.error(&at, "ENUM_NO_ALLOW_ALIAS", format!("{name} must not have two names for a number"));
        }
        let prefix = format!("{}_", upper_snake(name));
        for (index, value) in enumeration.value.iter().enumerate() {
            let at = path(&at, tag::ENUM_VALUE, index);
            let value_name = value.name();
            if !is_upper_snake(value_name) {
                context.error(
                    &at,
                    "ENUM_VALUE_UPPER_SNAKE_CASE",
                    format!("{value_name} must be UPPER_SNAKE_CASE"),
                );
            }
            if !value_name.starts_with(&prefix) {
                context.error(&at, "ENUM_VALUE_PREFIX", format!("{value_name} must start with {prefix}"));
            }
            if value.number() == 0 && !value_name.ends_with("_UNSPECIFIED") {
                context.error(
                    &at,
                    "ENUM_ZERO_VALUE_SUFFIX",
                    format!("{value_name} is zero and must end with _UNSPECIFIED"),
                );
            }
        }
    }
}

/// Words of small letters and digits, joined by single underscores; a letter first.
pub(super) fn is_lower_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('_').all(|word| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

fn is_upper_snake(name: &str) -> bool {
    !name.chars().any(|c| c.is_ascii_lowercase()) && is_lower_snake(&name.to_ascii_lowercase())
}

/// Letters and digits, a capital first.
pub(super) fn is_pascal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// `ErrorReason` becomes `ERROR_REASON`.
fn upper_snake(name: &str) -> String {
    let mut out = String::new();
    let mut previous_small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && previous_small {
            out.push('_');
        }
        previous_small = !c.is_ascii_uppercase();
        out.push(c.to_ascii_uppercase());
    }
    out
}
