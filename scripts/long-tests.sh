#!/usr/bin/env bash
# Runs the tests of one package whose names hold a word, in a release build and with those that are ignored otherwise.
# Fails where no test has such a name. Settings for the tests come from the environment.
#
# usage: scripts/long-tests.sh PACKAGE WORD
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
package=${1:?usage: scripts/long-tests.sh PACKAGE WORD}
word=${2:?usage: scripts/long-tests.sh PACKAGE WORD}
tests=$(cargo test --locked --release --package "$package" "$word" -- --list | grep -c ': test$' || true)
if [ "$tests" -eq 0 ]; then
  echo "long-tests: $package has no test named *$word*" >&2
  exit 1
fi
exec cargo test --locked --release --package "$package" "$word" -- --nocapture --include-ignored --test-threads=1
