#!/usr/bin/env bash
# simulate_cluster as users run it: refusals, the published system, a measured profile. $1: the program, $2: cmake.
set -euo pipefail
program="$1"
cmake="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  printf 'FAILED  %s\n' "$*"
  failures=$((failures + 1))
}

# refused <status> <part of the line> <arguments...>
refused() {
  local status="$1" part="$2" rc=0
  shift 2
  "$program" "$@" >"$work/out" 2>"$work/err" || rc=$?
  [[ $rc == "$status" ]] || fail "$*: exit $rc, not $status"
  [[ $(wc -l <"$work/err") == 1 ]] || fail "$*: not one line on standard error"
  grep -qF -- "$part" "$work/err" || fail "$*: '$part' is not in: $(cat "$work/err")"
}

cat >"$work/sequential.json" <<'J'
{"steps": 10, "compute_seconds": 1.5, "idle_seconds": 3.0,
 "stage_seconds": {"read": 0.4, "stage": 0.1, "route": 0.3, "retrieve": 0.4, "refresh": 0, "exchange_rows": 0.6, "forward_backward": 1.0, "weight_gradients": 0.5,
                   "exchange_gradients": 0.6, "reduce_dense": 0.1, "update_rows": 0, "update_dense": 0, "write_back": 0.4},
 "exposed_seconds": {"reduce_dense": 0.05}, "configuration": {"schedule": "sequential", "ranks": 2, "micro_batches": 4}}
J
sed 's/"sequential"/"nested"/' "$work/sequential.json" >"$work/nested.json"
sed 's/"read": 0.4, //' "$work/sequential.json" >"$work/short.json"
sed 's/"read": 0.4/"read": -1/' "$work/sequential.json" >"$work/negative.json"
sed 's/"ranks": 2/"ranks": 1/' "$work/sequential.json" >"$work/alone.json"
sed 's/"ranks": 2/"ranks": 4/; s/"micro_batches": 4/"micro_batches": 8/' "$work/sequential.json" >"$work/four.json"
echo '[1]' >"$work/list.json"
echo '{"parametric": {"keys": 8192, "wheels": 4}}' >"$work/wheels.json"
echo '{"parametric": {"retrieved_rows": 0}}' >"$work/still.json"

refused 2 '--profile'
refused 2 'there is no '"'fast'" --profile nestpipe-industrial --schedule fast
refused 2 'nested_plain+PART' --profile nestpipe-industrial --schedule nested+early
refused 2 'not' --profile nestpipe-industrial --schedule frozen_window_plain+early
refused 2 'cannot be negative' --profile nestpipe-industrial --workers -5
refused 2 '--workers is from 1' --profile nestpipe-industrial --workers 0
refused 2 '--micro-batches is from 1' --profile nestpipe-industrial --micro-batches 0
refused 2 '--early-share' --profile nestpipe-industrial --early-share 2
refused 2 'one by one' --profile nestpipe-industrial --skew 0.1 --workers 200000
refused 2 'stands alone' --profile nestpipe-industrial --profile "$work/sequential.json"
refused 2 'same number of micro-batches' --profile "$work/sequential.json" --profile "$work/sequential.json"
refused 2 'different numbers of ranks' --profile "$work/sequential.json" --profile "$work/four.json"
refused 2 'a run of one rank' --profile "$work/alone.json" --workers 8
refused 1 'cannot open the profile' --profile "$work/missing.json"
refused 1 'no JSON object' --profile "$work/list.json"
refused 1 'is no JSON' --profile "$program"
refused 1 "schedule 'nested'" --profile "$work/nested.json"
refused 1 "no number 'read'" --profile "$work/short.json"
refused 1 "'read' is not a finite number" --profile "$work/negative.json"
refused 1 "has no 'wheels'" --profile "$work/wheels.json"
refused 1 'a rate of 0' --profile "$work/still.json"
refused 1 'cannot write' --profile nestpipe-industrial --report "$work/no/such/folder.json"

"$program" --profile nestpipe-industrial --report "$work/report.json" --timeline "$work/timeline.svg" >"$work/table" || fail "nestpipe-industrial: exit $?"
for words in 'consistency check' 'taken' 'fitted' 'left out' 'extrapolation'; do
  grep -q "$words" "$work/table" || fail "the table does not say '$words'"
done
grep -q '</svg>' "$work/timeline.svg" || fail 'no timeline'
"$cmake" -D "REPORT=$work/report.json" -P "$(dirname "$0")/report_fields.cmake" || fail 'fields of the report'
"$program" --profile nestpipe-industrial --report "$work/again.json" >/dev/null
cmp -s "$work/report.json" "$work/again.json" || fail 'two runs differ'

# 10 steps of 0.45 s: the plain loop is predicted as it was, on one link or on several.
"$program" --profile "$work/sequential.json" --schedule sequential nested --workers 2 4 >"$work/table" || fail "a measured profile: exit $?"
grep -Eq '^ +2  sequential +4 +450\.000' "$work/table" || fail "sequential is not predicted from itself: $(cat "$work/table")"
grep -Eq '^ +4  nested .*extrapolation' "$work/table" || fail 'more ranks than measured are not called extrapolation'
echo '{"parametric": {"workers": 8, "keys": 8192, "retrieved_rows": 1e6, "forward": 1e-4, "latency_between": 1e-5, "bytes_per_second_between": 1e9, "micro_batches": 4, "skew_per_op": 0.1}}' >"$work/described.json"
"$program" --profile "$work/described.json" --workers 8 64 >"$work/table" || fail "a described machine: exit $?"
grep -Eq '^ +64  nested' "$work/table" || fail 'a described machine of 64 workers'

printf '%d failed\n' "$failures"
((failures == 0))
