#!/usr/bin/env bash
# bench/larger_than_memory.sh PROGRAM [MEMORY_BYTES] [ARGUMENTS...]: bench.larger_than_memory in a memory cgroup (version 1, as root) of so many bytes;
# over the limit it is killed, and this says so. Default: 2 GiB and 150 million distinct rows. Needs about 30 GB of disk where --path says.
set -euo pipefail
program="${1:?the program bench.larger_than_memory}"
bytes="${2:-2147483648}"
shift $(($# < 2 ? $# : 2))
(($#)) || set -- --distinct 150000000
group="/sys/fs/cgroup/memory/nestpipe-$$"
mkdir "$group"
trap 'rmdir "$group" 2>/dev/null || true' EXIT
echo "$bytes" >"$group/memory.limit_in_bytes"
status=0
# shellcheck disable=SC2016
bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$program" "$@" || status=$?
echo "memory: limit $(cat "$group/memory.limit_in_bytes"), at most $(cat "$group/memory.max_usage_in_bytes") bytes used (page cache included), limit met $(cat "$group/memory.failcnt") times; exit $status"
exit "$status"
