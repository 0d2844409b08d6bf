//! buf's COMMENTS rules: everything that a reader can name is explained right before it.

use super::context::{Context, path, tag, written_oneofs};

/// Checks one file.
pub(super) fn check(context: &mut Context<'_>) {
    for (at, message) in context.messages() {
        require(context, &at, "COMMENT_MESSAGE", message.name());
        for (index, field) in message.field.iter().enumerate() {
            require(context, &path(&at, tag::MESSAGE_FIELD, index), "COMMENT_FIELD", field.name());
        }
        for (index, name) in written_oneofs(message) {
            require(context, &path(&at, tag::MESSAGE_ONEOF, index), "COMMENT_ONEOF", name);
        }
    }
    for (at, enumeration) in context.enums() {
        require(context, &at, "COMMENT_ENUM", enumeration.name());
        for (index, value) in enumeration.value.iter().enumerate() {
            require(context, &path(&at, tag::ENUM_VALUE, index), "COMMENT_ENUM_VALUE", value.name());
        }
    }
    for (index, service) in context.file.service.iter().enumerate() {
        let at = path(&[], tag::FILE_SERVICE, index);
        require(context, &at, "COMMENT_SERVICE", service.name());
        for (index, method) in service.method.iter().enumerate() {
            require(context, &path(&at, tag::SERVICE_METHOD, index), "COMMENT_RPC", method.name());
        }
    }
}

fn require(context: &mut Context<'_>, at: &[i32], rule: &str, name: &str) {
    if !context.is_commented(at) {
        context.error(at, rule, format!("{name} needs a comment"));
    }
}
