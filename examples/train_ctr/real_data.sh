#!/usr/bin/env bash
# bash real_data.sh <data folder> [<set> [<model> [further flags...]]]
#
# Trains on real logs: kuairand-ctr, movielens-tag-slice, adult-census, criteo-1tb-day0-1k, open-bandit-small, paddlerec-slots; all of them without <set>.
# <model>: logistic, fm, deepfm, dcn, dlrm, or all (the default), which prints a table of valid and test AUC, test log loss and test error;
# the three small samples are trained with logistic unless another is named.
# The program is $TRAIN_CTR, else the one that quickstart.sh has built. The numbers of the first three sets were chosen by valid AUC alone, among
# 8 to 42 draws per model; the three small samples show that a format is read, not how well a model can be.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if (($# < 1)); then
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
if (($# < 2)); then
  for one in adult-census movielens-tag-slice kuairand-ctr criteo-1tb-day0-1k open-bandit-small paddlerec-slots; do
    printf '\n%s\n' "$one"
    bash "${BASH_SOURCE[0]}" "$1" "$one"
  done
  exit 0
fi
program="${TRAIN_CTR:-$here/../../build/quickstart/examples/train_ctr}"
folder="$1/$2" set="$2" model="${3:-all}"
further=("${@:4}")
[[ -x "$program" ]] || { echo "real_data.sh: no program at $program: run cmake/quickstart.sh first, or set TRAIN_CTR" >&2; exit 2; }
[[ -d "$folder" ]] || { echo "real_data.sh: there is no folder $folder" >&2; exit 2; }

case "$set/$model" in
  criteo*/all | open*/all | paddlerec*/all) model=logistic ;;  # nothing to compare: no valid or test rows
esac

common=() tuned=()
describe() {  # describe <model>: fills common (what the data are) and tuned (numbers of the model)
  tuned=()
  case "$set" in
    kuairand-ctr)
      common=(--data "$folder/train.csv.gz" --valid "$folder/valid.csv.gz" --test "$folder/test.csv.gz" --format csv --label is_click --separator '|'
        --categorical user_id,video_id,author_id,music_id,video_type,upload_type,tag,tab,hour,user_active_degree,follow_user_num_range,fans_user_num_range,friend_user_num_range,register_days_range
        --dense video_duration_s,video_age_days,follow_user_num,fans_user_num,register_days --standardize --shuffle-window 1000000 --patience 2)
      ;;
    movielens-tag-slice)
      common=(--data "$folder/movielenslatest_x1.test.csv.gz" --split 10:8:9 --format csv --label label --categorical user_id,item_id,tag_id --shuffle-window 1000000 --patience 2)
      ;;
    adult-census)  # the last tenth of the training rows is for validation; the first line of adult.test is no sample and is skipped as malformed
      common=(--data "$folder/adult.data.gz" --train-rows 29305 --test "$folder/adult.test.gz" --format csv
        --columns age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,capital-loss,hours-per-week,native-country,income
        --label income --positive '>50K' --positive '>50K.'
        --categorical workclass,education,marital-status,occupation,relationship,race,sex,native-country
        --dense age,education-num,capital-gain,capital-loss,hours-per-week --standardize
        --bucketize age:20 --bucketize hours-per-week:10 --bucketize capital-gain:50 --bucketize capital-loss:50 --shuffle-window 1000000 --patience 2)
      ;;
    criteo-1tb-day0-1k)
      common=(--data "$folder/day_0_first1000.tsv" --format criteo --batch-size 100)
      ;;
    open-bandit-small)  # its first column has no name: it would be #0
      common=(--data "$folder/random_men.csv.gz" --format csv --label click --categorical item_id,position,user_feature_0,user_feature_1,user_feature_2,user_feature_3
        --dense propensity_score --batch-size 500)
      ;;
    paddlerec-slots)
      common=(--data "$folder/slot_dnn_demo_10.txt" --format slots --batch-size 10)
      ;;
    *)
      echo "real_data.sh: there is no set '$set'" >&2
      exit 2
      ;;
  esac
  case "$set/$1" in
    kuairand-ctr/logistic) tuned=(--optimizer adam --lr 0.003 --l2 0.0001 --dense-lr 0.01 --batch-size 1024 --epochs 30 --min-count 1) ;;
    kuairand-ctr/fm) tuned=(--optimizer adagrad --lr 0.02 --l2 0.0001 --dense-lr 0.01 --batch-size 1024 --epochs 30 --min-count 1 --dim 10) ;;
    kuairand-ctr/deepfm) tuned=(--optimizer adagrad --lr 0.02 --l2 0.0003 --dense-lr 0.0006 --batch-size 1024 --epochs 3 --decay-steps 252 --decay-end 0.1 --min-count 3 --dim 10 --hidden 64,32) ;;
    kuairand-ctr/dcn) tuned=(--optimizer adagrad --lr 0.03 --l2 0.0001 --dense-lr 0.001 --batch-size 1024 --epochs 3 --decay-steps 252 --min-count 3 --dim 16 --hidden 128,64 --cross-layers 1) ;;
    kuairand-ctr/dlrm) tuned=(--optimizer adagrad --lr 0.015 --dense-lr 0.0003 --batch-size 1024 --epochs 12 --min-count 2 --dim 10 --hidden 64 --bottom 64) ;;
    movielens-tag-slice/logistic) tuned=(--optimizer adagrad --lr 0.2 --l2 1e-06 --dense-lr 0.01 --batch-size 1024 --epochs 30) ;;
    movielens-tag-slice/fm) tuned=(--optimizer adam --lr 0.006 --l2 0.0001 --dense-lr 0.003 --batch-size 1024 --epochs 30 --dim 10) ;;
    movielens-tag-slice/deepfm) tuned=(--optimizer adagrad --lr 0.1 --l2 0.0001 --dense-lr 0.0003 --batch-size 1024 --epochs 12 --dim 10 --hidden 64) ;;
    movielens-tag-slice/dcn) tuned=(--optimizer adam --lr 0.003 --l2 1e-06 --dense-lr 0.0003 --batch-size 4096 --epochs 12 --dim 4 --hidden 64,32 --cross-layers 2) ;;
    movielens-tag-slice/dlrm) tuned=(--optimizer adagrad --lr 0.12 --l2 1e-05 --dense-lr 0.0003 --batch-size 4096 --epochs 12 --dim 10 --hidden 128,64 --bottom 64) ;;
    adult-census/logistic) tuned=(--optimizer adagrad --lr 0.2 --dense-lr 0.01 --batch-size 2048 --epochs 30) ;;
    adult-census/fm) tuned=(--optimizer adagrad --lr 0.2 --l2 1e-05 --dense-lr 0.003 --batch-size 2048 --epochs 30 --dim 10) ;;
    adult-census/deepfm) tuned=(--optimizer adagrad --lr 0.1 --l2 0.0001 --dense-lr 0.001 --batch-size 1024 --epochs 12 --dim 4 --hidden 128,64) ;;
    adult-census/dcn) tuned=(--optimizer adagrad --lr 0.1 --l2 0.0001 --dense-lr 0.0003 --batch-size 1024 --epochs 12 --dim 10 --hidden 64 --cross-layers 1) ;;
    adult-census/dlrm) tuned=(--optimizer adam --lr 0.01 --dense-lr 0.0003 --batch-size 1024 --epochs 12 --dim 10 --hidden 128,64 --bottom 32) ;;
  esac
}

run() {  # run <model> [flags...]
  local m="$1"
  shift
  describe "$m"
  "$program" "${common[@]}" --model "$m" "${tuned[@]}" "${further[@]}" "$@"
}

if [[ "$model" != all ]]; then
  run "$model"
  exit 0
fi
table="$(mktemp)"
trap 'rm -f "$table"' EXIT
printf '%-10s %10s %10s %14s %12s\n' model 'valid AUC' 'test AUC' 'test log loss' 'test error'
for m in logistic fm deepfm dcn dlrm; do
  run "$m" --quiet >"$table"
  value() { sed -n "s/^  $1  *\([^ ]*\).*/\1/p" "$table" | head -n 1; }
  printf '%-10s %10s %10s %14s %12s\n' "$m" "$(value 'valid AUC')" "$(value 'test AUC')" "$(value 'test log loss')" "$(value 'test error')"
done
