#!/usr/bin/env bash
# One global batch size and seed, eight micro-batches in all: the same bits whoever computes them, and in two runs of one command.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

criteo_rows 3000 >"$work/log.tsv"
base=(--data "$work/log.tsv" --split 10:8:9 --dim 7 --hidden 16 --bottom 16 --batch-size 500 --epochs 2 --optimizer adagrad --dense-optimizer adam --quiet)
wanted=""
runs=0

same() {  # same <what> <command...>
  local what="$1"
  shift
  if ! "$@" >"$work/out.txt" 2>"$work/err.txt"; then
    fail "$what: $(cat "$work/err.txt")"
    return 0
  fi
  local digest
  digest="$(table_value 'parameters digest' "$work/out.txt") $(table_value 'test AUC' "$work/out.txt") $(table_value 'test log loss' "$work/out.txt") $(table_value loss "$work/out.txt")"
  [[ -n "$wanted" ]] || wanted="$digest"
  [[ "$digest" == "$wanted" ]] || fail "$what: $digest instead of $wanted"
  runs=$((runs + 1))
}

for codec in bfloat16 int8; do
  wanted=""
  same "$codec, sequential" "$program" "${base[@]}" --model fm --codec $codec --micro-batches 8 --schedule sequential
  same "$codec, 4 ranks, nested" "$program" "${base[@]}" --model fm --codec $codec --ranks 4 --micro-batches 2 --schedule nested
done

for model in dlrm fm; do
  wanted=""
  same "$model, first run" "$program" "${base[@]}" --model $model --micro-batches 8 --schedule sequential --executor inline
  same "$model, second run" "$program" "${base[@]}" --model $model --micro-batches 8 --schedule sequential --executor inline
  for shape in "1 8" "2 4" "4 2" "8 1"; do
    read -r ranks micro <<<"$shape"
    for schedule in sequential prefetch dual_buffer frozen_window nested; do
      for executor in inline threads; do
        [[ "$model" == dlrm || "$executor-$schedule" == threads-nested ]] || continue
        same "$model, $ranks x $micro, $schedule, $executor" "$program" "${base[@]}" --model $model --ranks "$ranks" --micro-batches "$micro" --schedule $schedule --executor $executor
      done
    done
  done
  same "$model, early rows off" "$program" "${base[@]}" --model $model --ranks 2 --micro-batches 4 --schedule nested --early-rows off --split-backward off
  for threads in 2 3; do
    same "$model, $threads threads of one rank" "$program" "${base[@]}" --model $model --micro-batches 8 --threads $threads --schedule nested
  done
  same "$model, 2 ranks of 2 threads" "$program" "${base[@]}" --model $model --ranks 2 --micro-batches 4 --threads 2 --schedule sequential
  if [[ -n "${NESTPIPE_MPIRUN:-}" ]]; then
    for ranks in 1 2 4; do
      for schedule in prefetch nested; do
        [[ "$model" == dlrm || "$schedule" == nested ]] || continue
        # shellcheck disable=SC2086
        same "$model, mpirun -np $ranks, $schedule" $NESTPIPE_MPIRUN -np $ranks "$program" "${base[@]}" --model $model --total-micro-batches 8 --schedule $schedule
      done
    done
  else
    echo "skipped: mpirun (built without MPI)"
  fi
done

# Another number of micro-batches, another seed: other bits, or the comparison above means nothing.
first="$wanted"
for other in "--micro-batches 4" "--micro-batches 8 --seed 2"; do
  # shellcheck disable=SC2086
  "$program" "${base[@]}" --model fm $other >"$work/out.txt"
  [[ "$(table_value 'parameters digest' "$work/out.txt")" != "${first%% *}" ]] || fail "fm $other has the digest of 8 micro-batches, seed 1"
done

printf '%d runs compared\n' "$runs"
finish
