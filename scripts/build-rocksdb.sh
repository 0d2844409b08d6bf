#!/usr/bin/env bash
# Builds the RocksDB that the `rocksdb` crate bundles into one static archive, as a unity build:
# the crate's own sources in a few large files instead of 343 small ones. Most of RocksDB's build
# time is the parsing of the same headers, so this takes minutes where the crate's own build takes
# half an hour on two cores. One archive serves debug and release builds alike.
#
# usage: scripts/build-rocksdb.sh CACHE_DIR
# Prints the folder that holds librocksdb.a on standard output; progress goes to standard error.
set -euo pipefail

cache_dir=${1:?usage: scripts/build-rocksdb.sh CACHE_DIR}
manifest_dir=${WHARF_MANIFEST_DIR:-$(cd "$(dirname "$0")/.." && pwd)}
unit_count=8

# The folder of a fetched dependency, by package name.
source_of() {
  printf '%s' "$metadata" | tr ',' '\n' |
    sed -n "s|^.*\"manifest_path\":\"\\(.*/$1-[0-9][^/]*\\)/Cargo.toml\".*$|\\1|p" | head -n 1
}

metadata=$(cd "$manifest_dir" && cargo metadata --quiet --format-version 1 --locked)
rocksdb=$(source_of librocksdb-sys)
lz4=$(source_of lz4-sys)
zstd=$(source_of zstd-sys)
for source in "$rocksdb" "$lz4" "$zstd"; do
  [ -d "$source" ] || { echo "build-rocksdb: the sources of librocksdb-sys, lz4-sys and zstd-sys are not fetched; run 'cargo fetch' first" >&2; exit 1; }
done

# The key: another crate version, compiler or flag set makes another archive.
case $(uname -m) in
  x86_64) cpu_flags="-msse4.2 -mpclmul" ;;
  *) cpu_flags="" ;;
esac
flags="-std=c++20 -O2 -fPIC -w -include cstdint $cpu_flags -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION
  -DOS_LINUX -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT
  -DROCKSDB_AUXV_GETAUXVAL_PRESENT -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT -DLZ4=1 -DZSTD=1"
key=$(printf '%s\n' "$(basename "$rocksdb")" "$flags" "$unit_count" "$(${CXX:-c++} -dumpfullversion)" "$(uname -m)" | cksum | cut -d' ' -f1)
out="$cache_dir/rocksdb-$(basename "$rocksdb" | sed 's/^librocksdb-sys-//')-$key"
if [ -f "$out/librocksdb.a" ]; then
  echo "$out"
  exit 0
fi

mkdir -p "$cache_dir"
work=$(mktemp -d "$cache_dir/rocksdb-build.XXXXXX")
trap 'rm -rf "$work"' EXIT

grep -v -e '_test\.cc' -e 'util/build_version\.cc' "$rocksdb/rocksdb_lib_sources.txt" |
  sed -e 's/[[:space:]]*$//' -e '/^$/d' -e 's|^|rocksdb/|' > "$work/sources"
echo build_version.cc >> "$work/sources"
split -n "l/$unit_count" -d --additional-suffix=.list "$work/sources" "$work/unit"
for list in "$work"/unit*.list; do
  sed 's|^\(.*\)$|#include "\1"|' "$list" > "${list%.list}.cc"
done

# Four units at once at most, and as many as fit into memory: each takes about 1.5 GiB.
jobs=$(nproc)
fitting=$(awk '/^MemAvailable:/ { print int($2 / 1600000) }' /proc/meminfo)
[ "$jobs" -le "$fitting" ] || jobs=$fitting
[ "$jobs" -le 4 ] || jobs=4
[ "$jobs" -ge 1 ] || jobs=1
echo "Building RocksDB $(basename "$rocksdb" | sed 's/.*+//') once into $cache_dir (about 5 minutes on two cores)" >&2
includes="-I$rocksdb/rocksdb/include -I$rocksdb/rocksdb -I$rocksdb -I$lz4/liblz4/lib -I$zstd/zstd/lib"
export flags includes work unit_count
compile_unit() {
  # shellcheck disable=SC2086
  ${CXX:-c++} $flags $includes -c "$1" -o "${1%.cc}.o"
  echo "  compiled $(find "$work" -name '*.o' | wc -l) of $unit_count units" >&2
}
export -f compile_unit
find "$work" -name 'unit*.cc' | sort | xargs -P "$jobs" -I{} bash -c 'set -e; compile_unit {}'

ar crs "$work/librocksdb.a" "$work"/unit*.o
rm -f "$work"/*.o "$work"/*.cc "$work"/*.list "$work/sources"
mkdir -p "$out"
mv "$work/librocksdb.a" "$out/librocksdb.a"
echo "$out"
