#!/usr/bin/env bash
# Every figure beside its limit, measured in the same run: builds the benchmarks, runs each with its short set, prints one table and
# writes it as JSON. Under ten minutes once built; a figure that misses its bar is marked, and the exit status is 0 all the same.
#
#   bench/report.sh [--build DIR] [--out FILE.json] [--only NAME[,NAME...]] [--full]
#
# The programs pin themselves to nothing: run it on a machine with nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/bench out= only= full=
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --full) full=--full; shift ;;
    *) echo "report.sh: unknown flag $1 (see its head)" >&2; exit 2 ;;
  esac
done
out=${out:-$build/report.json}

programs=(routing hashed pooling update window dense_layers losses collectives readers auc)
[ -z "$only" ] || IFS=, read -r -a programs <<<"$only"

cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D NESTPIPE_BUILD_TESTS=OFF -D NESTPIPE_BUILD_EXAMPLES=OFF -D NESTPIPE_BUILD_BENCHMARKS=ON >"$build.log" 2>&1 ||
  { cat "$build.log" >&2; exit 1; }
targets=()
for p in "${programs[@]}"; do [ ! -e "bench/$p.cpp" ] || targets+=("bench.$p"); done
cmake --build "$build" --target "${targets[@]}" >>"$build.log" 2>&1 || { tail -n 40 "$build.log" >&2; exit 1; }

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
run() { # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  # --full goes to programs that know it
  "$@" --benchmark_out="$parts/$name.json" --benchmark_out_format=json >"$parts/$name.log" 2>&1 || { echo "$name failed:" >&2; tail -n 5 "$parts/$name.log" >&2; }
  echo "$name: $((SECONDS - start)) s" >&2
}
for t in "${targets[@]}"; do
  name=${t#bench.}
  flags=()
  if [ -n "$full" ] && grep -q -- '--full' "bench/$name.cpp"; then flags+=(--full); fi
  run "$name" "$build/bench/$t" "${flags[@]}"
  if [ "$name" = collectives ] && command -v mpirun >/dev/null && ldd "$build/bench/$t" | grep -q libmpi; then
    run "$name-mpi" mpirun --allow-run-as-root --oversubscribe --bind-to core -np 2 "$build/bench/$t" "${flags[@]}"
  fi
done

python3 - "$parts" "$out" <<'END'
import glob, json, os, sys

folder, out = sys.argv[1:3]
rows, context = [], {}
for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
    try:
        with open(path) as file:
            part = json.load(file)
    except ValueError:
        continue  # its program failed and said so
    context = context or part["context"]
    for b in part["benchmarks"]:
        if "rate" not in b:
            continue
        drop = ("/iterations:", "/manual_time", "/min_time:", "/repeats:")
        name = "/".join(p for p in b["name"].split("/") if not ("/" + p).startswith(drop))
        row = {"program": os.path.basename(path)[:-5], "name": name, "rate": b["rate"], "limit": b["limit"], "ratio": b["ratio"]}
        if b.get("bar"):
            row["bar"] = b["bar"]
            row["met"] = (b["rate"] if b["bar"] > 10 else b["ratio"]) >= b["bar"]
        rows.append(row)
os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
with open(out, "w") as file:
    json.dump({"context": context, "figures": rows}, file, indent=1)


def short(x):
    for unit in ("", "k", "M", "G", "T"):
        if abs(x) < 1000:
            return f"{x:.3g}{unit}"
        x /= 1000
    return f"{x:.3g}P"


wide = max([len(r["name"]) for r in rows] + [6])
print(f"{'figure':{wide}}  {'a second':>9}  {'limit':>9}  {'ratio':>6}  bar")
last = None
for r in rows:
    if last not in (None, r["program"]):
        print()
    last = r["program"]
    bar = "" if "bar" not in r else (short(r["bar"]) + "/s" if r["bar"] > 10 else f"{r['bar']:.2f}") + ("" if r["met"] else "  missed")
    print(f"{r['name']:{wide}}  {short(r['rate']):>9}  {short(r['limit']):>9}  {r['ratio']:6.2f}  {bar}")
missed = [r for r in rows if not r.get("met", True)]
print(f"\n{len(rows)} figures, {sum('bar' in r for r in rows)} with a bar, {len(missed)} missed; written to {out}")
END
