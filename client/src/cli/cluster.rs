//! `wharf cluster`.

use clap::Subcommand;
use serde_json::json;
use wharf_proto::v1;

use super::Globals;
use super::error::CliError;
use super::json::{JsonStyle, to_json};
use super::output::{Align, Grid, bytes_text, facts, or_dash};
use super::time::rfc3339_wire;

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum ClusterVerb {
    /// Show nodes, versions, disks and the limits of the server
    Info,
}

pub(super) async fn run(verb: ClusterVerb, globals: &Globals) -> Result<(), CliError> {
    match verb {
        ClusterVerb::Info => info(globals).await,
    }
}

async fn info(globals: &Globals) -> Result<(), CliError> {
    let client = globals.connect().await?;
    let request = client.request(v1::GetServerInfoRequest {});
    let server = client.decode(client.admin().get_server_info(request).await)?;
    let request = client.request(v1::DescribeClusterRequest {});
    let cluster = client.decode(client.admin().describe_cluster(request).await)?;
    globals.output().print(
        || {
            Ok(json!({
                "server": to_json("GetServerInfoResponse", &server, JsonStyle::Result)?,
                "cluster": to_json("DescribeClusterResponse", &cluster, JsonStyle::Result)?,
            }))
        },
        |on_terminal| table(&server, &cluster, on_terminal),
    )
}

fn table(
    server: &v1::GetServerInfoResponse,
    cluster: &v1::DescribeClusterResponse,
    on_terminal: bool,
) -> String {
    let mut pairs = vec![
        ("Cluster", cluster.cluster_id.clone()),
        ("Server version", server.version.clone()),
        ("Server time", rfc3339_wire(server.server_time_ms)),
        ("Controller", or_dash(cluster.controller_node_id)),
        ("Features", if server.features.is_empty() { "-".to_owned() } else { server.features.join(", ") }),
    ];
    if let Some(limits) = &server.limits {
        let size = |bytes: i64| bytes_text(u64::try_from(bytes).unwrap_or(0));
        pairs.extend([
            ("Largest record", size(limits.record_bytes_max)),
            ("Largest produce request", size(limits.produce_request_bytes_max)),
            ("Largest response", size(limits.response_bytes_max)),
        ]);
    }
    let mut text = facts(&pairs);
    text.push('\n');
    text.push_str(&nodes(&cluster.nodes, on_terminal));
    text
}

fn nodes(nodes: &[v1::Node], on_terminal: bool) -> String {
    let mut grid = Grid::new(&[
        ("NODE", Align::Right),
        ("ROLES", Align::Left),
        ("STATE", Align::Left),
        ("RACK", Align::Left),
        ("VERSION", Align::Left),
        ("LEADS", Align::Right),
        ("STORES", Align::Right),
        ("LOGS", Align::Right),
        ("DISK FREE", Align::Right),
        ("DISK", Align::Right),
    ]);
    for node in nodes {
        let roles: Vec<&str> = node.roles().map(role_text).collect();
        let size =
            |bytes: Option<i64>| or_dash(bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(bytes_text));
        grid.row(vec![
            or_dash(node.node_id),
            roles.join(","),
            state_text(node.state()).to_owned(),
            if node.rack.is_empty() { "-".to_owned() } else { node.rack.clone() },
            node.version.clone(),
            or_dash(node.leaders),
            or_dash(node.replicas),
            size(node.log_bytes),
            size(node.disk_available_bytes),
            size(node.disk_total_bytes),
        ]);
    }
    grid.render(on_terminal)
}

fn role_text(role: v1::NodeRole) -> &'static str {
    match role {
        v1::NodeRole::Unspecified => "unknown",
        v1::NodeRole::Controller => "controller",
        v1::NodeRole::Storage => "storage",
        v1::NodeRole::Gateway => "gateway",
    }
}

fn state_text(state: v1::NodeState) -> &'static str {
    match state {
        v1::NodeState::Unspecified => "unknown",
        v1::NodeState::Alive => "alive",
        v1::NodeState::Fenced => "fenced",
        v1::NodeState::Stopping => "stopping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_show_roles_and_disks() {
        let node = v1::Node {
            node_id: Some(1),
            roles: vec![v1::NodeRole::Controller.into(), v1::NodeRole::Storage.into()],
            state: v1::NodeState::Alive.into(),
            version: "0.1.0".into(),
            disk_total_bytes: Some(1 << 40),
            disk_available_bytes: Some(1 << 39),
            log_bytes: Some(1 << 20),
            replicas: Some(12),
            leaders: Some(12),
            ..Default::default()
        };
        assert_eq!(
            nodes(&[node], false),
            "NODE  ROLES               STATE  RACK  VERSION  LEADS  STORES     LOGS  DISK FREE     DISK\n\
             ───────────────────────────────────────────────────────────────────────────────────────────\n   \
             1  controller,storage  alive  -     0.1.0       12      12  1.0 MiB  512.0 GiB  1.0 TiB\n"
        );
    }
}
