#!/usr/bin/env bash
# Step times of the schedules over real TCP: one MPI rank per network namespace, each behind a link limited by tc tbf.
#   netns_compare.sh N RATE PROGRAM [ARGS...]       e.g. netns_compare.sh 3 400mbit build/bench/bench.real_link --steps 30
# PROGRAM takes --schedule NAME and --report FILE.json (bench.real_link and train_ctr do); nothing is built. Needs root,
# iproute2 and Open MPI. The namespaces are removed at the end, whatever happens.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,5p "$0"; exit 2; }
n=$1 rate=$2 program=$(realpath "$3"); shift 3
hosts="$(cd "$(dirname "$0")/../tests/netns" && pwd)/netns.sh"
report=$(mktemp)
trap 'rm -f "$report"; "$hosts" down "$n"' EXIT
"$hosts" down "$n"
"$hosts" up "$n" "$rate"
number() { grep -o "\"$1\": *[0-9.e+-]*" "$report" | head -1 | sed 's/.*: *//'; }
first=
for schedule in ${SCHEDULES:-sequential prefetch dual_buffer frozen_window nested}; do
  "$hosts" mpirun "$n" --mca mpi_yield_when_idle 1 "$program" "$@" --schedule "$schedule" --report "$report"
  step=$(number step_seconds)
  [ -n "$step" ] || step=$(awk "BEGIN { print $(number seconds) / $(number steps) }")
  [ -n "$first" ] || first=$step
  awk "BEGIN { printf \"%-14s %9.2f ms a step over %d links of $rate, x%.3f\n\", \"$schedule\", $step * 1e3, $n, $first / $step }"
done
