//! Rules about services and RPCs.

use std::collections::BTreeMap;

use protox::prost_reflect::prost_types::FileDescriptorSet;

use super::context::{Context, path, tag};
use super::names::is_pascal;
use crate::report::Report;

/// Checks the services of one file.
pub(super) fn check(context: &mut Context<'_>) {
    for (index, service) in context.file.service.iter().enumerate() {
        let at = path(&[], tag::FILE_SERVICE, index);
        let service_name = service.name();
        if !is_pascal(service_name) {
            context.error(&at, "SERVICE_PASCAL_CASE", format!("{service_name} must be PascalCase"));
        }
        if !service_name.ends_with("Service") {
            context.error(&at, "SERVICE_SUFFIX", format!("{service_name} must end with Service"));
        }
        for (index, method) in service.method.iter().enumerate() {
            let at = path(&at, tag::SERVICE_METHOD, index);
            let name = method.name();
            if !is_pascal(name) {
                context.error(&at, "RPC_PASCAL_CASE", format!("{name} must be PascalCase"));
            }
            let sides = [
                ("RPC_REQUEST_STANDARD_NAME", method.input_type(), "Request"),
                ("RPC_RESPONSE_STANDARD_NAME", method.output_type(), "Response"),
            ];
            for (rule, type_name, suffix) in sides {
                let package = context.file.package();
                let allowed = [
                    format!(".{package}.{name}{suffix}"),
                    format!(".{package}.{service_name}{name}{suffix}"),
                ];
                if !allowed.iter().any(|allowed| allowed == type_name) {
                    context.error(&at, rule, format!("{name} must use {name}{suffix}, not {type_name}"));
                }
            }
        }
    }
}

/// No message is the request or the response of two RPCs.
pub(super) fn check_unique(set: &FileDescriptorSet, report: &mut Report) {
    let mut users: BTreeMap<&str, String> = BTreeMap::new();
    for file in set.file.iter().filter(|file| file.package().starts_with("wharf.")) {
        for service in &file.service {
            for method in &service.method {
                let user = format!("{}.{}", service.name(), method.name());
                for type_name in [method.input_type(), method.output_type()] {
                    if let Some(other) = users.insert(type_name, user.clone()) {
                        report.error(
                            format!("{}:1", file.name()),
                            format!("RPC_REQUEST_RESPONSE_UNIQUE: {user} and {other} both use {type_name}"),
                        );
                    }
                }
            }
        }
    }
}
