# The build's environment, sourced (by bash) by the Makefile's recipes and by .ci/run: one cache folder outside the
# checkout for the RocksDB archive, dependency builds and tools, so that they survive fresh clones.
# Set WHARF_CACHE_DIR to put it elsewhere.
export WHARF_CACHE_DIR="${WHARF_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$WHARF_CACHE_DIR/target}"
export PATH="$WHARF_CACHE_DIR/tools/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
# Debian's libclang1 comes without the compiler's own headers; bindgen borrows gcc's.
if command -v gcc >/dev/null 2>&1; then
  export BINDGEN_EXTRA_CLANG_ARGS="${BINDGEN_EXTRA_CLANG_ARGS:--I$(gcc -print-file-name=include)}"
fi
# The archive of scripts/build-rocksdb.sh, where it has been built: of the version that Cargo.lock names, the newest.
if [ -z "${ROCKSDB_LIB_DIR:-}" ]; then
  wharf_lock="$(dirname "${BASH_SOURCE[0]:-scripts/env.sh}")/../Cargo.lock"
  wharf_rocksdb_version=$(sed -n '/^name = "librocksdb-sys"$/{n;s/^version = "\(.*\)"$/\1/p;}' "$wharf_lock")
  for archive in "$WHARF_CACHE_DIR/rocksdb-$wharf_rocksdb_version"-*/librocksdb.a; do
    if [ -f "$archive" ] && { [ -z "${ROCKSDB_LIB_DIR:-}" ] || [ "$archive" -nt "$ROCKSDB_LIB_DIR/librocksdb.a" ]; }; then
      ROCKSDB_LIB_DIR=$(dirname "$archive")
      export ROCKSDB_LIB_DIR ROCKSDB_STATIC=1
    fi
  done
  unset wharf_lock wharf_rocksdb_version archive
fi
