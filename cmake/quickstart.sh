#!/usr/bin/env bash
# bash cmake/quickstart.sh        installs what is missing (Debian, Ubuntu), builds train_ctr, trains a click model on a synthetic stream, prints the table
# bash cmake/quickstart.sh test   installs, builds everything, runs every check: tests, sanitizers, clang, headers, device code
#
# Environment: JOBS (processes at once, default: the cores), NESTPIPE_BUILD_ROOT (default build/), STAGES (test: which stages, in order).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

train_arguments=(--data synthetic)  # what the first command runs
jobs="${JOBS:-$(nproc)}"
root="${NESTPIPE_BUILD_ROOT:-build}"
export CMAKE_BUILD_PARALLEL_LEVEL="$jobs"
export CLICOLOR_FORCE=0
# ccache finds a file again when the tree has moved to another folder.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=true

# Why each package is needed stands beside the find_package call that looks for it.
packages_train=(g++ cmake ninja-build ccache libdnnl-dev libeigen3-dev nlohmann-json3-dev libcli11-dev zlib1g-dev)
packages_test=("${packages_train[@]}" doctest-dev libopenmpi-dev openmpi-bin librocksdb-dev clang)

say() { printf '%s\n' "$*"; }

install_packages() {
  local missing=() package as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "quickstart: this system has no apt; install by hand what is missing of: $*"
    return 0
  fi
  for package in "$@"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if [[ "$(id -u)" != 0 ]]; then
    if ! command -v sudo >/dev/null; then
      say "quickstart: not root and no sudo; ask for these Debian packages: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  say "quickstart: installing ${missing[*]}"
  local log
  log="$(mktemp)"
  if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "quickstart: apt-get could not install: ${missing[*]} (its last lines are above; the whole log is $log)" >&2
    return 1
  fi
  rm -f "$log"
}

# Runs a command with its output kept aside; shows the end of it only if it fails.
quietly() {
  local log="$root/log.txt"
  mkdir -p "$root"
  "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; return 1; }
}

train() {
  local begin=$SECONDS
  install_packages "${packages_train[@]}"
  say "quickstart: packages ready after $((SECONDS - begin)) s; building train_ctr"
  quietly cmake -S . -B "$root/quickstart" -G Ninja -D CMAKE_BUILD_TYPE=Release -D NESTPIPE_BUILD_TESTS=OFF -D NESTPIPE_BUILD_BENCHMARKS=OFF \
    -D NESTPIPE_ENABLE_CUDA=OFF -D NESTPIPE_ENABLE_NCCL=OFF
  quietly cmake --build "$root/quickstart" --target train_ctr
  say "quickstart: built after $((SECONDS - begin)) s; running train_ctr ${train_arguments[*]}"
  "$(find "$root/quickstart" -name train_ctr -type f -perm -u+x | head -n 1)" "${train_arguments[@]}"
  say "quickstart: done after $((SECONDS - begin)) s"
}

# ---- the checks -------------------------------------------------------------------------------------------------------
# A stage is a function check_<name>; it adds to passed and failed, and prints what ctest prints.
passed=0
failed=0

one_check() {  # one_check <what> <command...>: a check that is a command and not a ctest run
  local what="$1"
  shift
  if quietly "$@"; then
    say "  ok      $what"
    passed=$((passed + 1))
  else
    say "  FAILED  $what"
    failed=$((failed + 1))
    return 0
  fi
}

run_ctest() {  # run_ctest <folder> <ctest arguments...>
  local log="$root/ctest.txt" bad total
  local folder="$1"
  shift
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error --timeout 300 "$@" 2>&1 | tee "$log" | grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed |(Looked in|Could not find exec|Unable to find exec)|[^ ]+/test\.[^ ]+$)' || true
  if [[ "$(tail -n 40 "$log")" =~ ([0-9]+)%\ tests\ passed,\ ([0-9]+)\ tests\ failed\ out\ of\ ([0-9]+) ]]; then
    bad="${BASH_REMATCH[2]}"
    total="${BASH_REMATCH[3]}"
    passed=$((passed + total - bad))
    failed=$((failed + bad))
  else
    say "  FAILED  ctest in $folder ran no test"
    failed=$((failed + 1))
  fi
}

