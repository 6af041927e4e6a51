#!/usr/bin/env bash
# Bad values and bad input: the exit status, one line on standard error that says what and where, and no file half written.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$work"
criteo_rows 400 >good.tsv
: >empty.tsv
printf '\n\n' >blank.tsv
mkdir folder
gzip -c good.tsv | head -c 4000 >cut.tsv.gz
for i in $(seq 1200); do echo "line $i is no sample"; done >junk.tsv
{ cat junk.tsv; cat good.tsv; } >late.tsv
sed '100s/\t[^\t]*$//' good.tsv >columns.tsv
sed '100s/[^\t]*$/zz/' good.tsv >hex.tsv
sed '100s/^[01]/2/' good.tsv >label.tsv
printf 'label,a,b\n1,x,3\n0,y,4\n' >small.csv
printf '1 3:1 4:nan\n' >nan.libsvm
printf 'label,a,b\r\n' >header.csv

small='--data synthetic --synthetic-rows 3000 --synthetic-valid-rows 200 --model logistic --quiet'
cases=0

# refuse <status> <regular expression of the line> <arguments...>
refuse() {
  local want="$1" sentence="$2" status=0
  shift 2
  cases=$((cases + 1))
  # shellcheck disable=SC2086
  timeout 60 "$program" "$@" --report report.json --save saved >out.txt 2>err.txt </dev/null || status=$?
  [[ "$status" == "$want" ]] || fail "status $status instead of $want: train_ctr $*: $(head -c 300 err.txt)"
  [[ "$(wc -l <err.txt)" == 1 ]] || fail "$(wc -l <err.txt) lines on standard error: train_ctr $*"
  grep -Eq -- "^train_ctr: .*$sentence" err.txt || fail "train_ctr $* said: $(head -c 300 err.txt)"
  [[ -z "$(find . -name 'report.json*' -o -name 'saved*')" ]] || fail "left files behind: train_ctr $*: $(find . -name 'report.json*' -o -name 'saved*')"
  rm -rf report.json* saved*
}

# A bad value on the command line: 2.
refuse 2 'no data' --model logistic
refuse 2 'not expected: --frobnicate' --frobnicate
refuse 2 'not expected: word' $small word
refuse 2 "codec: there is no 'int9'" $small --codec int9
refuse 2 'admit-probability must be above 0' $small --admit-probability 0
refuse 2 'do not hold the counts of admission' $small --admit-count 3
refuse 2 '--ranks must be at least 1' $small --ranks 0
refuse 2 'cannot be negative: -2' $small --ranks -2
refuse 2 '--dim must be at least 1' $small --dim 0
refuse 2 '--lr must be a finite number' $small --lr nan
refuse 2 '--lr must be a finite number' $small --lr inf
refuse 2 '--lr must be a finite number' $small --lr -0.1
refuse 2 '--dense-lr must be a finite number' $small --dense-lr nan
refuse 2 '--l2 must be a finite number' $small --l2 -1
refuse 2 '--row-clip must be a finite number' $small --row-clip -1
refuse 2 'Could not convert: --lr = fast' $small --lr fast
refuse 2 'beta1 is 1.5' $small --optimizer adam --beta1 1.5
refuse 2 '--keep belongs to --save-every' $small --keep 2
refuse 2 '--incremental belongs to --save-every' $small --incremental
refuse 2 '--l1 does nothing with the optimizer adagrad' $small --l1 0.1
refuse 2 '--dense-momentum does nothing with the optimizer adam; leave it out; adam reads lr, l2, eps, beta1, beta2' $small --dense-momentum 0.9
refuse 2 '--batch-size must be at least 1' $small --batch-size 0
refuse 2 'cannot be negative: -5' $small --batch-size -5
refuse 2 '--micro-batches must be at least 1' $small --micro-batches 0
refuse 2 '8 micro-batches do not divide among 3 ranks' $small --total-micro-batches 8 --ranks 3
refuse 2 'excludes' $small --total-micro-batches 8 --micro-batches 2
refuse 2 '--decay-power must be' $small --decay-power 0
refuse 2 '--link-latency must be a finite number' $small --link-latency -1
refuse 2 '--decay-end is a factor' $small --decay-end 2
refuse 2 "there is no 'svd'" --data synthetic --model svd
refuse 2 "there is no 'random'" $small --schedule random
refuse 2 "there is no 'gpu'" $small --executor gpu
refuse 2 "there is no 'magic'" $small --optimizer magic
refuse 2 "there is no 'xml'" --data good.tsv --format xml
refuse 2 '--early-rows belongs to' $small --schedule sequential --early-rows on
refuse 2 '--split-backward belongs to' $small --schedule prefetch --split-backward off
refuse 2 'storage dense needs' --data good.tsv --storage dense
refuse 2 'describe a CSV file' --data good.tsv --label x
refuse 2 'needs its input columns named' --data small.csv --format csv --label label
refuse 2 'needs its label column named' --data small.csv --format csv --categorical a
refuse 2 'COLUMN:BUCKETS' --data small.csv --format csv --label label --dense b --bucketize b
refuse 2 'MOD:VALID:TEST' --data good.tsv --split 10:8
refuse 2 'same rows' --data good.tsv --split 10:8:8
refuse 2 'valid rows are given twice' --data good.tsv --split 10:8:9 --valid good.tsv
refuse 2 'two ways to split' --data good.tsv --split 10:8:9 --train-rows 100
refuse 2 '--patience needs valid rows' --data good.tsv --patience 1
refuse 2 '--predict writes the scores of the test rows' --data good.tsv --predict scores.csv
refuse 2 'standard input can be read only once' --data - --epochs 2
refuse 2 'makes its own valid and test rows' $small --test good.tsv

