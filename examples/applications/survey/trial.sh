# Runs a server of a trial on the testbed: sh trial.sh one|other DATA VALUES SEED PATH COMMAND
# FLAGS...
#
# The first server generates and splits the plain data. At the end it prints the prediction of
# `transpute plan` for PATH (- for none). Both read their shares in the folder of the keys; in
# production each server has only its own.
set -e
server=$1 data=$2 values=$3 seed=$4 path=$5 command=$6
shift 6
cd "$(dirname "$TRANSPUTE_KEY")"
peer="--identity $TRANSPUTE_KEY --peer $TRANSPUTE_PEER --json"

case $server in
one)
    rm -f ready
    # DATA is a list of flags.
    survey generate plain.csv $data --seed "$seed"
    survey split plain.csv --values "$values"
    touch ready
    survey "$command" plain.csv.a "$@" --role garbler --listen "$TRANSPUTE_A:7700" $peer
    rm ready
    if [ "$path" != - ]; then
        # The shape of the data and the bins, without the transport.
        survey workload --values "$values" "$1" "$2" > workload.json
        transpute plan --workload workload.json --path "$path" --price-per-gb 0.2 --price-per-hour 0.36 --json
    fi
    ;;
other)
    while [ ! -e ready ]; do sleep 0.1; done
    exec survey "$command" plain.csv.b "$@" --expect plain.csv --role evaluator \
        --connect "$TRANSPUTE_A:7700" --wait 20 $peer
    ;;
esac
