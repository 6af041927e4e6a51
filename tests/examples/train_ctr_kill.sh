#!/usr/bin/env bash
# kill -9 at random moments of a run that saves itself while it trains: every resume finds the last complete save, nothing is damaged, and the end has the bits
# of a run that was never killed. NESTPIPE_KILLS: how often [10].
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$work"

kills="${NESTPIPE_KILLS:-10}"
run=(--data synthetic --synthetic-rows 400000 --synthetic-valid-rows 500 --synthetic-vocabulary 20000 --model fm --dim 8 --batch-size 512 --quiet)
saves=(--save run --save-every 4 --keep 3 --incremental)
RANDOM="${NESTPIPE_SEED:-7}"
steps=$((kills * 10 + 40))

"$program" "${run[@]}" --ranks 1 --total-micro-batches 4 --steps "$steps" >whole.txt
whole="$(table_value 'parameters digest' whole.txt)"

done_kills=0 resumed=0 last=0
for _ in $(seq $((kills * 20))); do
  ((done_kills < kills)) || break
  ranks=$((1 + RANDOM % 2))
  go_on=()
  if compgen -G 'run/step-*/manifest.json' >/dev/null; then go_on=(--resume run); fi
  "$program" "${run[@]}" "${saves[@]}" "${go_on[@]}" --ranks $ranks --total-micro-batches 4 --steps "$steps" >out.txt 2>err.txt &
  pid=$!
  after=$((RANDOM % 1600))
  sleep "$((after / 1000)).$(printf '%03d' $((after % 1000)))"
  if kill -9 $pid 2>/dev/null; then done_kills=$((done_kills + 1)); fi
  status=0
  wait $pid 2>/dev/null || status=$?
  if ((status != 137)); then
    ((status == 0)) || fail "status $status on going on ${go_on[*]}: $(cat err.txt)"
    rm -rf run  # done before it was killed: begin anew
    resumed=0
    continue
  fi
  [[ ! -s err.txt ]] || fail "wrote to standard error: $(cat err.txt)"
  at="$(find run -maxdepth 1 -name 'step-*' ! -name '*.*' 2>/dev/null | sed 's/.*step-0*//' | sort -n | tail -n 1 || true)"
  at="${at:-0}"
  ((at >= resumed)) || fail "the save of step $resumed is gone; the last is $at"
  resumed=$at last=$at
done
((done_kills == kills)) || fail "only $done_kills kills"

go_on=()
if compgen -G 'run/step-*/manifest.json' >/dev/null; then go_on=(--resume run); fi
"$program" "${run[@]}" "${saves[@]}" "${go_on[@]}" --ranks 2 --total-micro-batches 4 --steps "$steps" >resumed.txt
[[ "$(table_value 'parameters digest' resumed.txt)" == "$whole" ]] || fail "other bits after $kills kills, the last at step $last"
(($(find run -maxdepth 1 -name 'step-*.*' | wc -l) == 0)) || fail "left unfinished saves: $(ls run)"
echo "$kills kills, the last save found at step $last"
finish
