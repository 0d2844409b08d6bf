//! What a person sees when the server is up.

use std::net::SocketAddr;
use std::path::Path;

/// Says where the server listens and what to try next.
pub(super) fn print(listen: SocketAddr, ops: SocketAddr, data_dir: &Path) {
    println!("{}", text(&program(), listen, ops, data_dir));
}

/// How a person calls this program: by its name where the path has it, else by where it is.
fn program() -> String {
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("wharf").is_file()));
    let here = std::env::current_exe().ok().filter(|_| !on_path);
    here.map_or_else(|| "wharf".to_owned(), |exe| exe.display().to_string())
}

fn text(program: &str, listen: SocketAddr, ops: SocketAddr, data_dir: &Path) -> String {
    let endpoint = if listen.port() == 7070 { String::new() } else { format!(" --endpoint {listen}") };
    format!(
        "
  Wharf {version} is listening on {listen}
  metrics and probes on http://{ops}, data in {data_dir}

  Try this in another terminal:
    {program}{endpoint} topic create hello --partitions 3
    echo 'u1=world' | {program}{endpoint} produce hello --key-separator =
    {program}{endpoint} consume hello --from earliest --until end --format '%k %v\\n'
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
        let other = text("wharf", SocketAddr::from(([127, 0, 0, 1], 9000)), ops, Path::new("d"));
        assert!(other.contains("wharf --endpoint 127.0.0.1:9000 topic create"), "{other}");
        let usual = text("wharf", SocketAddr::from(([127, 0, 0, 1], 7070)), ops, Path::new("d"));
        assert!(usual.contains("    wharf topic create"), "{usual}");
    }
}