# What comes in a later version says so.
refuse 2 'rafm comes in a later version' --data synthetic --model rafm
refuse 2 'bounded_staleness comes in a later version' $small --schedule bounded_staleness
refuse 2 'needs to know how much memory' $small --storage tiered
refuse 2 'at least 64K' $small --storage tiered --memory-budget 1K
refuse 2 'bounds the fast tier of --storage tiered' $small --memory-budget 1M
refuse 2 '--slow-tier belongs to' $small --slow-tier rocksdb
refuse 2 'file comes in a later version' $small --storage tiered --memory-budget 1M --slow-tier file
refuse 2 '--storage-dir is where' $small --storage-dir .
refuse 2 '--look-ahead belongs to the schedules' $small --schedule sequential --look-ahead 4
refuse 2 '--look-ahead is at most 59' $small --look-ahead 60
refuse 2 "--cluster: there is no 'best'" $small --cluster best
refuse 2 '--cluster-groups 3 must be a multiple of the 2 ranks' $small --ranks 2 --cluster-groups 3
refuse 2 '--threads must be at least 1' $small --threads 0
refuse 2 'per-rank comes in a later version' $small --files per-rank

# What is found on opening or reading: 1.
refuse 1 'No such file or directory \(missing.tsv\)' --data missing.tsv
refuse 1 'empty \(empty.tsv\)' --data empty.tsv
refuse 1 'no data rows' --data blank.tsv
refuse 1 'directory' --data folder
refuse 1 'empty \(empty.tsv\)' --data good.tsv --valid empty.tsv
refuse 1 'No such file or directory \(missing.tsv\)' --data good.tsv --test missing.tsv
refuse 1 'is empty|no data rows' --data -
refuse 1 'gzip file is cut.*cut.tsv.gz' --data cut.tsv.gz
refuse 1 'gzip file is cut.*cut.tsv.gz' --data cut.tsv.gz --ranks 3 --schedule nested
refuse 1 'no usable line among the first 1[0-9]*.*junk.tsv:1' --data junk.tsv
refuse 1 'no usable line among the first 1[0-9]*.*late.tsv:1' --data late.tsv --batch-size 500
refuse 1 'no usable line' --data junk.tsv --ranks 4 --batch-size 100
refuse 1 "no column named 'click'.*label, a, b" --data small.csv --format csv --label click --categorical a
refuse 1 'no data rows' --data header.csv --format csv --label label --categorical a
refuse 1 '39 columns.*columns.tsv:100' --data columns.tsv --strict
refuse 1 "cat_25.*'zz'.*hex.tsv:100" --data hex.tsv --strict
refuse 1 "label.*'2'.*label.tsv:100" --data label.tsv --strict
refuse 1 'nan.libsvm:1' --data nan.libsvm --format libsvm --strict --model fm
refuse 1 'no usable line' --data nan.libsvm --format libsvm --model fm
refuse 1 'no checkpoint.*nowhere' --data good.tsv --resume nowhere
refuse 1 'loss is not finite|not finite' --data good.tsv --model fm --optimizer sgd --lr 1e30 --dense-optimizer sgd --dense-lr 1e30 --epochs 50

# One rank of four fails: the line names it, the stage and the batch, within seconds.
refuse 1 "hex.tsv:100.*\\(rank 1, stage read, batch 1\\)" --data hex.tsv --strict --ranks 4 --batch-size 200
refuse 1 "hex.tsv:100.*\\(rank 0, stage read, batch 2\\)" --data hex.tsv --strict --ranks 4 --batch-size 80 --schedule nested

# A report that cannot be written is found out before training.
status=0
"$program" $small --report nowhere/report.json >out.txt 2>err.txt || status=$?
[[ "$status" == 1 && "$(wc -l <err.txt)" == 1 && ! -s out.txt ]] || fail "report in a folder that does not exist: status $status, $(cat err.txt)"

# Malformed lines that are few are counted and shown, and training goes on.
"$program" --data columns.tsv --model logistic >out.txt 2>err.txt || fail "one malformed line ended the run: $(cat err.txt)"
grep -q 'malformed: columns.tsv:100: ' out.txt || fail "the malformed line was not shown"
grep -q 'malformed lines *1 of 400' out.txt || fail "the malformed line was not counted: $(cat out.txt)"
[[ ! -s err.txt ]] || fail "a run that ended well wrote to standard error: $(cat err.txt)"

printf '%d cases\n' "$cases"
finish