configure() {  # configure <folder> <arguments...>
  local folder="$1"
  shift
  cmake -S . -B "$folder" -G Ninja -D NESTPIPE_BUILD_BENCHMARKS=OFF -D NESTPIPE_BUILD_CUDA_TESTS=OFF "$@"
}
no_toolkits=(-D NESTPIPE_ENABLE_CUDA=OFF -D NESTPIPE_ENABLE_NCCL=OFF -D NESTPIPE_ENABLE_MPI=OFF -D NESTPIPE_ENABLE_ONEDNN=OFF)

build_then_test() {  # build_then_test <what> <folder> <targets> <ctest arguments...>
  local what="$1" folder="$2" targets="$3"
  shift 3
  # shellcheck disable=SC2086
  one_check "build: $what" cmake --build "$folder" --target $targets -- -k 0
  run_ctest "$folder" "$@"
}

check_tests() {
  one_check "configure" configure "$root/test" -D CMAKE_BUILD_TYPE=Release
  build_then_test "tests and examples" "$root/test" all
}
check_headers() {
  one_check "configure" configure "$root/test" -D CMAKE_BUILD_TYPE=Release
  one_check "every header compiles alone" cmake --build "$root/test" --target all_verify_interface_header_sets -- -k 0
}
check_address() {
  one_check "configure" configure "$root/asan" "${no_toolkits[@]}" -D NESTPIPE_SANITIZE=address,undefined -D NESTPIPE_BUILD_EXAMPLES=OFF -D NESTPIPE_NATIVE=OFF \
    -D CMAKE_BUILD_TYPE=None -D CMAKE_CXX_FLAGS=-O1
  build_then_test "address and undefined-behaviour sanitizers" "$root/asan" nestpipe_group_address -L '^address$'
}
check_thread() {
  one_check "configure" configure "$root/tsan" "${no_toolkits[@]}" -D NESTPIPE_SANITIZE=thread -D NESTPIPE_BUILD_EXAMPLES=OFF -D NESTPIPE_NATIVE=OFF \
    -D CMAKE_BUILD_TYPE=None -D CMAKE_CXX_FLAGS=-O1
  build_then_test "thread sanitizer" "$root/tsan" nestpipe_group_thread -L '^thread$'
}
check_clang() {
  one_check "configure" configure "$root/clang" -D NESTPIPE_ENABLE_CUDA=OFF -D NESTPIPE_ENABLE_NCCL=OFF -D CMAKE_CXX_COMPILER=clang++ -D CMAKE_BUILD_TYPE=None \
    -D CMAKE_CXX_FLAGS=-O1
  build_then_test "clang" "$root/clang" nestpipe_group_clang -L '^clang$'
}
without_a_gpu() {  # without_a_gpu <program>: one line, status 1
  local text status=0
  text="$(CUDA_VISIBLE_DEVICES='' "$1" 2>&1)" || status=$?
  printf '%s\n' "$text"
  [[ "$status" == 1 && "$text" == "error: no CUDA device"* && "$text" != *$'\n'* ]]
}
check_device() {
  if ! grep -q '^NESTPIPE_HAS_NVCC:INTERNAL=TRUE' "$root/test/CMakeCache.txt" 2>/dev/null; then
    say "  skipped: no CUDA toolkit"
    return 0
  fi
  one_check "device headers and tests compile with nvcc" cmake --build "$root/test" --target nestpipe_cuda_tests
  one_check "a program without a GPU says so and exits 1" without_a_gpu "$root/test/tests/cuda/test.cuda.device_tests"
}

run_checks() {
  local begin=$SECONDS stage stage_begin
  install_packages "${packages_test[@]}"
  say "quickstart: packages ready after $((SECONDS - begin)) s"
  for stage in ${STAGES:-tests headers address thread clang device}; do
    say "== $stage"
    stage_begin=$SECONDS
    "check_$stage"
    say "== $stage took $((SECONDS - stage_begin)) s"
  done
  say "quickstart: all stages took $((SECONDS - begin)) s"
  say "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}

case "${1:-train}" in
  train) train ;;
  test) run_checks ;;
  *)
    say "usage: bash cmake/quickstart.sh [train|test]" >&2
    exit 2
    ;;
esac
