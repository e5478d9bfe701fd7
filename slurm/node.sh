#!/usr/bin/env bash
# The one task of a node: torchrun, which starts a rank for each GPU. Arguments: python's, `-m pivotrl.train ...`.
set -euo pipefail
source tools/env.sh
ulimit -c 0
exec "$PYTHON" -m torch.distributed.run --nnodes="$SLURM_NNODES" --node-rank="$SLURM_PROCID" \
  --nproc-per-node="$GPUS_PER_NODE" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --max-restarts=0 \
  --no-python bash slurm/rank.sh "$@"
