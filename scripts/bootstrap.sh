#!/usr/bin/env bash
# Installs what the build needs beside rustup, git and make, where it is missing: a C++ compiler, pkg-config and
# libclang (the bindings of RocksDB are generated at build time), and the pinned Rust toolchain.
# Does nothing, and says nothing, where everything is there. Installs by apt only; elsewhere it says what is needed.
#
# usage: scripts/bootstrap.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# The places where the clang-sys crate looks, less libclang-cpp, which is another library.
have_libclang() {
  [ -z "${LIBCLANG_PATH:-}" ] || return 0
  local file
  for file in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/llvm*/lib*/libclang*.so* /usr/lib/*/libclang*.so* \
    /usr/lib64/libclang*.so* /usr/lib/libclang*.so* /usr/local/lib/libclang*.so* /usr/local/llvm*/lib*/libclang*.so*; do
    [[ -e $file && $file =~ /libclang(-[0-9.]+)?\.so[0-9.]*$ ]] && return 0
  done
  return 1
}

# The distribution's own choice of libclang, else the newest that it has.
libclang_package() {
  local candidate
  candidate=$(apt-cache policy libclang1 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [ -n "$candidate" ] && [ "$candidate" != "(none)" ]; then
    echo libclang1
  else
    apt-cache search --names-only '^libclang1-[0-9]+$' 2>/dev/null | cut -d' ' -f1 | sort -t- -k2 -n | tail -n 1
  fi
}

# Runs apt-get quietly; what it printed is shown if it fails.
apt_get() {
  local log
  log=$(mktemp)
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "apt-get $1 failed"
  fi
  rm -f "$log"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    die "not root and no sudo; run this as root: $*"
  fi
}

install_packages() {
  local missing=("$@")
  if ! have apt-get; then
    say "missing: ${missing[*]}. This is no Debian or Ubuntu; install with your package manager:"
    say "  Fedora: dnf install gcc-c++ make pkgconf-pkg-config clang-libs"
    say "  Arch:   pacman -S base-devel clang"
    say "  Alpine is not supported yet: its C library is not the one that the build is tested with."
    exit 1
  fi
  say "missing: ${missing[*]}; installing by apt"
  apt_get update
  local packages=() package
  for package in "${missing[@]}"; do
    [ "$package" != libclang ] || package=$(libclang_package)
    [ -n "$package" ] || die "this distribution's package lists have no libclang1; install libclang by hand"
    packages+=("$package")
  done
  say "apt-get install ${packages[*]}"
  apt_get install -y --no-install-recommends "${packages[@]}"
}

[ "$(uname -s)" = Linux ] || die "Wharf builds and runs on Linux; this is $(uname -s)."
if ! have cargo; then
  die "no cargo. Install rustup first: https://rustup.rs, then open a new shell."
fi

missing=()
have c++ && have ar && have make || missing+=(build-essential)
have pkg-config || missing+=(pkg-config)
have_libclang || missing+=(libclang)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
have_libclang || die "libclang is still not found; set LIBCLANG_PATH to the folder that holds libclang.so."

# rust-toolchain.toml pins the toolchain; rustup may be set not to fetch it by itself.
if ! cargo --version >/dev/null 2>&1 || ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
  channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
  have rustup || die "Rust $channel with clippy and rustfmt is needed, and there is no rustup to install it."
  say "installing Rust $channel"
  rustup toolchain install "$channel" --profile minimal --component clippy --component rustfmt >&2
fi
