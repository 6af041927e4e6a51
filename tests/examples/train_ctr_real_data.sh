#!/usr/bin/env bash
# The real logs of the shared data folder, each one command: what is read, and for the census the quality that independent references reach.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
data="${NESTPIPE_SHARED_DATA_DIR:-}"
if [[ -z "$data" || ! -d "$data" ]]; then
  echo "skipped: no shared data folder"
  exit 0
fi
script="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples/train_ctr" && pwd)/real_data.sh"

real() {  # real <set> <model>: leaves the table in $work/out.txt
  [[ -d "$data/$1" ]] || { echo "skipped: no $1"; return 1; }
  TRAIN_CTR="$program" bash "$script" "$data" "$1" "$2" --quiet --report "$work/$1.json" >"$work/out.txt" 2>"$work/err.txt" || { fail "$1, $2: $(cat "$work/err.txt")"; return 1; }
}
samples() { sed -n 's/^  "samples": \([0-9]*\),$/\1/p' "$work/$1.json"; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

if real criteo-1tb-day0-1k logistic; then
  [[ "$(samples criteo-1tb-day0-1k)" == 1000 ]] || fail "criteo: $(samples criteo-1tb-day0-1k) samples instead of 1000"
fi
if real open-bandit-small logistic; then
  [[ "$(samples open-bandit-small)" == 10000 ]] || fail "open bandit: $(samples open-bandit-small) samples instead of 10000"
fi
if real paddlerec-slots logistic; then
  [[ "$(samples paddlerec-slots)" == 10 ]] || fail "paddlerec: $(samples paddlerec-slots) samples instead of 10"
  grep -q '270 features' "$work/out.txt" || fail "paddlerec: not 270 slots: $(head -n 2 "$work/out.txt")"
fi
if real adult-census fm; then
  at_least "$(table_value 'test AUC' "$work/out.txt")" 0.907 || fail "adult: test AUC $(table_value 'test AUC' "$work/out.txt") below .907"
  at_least 14.5 "$(table_value 'test error' "$work/out.txt")" || fail "adult: test error $(table_value 'test error' "$work/out.txt") above 14.5 %"
fi
finish
