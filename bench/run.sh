#!/usr/bin/env bash
# Measures the release build of Wharf beside the bare server, both with the same client in the same run.
#
#   bench/run.sh [throughput] [group-commit] [restart] [idle]     nothing or `all`: everything
#
# The method and what the rows mean: bench/README.md. Settings come from the environment:
#   ROUNDS=3           rounds of throughput
#   ROUND_BYTES=1GiB   bytes of one measurement, at most 1.5 GiB
#   UNARY_BYTES=64MiB  bytes of one measurement with single-record calls
#   BENCH_DATA=DIR     where a data directory is made and removed again (default: the cache directory; not a tmpfs)
#   SKIP_BUILD=1       take the binaries as they are; BENCH_WHARF and BENCH_BARE name others
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

ROUNDS=${ROUNDS:-3}
ROUND_BYTES=${ROUND_BYTES:-1GiB}
UNARY_BYTES=${UNARY_BYTES:-64MiB}
port=${BENCH_PORT:-17070}
ops_port=${BENCH_OPS_PORT:-17080}
bare_port=${BENCH_BARE_PORT:-17170}
wharf_endpoint=127.0.0.1:$port
bare_endpoint=127.0.0.1:$bare_port
wharf=${BENCH_WHARF:-$CARGO_TARGET_DIR/release/wharf}
bare=${BENCH_BARE:-$CARGO_TARGET_DIR/release/wharf-bench-bare}

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

for tool in curl jq numfmt; do
  command -v "$tool" >/dev/null 2>&1 || die "$tool is needed: apt-get install curl jq coreutils"
done
round_bytes=$(numfmt --from=iec-i "${ROUND_BYTES%B}")
((round_bytes <= 1536 * 1024 * 1024)) || die "ROUND_BYTES is at most 1.5 GiB"

