#!/usr/bin/env bash
# A signal ends a run after a whole batch: exit 0, saved where asked, and what was saved goes on to the bits of a run that was not stopped.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$work"

run=(--data synthetic --synthetic-rows 40000000 --synthetic-valid-rows 500 --synthetic-vocabulary 10000 --model logistic --batch-size 512)

# The first progress line comes after five seconds of training.
wait_for_steps() {
  for _ in $(seq 600); do
    grep -q '^epoch 0 *step' "$1" && return 0
    sleep 0.1
  done
  fail "no progress line within a minute: $(tail -c 300 "$1")"
}

for way in "--ranks 1 --total-micro-batches 2" "--ranks 2 --micro-batches 1 --schedule nested"; do
  # shellcheck disable=SC2086
  "$program" "${run[@]}" $way --save stopped --report stopped.json >out.txt 2>err.txt &
  pid=$!
  wait_for_steps out.txt
  kill -TERM $pid
  begin=$SECONDS status=0
  wait $pid || status=$?
  ((status == 0)) || fail "$way: status $status after SIGTERM: $(cat err.txt)"
  ((SECONDS - begin < 10)) || fail "$way: took $((SECONDS - begin)) s to stop"
  grep -q 'stopped by a signal after step' out.txt || fail "$way: does not say that it was stopped"
  [[ ! -s err.txt ]] || fail "$way: wrote to standard error: $(cat err.txt)"
  grep -q '"stopped": true' stopped.json || fail "$way: the report does not say so"
  at="$(sed -n 's/^stopped by a signal after step \([0-9]*\).*/\1/p' out.txt)"
  ((at > 0)) || fail "$way: stopped before the first step"
  goal=$((at + 10))
  "$program" "${run[@]}" --ranks 2 --micro-batches 1 --resume stopped --steps $goal >resumed.txt
  "$program" "${run[@]}" --ranks 1 --micro-batches 2 --steps $goal >whole.txt
  [[ "$(table_value 'parameters digest' resumed.txt)" == "$(table_value 'parameters digest' whole.txt)" ]] || fail "$way: resumed after step $at, other bits at step $goal"
  rm -rf stopped
done

# Without anywhere to save: the same, and it says how not to lose the work next time.
"$program" "${run[@]}" >out.txt 2>err.txt &
pid=$!
wait_for_steps out.txt
kill -INT $pid
status=0
wait $pid || status=$?
((status == 0)) || fail "status $status after SIGINT: $(cat err.txt)"
grep -q 'give --save' out.txt || fail "does not mention --save"

# Data that never come: the batch cannot be finished, so the run ends after five seconds with a line that says where it was.
mkfifo never
sleep 60 >never &
writer=$!
"$program" --data - --model logistic --save stuck <never >out.txt 2>err.txt &
pid=$!
sleep 2
kill -TERM $pid
begin=$SECONDS status=0
wait $pid || status=$?
kill $writer
((status == 1)) || fail "status $status after SIGTERM without data: $(cat err.txt)"
((SECONDS - begin < 15)) || fail "took $((SECONDS - begin)) s to give up"
[[ "$(wc -l <err.txt)" == 1 ]] || fail "not one line: $(cat err.txt)"
grep -q 'stopped by a signal.*(stage read, step 0)' err.txt || fail "does not say where it was: $(cat err.txt)"
[[ ! -e stuck ]] || fail "something was saved"

# A rank under MPI that dies: the others end soon, each with a line that says where.
if [[ -n "${NESTPIPE_MPIRUN:-}" ]]; then
  # shellcheck disable=SC2086
  $NESTPIPE_MPIRUN -np 4 bash -c 'echo $$ >"rank.$OMPI_COMM_WORLD_RANK"; exec "$@"' rank "$program" "${run[@]}" >out.txt 2>err.txt &
  pid=$!
  wait_for_steps out.txt
  kill -KILL "$(cat rank.3)"
  begin=$SECONDS status=0
  wait $pid || status=$?
  ((status != 0)) || fail "mpirun ended with status 0 though a rank was killed"
  ((SECONDS - begin <= 10)) || fail "mpirun took $((SECONDS - begin)) s to end"
  grep -Eq 'rank [0-2]: .*(step|in) ' err.txt || fail "no rank said where it was: $(cat err.txt)"
else
  echo "skipped: a dying rank under mpirun (built without MPI)"
fi
finish
