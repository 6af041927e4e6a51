# Shared by the scripted tests of train_ctr: sourced, with the program as $1.
set -euo pipefail
program="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  printf 'FAILED  %s\n' "$*"
  failures=$((failures + 1))
}

finish() {
  printf '%d failed\n' "$failures"
  ((failures == 0))
}

# Rows of a log shaped like Criteo's: criteo_rows <count> [<seed>]
criteo_rows() {
  awk -v n="$1" -v seed="${2:-1}" 'BEGIN {
    srand(seed)
    for (i = 0; i < n; ++i) {
      line = (rand() < 0.3 ? 1 : 0)
      for (j = 0; j < 13; ++j) line = line "\t" (rand() < 0.1 ? "" : int(rand() * 50))
      for (j = 0; j < 26; ++j) line = line "\t" (rand() < 0.1 ? "" : sprintf("%08x", int(rand() * 400) * 7919 + j))
      print line
    }
  }'
}

# The value after a row title in the final table.
table_value() { sed -n "s/^  $1  *\\([^ ]*\\).*/\\1/p" "$2" | head -n 1; }
