#!/usr/bin/env bash
# The report holds what it promises, numbers fit together, files are whole. $2 is cmake, which reads JSON.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cmake="$2"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

criteo_rows 5000 >"$work/log.tsv"
sed -i '7s/\t/ /' "$work/log.tsv"
cd "$work"
"$program" --data log.tsv --split 10:8:9 --model deepfm --hidden 16 --dim 4 --batch-size 256 --epochs 3 --ranks 2 --schedule nested --report report.json --predict scores.csv --save model \
  --trace trace.json --timeline timeline.svg --quiet >out.txt
"$cmake" -D REPORT=report.json -D "DIGEST=$(table_value 'parameters digest' out.txt)" -P "$here/report_fields.cmake" || fail "the report"
[[ "$(wc -l <scores.csv)" == 501 ]] || fail "scores.csv has $(wc -l <scores.csv) lines instead of a header and 500"
awk -F, 'NR > 1 { if ($1 % 10 != 9 || (NR > 2 && $1 <= last) || $2 < 0 || $2 > 1) exit 1; last = $1 + 0 }' scores.csv || fail "scores.csv: rows of the test part in order, scores from 0 to 1"
grep -q '"ph":"X"' trace.json || fail "no events in the trace"
grep -q '</svg>' timeline.svg || fail "the timeline is not whole"

# The scores do not depend on who computes them.
"$program" --data log.tsv --split 10:8:9 --model deepfm --hidden 16 --dim 4 --batch-size 256 --epochs 3 --micro-batches 2 --predict again.csv --quiet >/dev/null
cmp -s scores.csv again.csv || fail "one rank predicts other scores than two"

# Only one class in the valid rows: its AUC is not a number, and the report says null.
sed 's/^1/0/' log.tsv >zeros.tsv
"$program" --data log.tsv --valid zeros.tsv --model logistic --report null.json --quiet >out.txt
grep -q '"valid_auc": null' null.json || fail "an AUC of one class is not null: $(grep valid_auc null.json)"

# Loading gives back what was saved, with other ranks too; no training, no change.
"$program" --data log.tsv --split 10:8:9 --model deepfm --hidden 16 --dim 4 --batch-size 256 --ranks 4 --micro-batches 1 --resume model --epochs 0 --report loaded.json --quiet >/dev/null
[[ "$(grep parameters_digest loaded.json)" == "$(grep parameters_digest report.json)" ]] || fail "the loaded parameters are not those saved"

[[ -z "$(find . -name '*.tmp*')" ]] || fail "left behind: $(find . -name '*.tmp*')"
finish
