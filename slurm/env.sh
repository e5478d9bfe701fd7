# The one file to edit: what this cluster and this run are called. Sourced by the jobs, and by you before sbatch:
#
#   source slurm/env.sh && sbatch slurm/train_30b_a3b.sh
#
# A second run gets a copy of this file: export PIVOTRL_ENV=/path/of/the/copy, then source that.
# Paths must be seen by every node. Relative ones start at the repository's folder.

# ---- the cluster -----------------------------------------------------------------------------------------------------
# export SBATCH_ACCOUNT=my_account       # sbatch reads these two; unset: the cluster's defaults
# export SBATCH_PARTITION=my_partition
export GPUS_PER_NODE="${GPUS_PER_NODE:-8}" # another number needs `sbatch --gpus-per-node=N` too

# ---- the software: a Python on the shared disk, or one inside a container (pyxis) ------------------------------------
export PYTHON="${PYTHON:-.venv/bin/python}"
export CONTAINER_IMAGE="${CONTAINER_IMAGE:-}"   # empty: no container
export CONTAINER_MOUNTS="${CONTAINER_MOUNTS:-}" # the repository and the folders below, for example /lustre:/lustre

# ---- the run ---------------------------------------------------------------------------------------------------------
export CONFIG="${CONFIG:-configs/qwen3_30b_a3b.yaml}"
export OUTPUT="${OUTPUT:-runs/qwen3_30b_a3b}" # in place of the configuration's `output`

# ---- the network -----------------------------------------------------------------------------------------------------
# export NCCL_SOCKET_IFNAME=ib0 GLOO_SOCKET_IFNAME=ib0 # where nodes have several interfaces: the one they reach each other by
# export NCCL_IB_HCA=mlx5                              # where NCCL must not use every InfiniBand adapter
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"

# ---- limits ----------------------------------------------------------------------------------------------------------
# Seconds that are left before the job's end when the last step has been finished. The save must fit.
export PIVOTRL_MARGIN_SECONDS="${PIVOTRL_MARGIN_SECONDS:-120}"
# A rank that finishes no step for so long prints the stacks of its threads to its log. 0: never.
export PIVOTRL_HANG_SECONDS="${PIVOTRL_HANG_SECONDS:-1800}"
# Requeued so often without one more finished step, the job gives up.
export PIVOTRL_IDLE_REQUEUES="${PIVOTRL_IDLE_REQUEUES:-2}"
# Look at every node before each attempt; 0 does not.
export PREFLIGHT="${PREFLIGHT:-1}"
# The preflight stops the job below these; 0 does not ask. GB/s are those of an all-reduce (bus bandwidth, as nccl-tests
# counts it). PCIe 5 cannot reach 100 within a node, nor 100 Gb/s Ethernet 13 between nodes: set what yours should reach.
export PREFLIGHT_NODE_GBPS="${PREFLIGHT_NODE_GBPS:-100}"
export PREFLIGHT_LINK_GBPS="${PREFLIGHT_LINK_GBPS:-13}"
export PREFLIGHT_OUTPUT_GIB="${PREFLIGHT_OUTPUT_GIB:-1000}" # free space; a checkpoint of 30B-A3B is about 14 bytes a parameter
export PREFLIGHT_TMP_GIB="${PREFLIGHT_TMP_GIB:-10}"
export PREFLIGHT_SHM_GIB="${PREFLIGHT_SHM_GIB:-10}"
export PREFLIGHT_CLOCK_SECONDS="${PREFLIGHT_CLOCK_SECONDS:-2}"
