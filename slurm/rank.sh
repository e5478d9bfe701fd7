#!/usr/bin/env bash
# One rank: python with the given arguments, its output in a file of its own (rank 0's on the job's log too), and a
# file exit_RANK, "SECONDS CODE LOG", by which slurm/job.sh finds the rank that failed first.
set -uo pipefail
printf -v number '%03d' "$RANK"
log="$PIVOTRL_LOGS/node$(printf '%02d' "$SLURM_PROCID")_${SLURMD_NODENAME:-$(hostname -s)}_rank$number.log"
export PYTHONUNBUFFERED=1
rm -f "$PIVOTRL_LOGS/exit_$number"
if [[ $RANK == 0 ]]; then
  "$PYTHON" "$@" > >(tee -a "$log") 2>&1 &
else
  "$PYTHON" "$@" >>"$log" 2>&1 &
fi
child=$!
echo "rank $RANK is process $child on $(hostname -s)" >>"$log"
trap 'kill -TERM "$child" 2>/dev/null' TERM INT
trap 'kill -USR1 "$child" 2>/dev/null' USR1
while kill -0 "$child" 2>/dev/null; do wait "$child"; done # a trapped signal ends `wait` early
wait "$child"
code=$?
echo "$(date +%s.%N) $code $log" >"$PIVOTRL_LOGS/exit_$number"
exit "$code"
