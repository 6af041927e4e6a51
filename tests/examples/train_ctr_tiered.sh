#!/usr/bin/env bash
# Rows in memory over RocksDB, and in RocksDB alone: the bits of rows in memory, with rows really moving.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! "$program" --data synthetic --synthetic-rows 200 --synthetic-valid-rows 50 --storage rocksdb --quiet >"$work/out.txt" 2>&1; then
  grep -q 'built without it' "$work/out.txt" && { echo "skipped: built without RocksDB"; finish; exit; }
  fail "rocksdb: $(cat "$work/out.txt")"
fi

criteo_rows 3000 >"$work/log.tsv"
base=(--data "$work/log.tsv" --split 10:8:9 --model fm --dim 7 --batch-size 250 --optimizer adagrad --dense-optimizer adam --quiet)
"$program" "${base[@]}" --epochs 2 --micro-batches 4 --schedule sequential >"$work/out.txt"
wanted="$(table_value 'parameters digest' "$work/out.txt")"

epochs=2
same() {  # same <what> <flags...>
  local what="$1"
  shift
  if ! "$program" "${base[@]}" --epochs "$epochs" --storage-dir "$work" "$@" >"$work/out.txt" 2>"$work/err.txt"; then
    fail "$what: $(cat "$work/err.txt")"
    return 0
  fi
  local digest
  digest="$(table_value 'parameters digest' "$work/out.txt")"
  [[ "$digest" == "$wanted" ]] || fail "$what: $digest instead of $wanted"
}
evicted() { sed -n 's/^  fast tier .* hits, \([0-9]*\) rows evicted.*/\1/p' "$work/out.txt"; }

same "rocksdb, 2 ranks" --storage rocksdb --ranks 2 --micro-batches 2
for shape in "1 4" "2 2" "4 1"; do
  read -r ranks micro <<<"$shape"
  for flags in "--schedule sequential" "--schedule nested" "--schedule nested --look-ahead 4" "--schedule prefetch --look-ahead 3 --threads 2"; do
    # shellcheck disable=SC2086
    same "tiered, $shape, $flags" --storage tiered --memory-budget $((600 / ranks))K --ranks "$ranks" --micro-batches "$micro" $flags
    (($(evicted) > 1000)) || fail "tiered, $shape, $flags: '$(evicted)' rows evicted"
  done
done
same "tiered, all in memory" --storage tiered --memory-budget 64M --micro-batches 4
[[ "$(evicted)" == 0 ]] || fail "tiered, all in memory: '$(evicted)' rows evicted"

# What was saved with rows on disk goes on with rows in memory.
same "tiered, saved" --storage tiered --memory-budget 600K --micro-batches 4 --save "$work/saved"
"$program" "${base[@]}" --micro-batches 4 --epochs 3 >"$work/out.txt"
wanted="$(table_value 'parameters digest' "$work/out.txt")"
epochs=3
same "tiered, resumed" --storage tiered --memory-budget 600K --micro-batches 4 --resume "$work/saved"
compgen -G "$work/nestpipe-rocksdb-*" >/dev/null && fail "a database was left behind in $work"
finish
