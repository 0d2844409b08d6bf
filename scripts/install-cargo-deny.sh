#!/usr/bin/env bash
# Installs the pinned cargo-deny into the cache folder, where it is not there yet (a few minutes, once).
#
# usage: scripts/install-cargo-deny.sh
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
source scripts/env.sh
tools="$WHARF_CACHE_DIR/tools"
if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" = "cargo-deny $version" ]; then
  exit 0
fi
echo "Installing cargo-deny $version once into $tools (a few minutes)" >&2
# Its dependencies are no part of the workspace: they stay out of the shared target folder.
env -u CARGO_TARGET_DIR cargo install --quiet --locked --root "$tools" --version "$version" cargo-deny
