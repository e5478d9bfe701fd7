#!/usr/bin/env bash
# Train Qwen3-30B-A3B on its pivots, on 4 nodes of 8 H100, until the run is complete: stopped by the end of the job, it
# saves and is requeued. Arguments are overrides of the configuration.
#
#   source slurm/env.sh && sbatch slurm/train_30b_a3b.sh [section.key=value ...]
#
# 16 nodes: sbatch --nodes=16 slurm/train_30b_a3b.sh
#SBATCH --job-name=pivotrl-train
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

start_attempt "$OUTPUT"
code=0
preflight "$OUTPUT" || code=$?
(( code )) || on_every_node -m pivotrl.train --config "$CONFIG" output="$OUTPUT" "$@" || code=$?
end_attempt "$OUTPUT" "$code"
