#!/usr/bin/env bash
# Runs the fuzz targets of fuzz/ one after another, each for some seconds, on a nightly toolchain (libFuzzer needs it).
# New inputs stay in fuzz/corpus, crashes in fuzz/artifacts.
#
# usage: scripts/fuzz.sh SECONDS [TARGET …]   (all targets by default)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET …]}
shift
cargo_fuzz_version=0.13.2

if ! command -v cargo-fuzz >/dev/null 2>&1; then
  echo "Installing cargo-fuzz once into $WHARF_CACHE_DIR/tools" >&2
  env -u CARGO_TARGET_DIR cargo install --quiet --locked --root "$WHARF_CACHE_DIR/tools" --version "$cargo_fuzz_version" cargo-fuzz
fi
if ! rustup run nightly rustc --version >/dev/null 2>&1; then
  echo "Installing the nightly toolchain, which libFuzzer's instrumentation needs" >&2
  rustup toolchain install nightly --profile minimal
fi

export CARGO_TARGET_DIR="$WHARF_CACHE_DIR/fuzz-target"
if [ ! -d fuzz/corpus ]; then
  (cd fuzz && cargo +nightly run --quiet --example seeds)
fi
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
for target in "${targets[@]}"; do
  echo "==> $target for $seconds s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048
done