parts=("$@")
if ((${#parts[@]} == 0)) || [[ ${parts[0]} == all ]]; then
  parts=(throughput group-commit restart idle)
fi
for part in "${parts[@]}"; do
  case $part in
    throughput | group-commit | restart | idle) ;;
    *) die "unknown part $part: use throughput, group-commit, restart, idle or all" ;;
  esac
done

if [[ -z ${SKIP_BUILD:-} ]]; then
  cargo build --locked --release -p wharf-server --bin wharf
  cargo build --locked --release -p wharf-bench --bin wharf-bench-bare
fi

work=$(mktemp -d "${BENCH_DATA:-$WHARF_CACHE_DIR}/bench.XXXXXXXX")
wharf_pid=
bare_pid=

# Ends only what this script has started.
stop_pid() {
  local pid=$1 signal=${2:-TERM}
  [[ -n $pid ]] || return 0
  kill -s "$signal" "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
stop_wharf() { stop_pid "$wharf_pid" "${1:-TERM}"; wharf_pid=; }
clean_up() {
  stop_wharf
  stop_pid "$bare_pid"
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A process that has ended stays a zombie until it is waited for.
alive() { awk '/^State:/ { gone = ($2 == "Z") } END { exit gone || NR == 0 }' "/proc/$1/status" 2>/dev/null; }
milliseconds() { date +%s%3N; }

# Waits until `/readyz` answers 200, and says after how many milliseconds since the start it did.
await_ready() {
  local started=$1 limit_ms=${2:-120000}
  until curl -fsS -o /dev/null "http://127.0.0.1:$ops_port/readyz" 2>/dev/null; do
    alive "$wharf_pid" || { tail -20 "$work/wharf.log" >&2; die "wharf has ended"; }
    (($(milliseconds) - started < limit_ms)) || die "wharf is not ready after $limit_ms ms"
    sleep 0.01
  done
  echo $(($(milliseconds) - started))
}

spawn_wharf() {
  "$wharf" standalone --data-dir "$work/$1" --listen "$wharf_endpoint" --ops-listen "127.0.0.1:$ops_port" \
    >>"$work/wharf.log" 2>&1 &
  wharf_pid=$!
}
start_wharf() {
  spawn_wharf "$1"
  await_ready "$(milliseconds)" >/dev/null
}
start_bare() {
  "$bare" --listen "$bare_endpoint" >"$work/bare.log" 2>&1 &
  bare_pid=$!
  local started
  started=$(milliseconds)
  until grep -q '^listening' "$work/bare.log"; do
    alive "$bare_pid" || { cat "$work/bare.log" >&2; die "the bare server has ended"; }
    (($(milliseconds) - started < 10000)) || die "the bare server does not start"
    sleep 0.01
  done
}

bench() { "$wharf" bench "$@" -o json; }
metric() {
  curl -fsS "http://127.0.0.1:$ops_port/metrics" |
    awk -v name="$1" '{ split($1, part, "{"); if (part[1] == name) { sum += $2; found = 1 } } END { if (!found) exit 1; printf "%.0f\n", sum }' ||
    die "the metric $1 is missing"
}

# One line of JSON for each measurement: {name, side, round, value}.
note() {
  local name=$1 side=$2 round=$3 value=$4
  jq -cn --arg name "$name" --arg side "$side" --argjson round "$round" --argjson value "$value" \
    '{name: $name, side: $side, round: $round, value: $value}' >>"$work/measured.jsonl"
  say "  round $round  $name  $side  $value"
}
field() { jq -r ".$1"; }

throughput() {
  say "throughput, $ROUNDS rounds"
  start_bare
  start_wharf throughput
  local round policy topic
  for ((round = 1; round <= ROUNDS; round++)); do
    for policy in ack os; do
      topic=stream-$policy-$round
      note "stream-64k-$policy" bare "$round" \
        "$(bench produce --endpoint "$bare_endpoint" --bytes "$ROUND_BYTES" | field mb_per_second)"
      note "stream-64k-$policy" wharf "$round" \
        "$(bench produce --endpoint "$wharf_endpoint" --bytes "$ROUND_BYTES" --topic "$topic" --flush-policy "$policy" | field mb_per_second)"
      sync
      topic=unary-$policy-$round
      note "unary-1-record-$policy" bare "$round" \
        "$(bench produce --mode unary --endpoint "$bare_endpoint" --bytes "$UNARY_BYTES" | field requests_per_second)"
      note "unary-1-record-$policy" wharf "$round" \
        "$(bench produce --mode unary --endpoint "$wharf_endpoint" --bytes "$UNARY_BYTES" --topic "$topic" --flush-policy "$policy" | field requests_per_second)"
      sync
    done
    note fetch-1m bare "$round" \
      "$(bench fetch --endpoint "$bare_endpoint" --bytes "$ROUND_BYTES" | field mb_per_second)"
    note fetch-1m wharf "$round" \
      "$(bench fetch --endpoint "$wharf_endpoint" --bytes "$ROUND_BYTES" --topic "stream-ack-$round" | field mb_per_second)"
    for policy in ack os; do
      "$wharf" topic delete --endpoint "$wharf_endpoint" --yes --purge "stream-$policy-$round" >/dev/null
      "$wharf" topic delete --endpoint "$wharf_endpoint" --yes --purge "unary-$policy-$round" >/dev/null
    done
    sync
  done
  stop_wharf
  stop_pid "$bare_pid"
  bare_pid=
  rm -rf "$work/throughput"
}

# Records for each fdatasync while 64 producers write single records and wait for each.
group_commit() {
  say "group commit"
  start_wharf group-commit
  local case partitions keys records flushes
  for case in "1 keyless" "12 keyless" "12 keyed"; do
    read -r partitions keys <<<"$case"
    "$wharf" topic create --endpoint "$wharf_endpoint" "gc-$partitions-$keys" -p "$partitions" -c flush.policy=ack >/dev/null
    records=$(metric wharf_storage_appended_records_total)
    flushes=$(metric wharf_log_flushes_total)
    note "group-commit-$partitions-$keys-rate" wharf 1 \
      "$(bench produce --mode unary --connections 4 --in-flight 16 "--$keys" --endpoint "$wharf_endpoint" --topic "gc-$partitions-$keys" --bytes "$UNARY_BYTES" | field requests_per_second)"
    records=$(($(metric wharf_storage_appended_records_total) - records))
    flushes=$(($(metric wharf_log_flushes_total) - flushes))
    note "group-commit-$partitions-$keys" wharf 1 "$(jq -n "$records / ([$flushes, 1] | max)")"
    sync
  done
  stop_wharf
  rm -rf "$work/group-commit"
}

# From exec to ready after kill -9 with 4 GiB of records, and after a clean stop.
restart() {
  say "restart with 4 GiB"
  start_wharf restart
  local chunk started
  for chunk in 1 2 3 4; do
    bench produce --endpoint "$wharf_endpoint" --bytes 1GiB --topic restart >/dev/null
    sync
    say "  $chunk GiB written"
  done
  stop_wharf KILL
  started=$(milliseconds)
  spawn_wharf restart
  note restart-after-kill wharf 1 "$(await_ready "$started")"
  stop_wharf TERM
  started=$(milliseconds)
  spawn_wharf restart
  note restart-after-stop wharf 1 "$(await_ready "$started")"
  stop_wharf
  rm -rf "$work/restart"
}

resident_mib() { awk '/^VmRSS:/ { printf "%.1f\n", $2 / 1024 }' "/proc/$wharf_pid/status"; }

idle() {
  say "1,000 idle partitions"
  start_wharf idle
  note idle-0-partitions wharf 1 "$(resident_mib)"
  "$wharf" topic create --endpoint "$wharf_endpoint" idle -p 1000 >/dev/null
  note idle-1000-partitions wharf 1 "$(resident_mib)"
  stop_wharf
  spawn_wharf idle
  await_ready "$(milliseconds)" >/dev/null
  note idle-1000-partitions-restarted wharf 1 "$(resident_mib)"
  stop_wharf
  rm -rf "$work/idle"
}

: >"$work/measured.jsonl"
for part in "${parts[@]}"; do
  case $part in
    throughput) throughput ;;
    group-commit) group_commit ;;
    restart) restart ;;
    idle) idle ;;
  esac
done

mkdir -p bench/results
stamp=$(date -u +%Y%m%dT%H%M%SZ)
result=bench/results/$stamp.json
jq -s \
  --arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
  --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
  --arg cpu "$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" \
  --arg kernel "$(uname -r)" \
  --argjson cores "$(nproc)" \
  --slurpfile goals bench/goals.json \
  -f bench/summary.jq "$work/measured.jsonl" >"$result"

jq -r '
  (["MEASUREMENT", "BARE", "WHARF", "UNIT", "RATIO", "GOAL", ""],
   (.rows[] | [.name, (.bare // "-" | tostring), (.wharf | tostring), .unit,
               (if .ratio then "\(.ratio * 100 | round) %" else "-" end), (.goal_text // "-"), .verdict]))
  | @tsv' "$result" | column -t -s $'\t'
say "written to $result"
