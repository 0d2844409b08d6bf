//! What a person sees when the server is up.

use std::net::SocketAddr;
use std::path::Path;

/// Says where the server listens and what to try next.
pub(super) fn print(listen: SocketAddr, ops: SocketAddr, data_dir: &Path) {
    println!("{}", text(listen, ops, data_dir));
}

fn text(listen: SocketAddr, ops: SocketAddr, data_dir: &Path) -> String {
    let endpoint = if listen.port() == 7070 { String::new() } else { format!(" --endpoint {listen}") };
    format!(
        "
  Wharf {version} is listening on {listen}
  metrics and probes on http://{ops}, data in {data_dir}

  Try this in another terminal:
    wharf{endpoint} topic create clicks --partitions 3
    echo 'u1=hello' | wharf{endpoint} produce clicks --key-separator =
    wharf{endpoint} consume clicks --from earliest --until end --format '%k %v\\n'
  or without the wharf program:
    grpcurl -plaintext {listen} list wharf.v1.BrokerService

  Ctrl-C stops it; what was acknowledged is on disk.
",
        version = env!("CARGO_PKG_VERSION"),
        data_dir = data_dir.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_stands_in_the_commands() {
        let ops = SocketAddr::from(([127, 0, 0, 1], 7080));
        let other = text(SocketAddr::from(([127, 0, 0, 1], 9000)), ops, Path::new("d"));
        assert!(other.contains("wharf --endpoint 127.0.0.1:9000 topic create"), "{other}");
        let usual = text(SocketAddr::from(([127, 0, 0, 1], 7070)), ops, Path::new("d"));
        assert!(usual.contains("    wharf topic create"), "{usual}");
    }
}
