//! Which package may depend on what.
//!
//! * Pure crates reach no runtime, transport, database, consensus or randomness, even transitively.
//! * Only the controller depends on raft; only controller and server on RocksDB.
//! * The client depends on the protocol and the types only, so that it can be published without the server.

use std::collections::BTreeSet;

use super::PURE_CRATES;
use crate::report::Report;
use crate::workspace::{Package, Workspace, cargo, output};

/// What a pure crate must not reach.
const IMPURE: &[&str] =
    &["hyper", "librocksdb-sys", "raft", "rand", "rocksdb", "tokio", "tokio-util", "tonic", "tower"];

/// External packages that only these of ours may name.
const RESERVED: &[(&str, &[&str])] =
    &[("raft", &["wharf-controller"]), ("rocksdb", &["wharf-controller", "wharf-server"])];

/// Of ours, what these packages may name at most.
const OWN_ALLOWED: &[(&str, &[&str])] =
    &[("wharf-client", &["wharf-proto", "wharf-types"]), ("wharf-types", &[]), ("xtask", &[])];

/// Checks the manifests, and for the pure crates what they resolve to.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) -> anyhow::Result<()> {
    check_manifests(&workspace.packages, report);
    for (name, _) in PURE_CRATES {
        if workspace.packages.iter().any(|package| package.name == *name) {
            let arguments = ["tree", "--offline", "--package", name, "--edges", "normal", "--prefix", "none"];
            check_tree(name, &output(&workspace.root, &cargo(), &arguments)?, report);
        }
    }
    Ok(())
}

fn check_manifests(packages: &[Package], report: &mut Report) {
    for package in packages {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
        for dependency in normal {
            let (package, dependency) = (package.name.as_str(), dependency.name.as_str());
            for (reserved, owners) in RESERVED {
                if dependency == *reserved && !owners.contains(&package) {
                    report.error(package, format!("only {} may depend on {reserved}", owners.join(", ")));
                }
            }
            for (owner, allowed) in OWN_ALLOWED {
                let ours = dependency.starts_with("wharf-");
                if package == *owner && ours && !allowed.contains(&dependency) {
                    report.error(package, format!("must not depend on {dependency}"));
                }
            }
        }
    }
}

/// `tree` has one package a line, its name first.
fn check_tree(package: &str, tree: &str, report: &mut Report) {
    let reached: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in IMPURE.iter().filter(|name| reached.contains(*name)) {
        report.error(
            package,
            format!("a pure crate must not reach {name} (cargo tree -p {package} -i {name})"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).into(), kind: kind.map(str::to_owned) })
            .collect();
        Package { name: name.into(), dependencies, targets: Vec::new() }
    }

    #[test]
    fn reserved_and_foreign_packages_are_refused() {
        let mut report = Report::default();
        let packages = [
            package("wharf-server", &[("raft", None), ("rocksdb", None)]),
            package("wharf-client", &[("wharf-types", None), ("wharf-log", None)]),
            package("wharf-client", &[("wharf-log", Some("dev"))]),
        ];
        check_manifests(&packages, &mut report);
        assert_eq!(
            report.errors(),
            [
                "wharf-server: only wharf-controller may depend on raft",
                "wharf-client: must not depend on wharf-log"
            ]
        );
    }

    #[test]
    fn pure_crates_reach_no_runtime() {
        let mut report = Report::default();
        check_tree("wharf-log", "wharf-log v0.1.0 (x)\nbytes v1.0.0\ntokio-macros v2.0.0", &mut report);
        assert!(report.errors().is_empty());
        check_tree("wharf-log", "wharf-log v0.1.0 (x)\ntokio v1.0.0 (*)", &mut report);
        assert_eq!(report.errors().len(), 1);
    }
}
