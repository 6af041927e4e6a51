#!/usr/bin/env bash
# bash tests/device_check.sh        on a machine with a GPU and the CUDA toolkit, nothing else: builds the device programs with nvcc, runs every device test,
#                                   compute-sanitizer on small ones, then the rates beside the device's copy rate. Writes $OUT/device_check.json and a table.
# bash tests/device_check.sh pack   on a machine with packages: puts what the other one lacks (doctest's header) into build/device_check, to be carried along
#
# Environment: OUT (default build/device_check), NVCC, ARCH (default native), DEADLINE (seconds in all, default 340: later parts are skipped and named).
# Exit status: 0 all that ran is right, 1 something is not, or there is no device.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kit=build/device_check
out="${OUT:-$kit}"
mkdir -p "$out" "$kit"
begin=$SECONDS
deadline="${DEADLINE:-340}"

if [[ "${1:-}" == pack ]]; then
  for folder in /usr/include /usr/local/include; do
    [[ -f "$folder/doctest/doctest.h" ]] || continue
    mkdir -p "$kit/include/doctest"
    cp "$folder/doctest/doctest.h" "$kit/include/doctest/"
    printf 'packed %s: carry it along with the tree\n' "$kit"
    exit 0
  done
  printf 'device_check: no doctest/doctest.h here; install doctest-dev\n' >&2
  exit 1
fi

nvcc="${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
if ! "$nvcc" --version >/dev/null 2>&1; then
  printf 'device_check: no nvcc; set NVCC\n' >&2
  exit 1
fi
doctest=
for folder in "$kit/include" /usr/include /usr/local/include; do
  [[ -f "$folder/doctest/doctest.h" ]] && { doctest="$folder"; break; }
done

results=()  # JSON members
skipped=()
bad=0
note() {  # note <name> <ok|FAILED|skipped: why> [seconds]
  printf '  %-30s %s%s\n' "$1" "$2" "${3:+ ($3 s)}"
  results+=("\"$1\": {\"result\": \"$2\"${3:+, \"seconds\": $3}}")
  [[ "$2" == skipped* ]] && skipped+=("$1 (${2#skipped: })")
  [[ "$2" == FAILED ]] && bad=1
  return 0
}
left() { echo $((deadline - (SECONDS - begin))); }
run() {  # run <name> <most seconds> <command...>: its output goes to $out/<name>.log
  local name="$1" most="$2" start=$SECONDS
  shift 2
  if (($(left) < 10)); then
    note "$name" "skipped: no time left"
    return 1
  fi
  (($(left) < most)) && most=$(left)
  if timeout "$most" "$@" >"$out/$name.log" 2>&1; then
    note "$name" ok $((SECONDS - start))
  else
    note "$name" FAILED $((SECONDS - start))
    tail -n 15 "$out/$name.log"
    return 1
  fi
}

# The device decides what is built for; without one it is one architecture, to see that all compiles.
has_device=1
nvidia-smi -L >"$out/devices.txt" 2>/dev/null || has_device=0
arch="${ARCH:-native}"
((has_device)) || arch="${ARCH:-sm_90}"
flags=(-std=c++20 --fmad=false -O2 "-arch=$arch" -Xcompiler=-ffp-contract=off,-fno-math-errno,-pthread -Werror=all-warnings,cross-execution-space-call -Iinclude -Itests)
[[ -n "$doctest" && "$doctest" != /usr/include ]] && flags+=("-I$doctest")

printf 'building for %s\n' "$arch"
pids=() names=()
compile() {  # compile <name> <source>: in the background
  timeout 200 "$nvcc" "${flags[@]}" "$2" -o "$kit/$1" >"$out/build_$1.log" 2>&1 &
  pids+=($!)
  names+=("$1")
  [[ -n "${JOBS:-}" ]] && ((JOBS < 2)) && wait "$!"
  return 0
}
rm -f "$kit"/device_tests "$kit"/device_engine "$kit"/device_rates
if [[ -n "$doctest" ]]; then
  compile device_tests tests/cuda/device_tests.cu
  compile device_engine tests/cuda/device_engine.cu
else
  note device_tests "skipped: no doctest.h; run device_check.sh pack where there is one"
  note device_engine "skipped: no doctest.h; run device_check.sh pack where there is one"
fi
compile device_rates bench/cuda/device_rates.cu
for i in "${!pids[@]}"; do
  if wait "${pids[$i]}"; then
    note "build_${names[$i]}" ok $((SECONDS - begin))
  else
    note "build_${names[$i]}" FAILED $((SECONDS - begin))
    head -n 15 "$out/build_${names[$i]}.log"
  fi
done

rates=null
if ! ((has_device)); then
  note run "skipped: no CUDA device"
  bad=1
else
  for program in device_tests device_engine; do
    [[ -x "$kit/$program" ]] && run "$program" 60 "$kit/$program"
  done
  if command -v compute-sanitizer >/dev/null || [[ -x "$(dirname "$nvcc")/compute-sanitizer" ]]; then
    sanitizer="$(command -v compute-sanitizer || echo "$(dirname "$nvcc")/compute-sanitizer")"
    for tool in memcheck racecheck; do
      [[ -x "$kit/device_tests" ]] && run "device_tests_$tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 9 "$kit/device_tests"
    done
  else
    note sanitizers "skipped: no compute-sanitizer"
  fi
  if [[ -x "$kit/device_rates" ]] && run device_rates 60 "$kit/device_rates"; then
    cat "$out/device_rates.log"
    rates="$(tail -n 1 "$out/device_rates.log")"
  fi
fi
note nccl "skipped: comm::nccl is not there yet"
note dense "skipped: the dense part runs on the host so far"

{
  printf '{"device": "%s", "seconds": %d, ' "$(head -n 1 "$out/devices.txt" | tr -d '"\\')" $((SECONDS - begin))
  printf '%s, ' "${results[@]}"
  printf '"rates": %s}\n' "$rates"
} >"$out/device_check.json"
((${#skipped[@]})) && printf 'skipped: %s\n' "${skipped[@]}"
printf '%s after %d s; %s/device_check.json\n' "$( ((bad)) && echo 'NOT GREEN' || echo green)" $((SECONDS - begin)) "$out"
exit "$bad"
