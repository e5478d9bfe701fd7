#!/usr/bin/env bash
# Find the pivots of the run's trajectories with the frozen policy; stopped by the end of the job, it is requeued and
# goes on. Arguments are overrides of the configuration.
#
#   source slurm/env.sh && sbatch slurm/select_pivots_30b_a3b.sh trajectories.files=[data/trajectories.jsonl]
#SBATCH --job-name=pivotrl-select
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%x-%j.out
set -euo pipefail
cd "${PIVOTRL_ROOT:-$SLURM_SUBMIT_DIR}"
# shellcheck source=slurm/env.sh
source "${PIVOTRL_ENV:-slurm/env.sh}"
source slurm/job.sh

start_attempt "$OUTPUT/pivots"
code=0
preflight "$OUTPUT" || code=$?
(( code )) || on_every_node tools/select_pivots.py --config "$CONFIG" output="$OUTPUT" "$@" || code=$?
end_attempt "$OUTPUT/pivots" "$code"
