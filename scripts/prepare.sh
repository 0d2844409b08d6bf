#!/usr/bin/env bash
# Everything that must be there before cargo builds: system packages, the crates of Cargo.lock, the RocksDB archive.
# Quick and silent where all of it is there; progress goes to standard error.
#
# usage: scripts/prepare.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/bootstrap.sh
source scripts/env.sh
cargo fetch --locked
unset ROCKSDB_LIB_DIR ROCKSDB_STATIC
scripts/build-rocksdb.sh "$WHARF_CACHE_DIR" >/dev/null
