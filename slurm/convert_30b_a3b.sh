#!/usr/bin/env bash
# The newest checkpoint of the run as a Hugging Face folder, compared with the checkpoint tensor by tensor. One node; no
# GPU is used.
#
#   source slurm/env.sh && sbatch slurm/convert_30b_a3b.sh [FOLDER]        (default: OUTPUT/hf)
#SBATCH --job-name=pivotrl-convert
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
#SBATCH --output=slurm-%x-%j.out
set -euo pipefail
cd "${PIVOTRL_ROOT:-$SLURM_SUBMIT_DIR}"
# shellcheck source=slurm/env.sh
source "${PIVOTRL_ENV:-slurm/env.sh}"
source tools/env.sh

folder="${1:-$OUTPUT/hf}"
checkpoint="$OUTPUT/checkpoints/$(<"$OUTPUT/checkpoints/latest")"
container=()
if [[ -n ${CONTAINER_IMAGE:-} ]]; then
  container=(--container-image="$CONTAINER_IMAGE" --container-workdir="$PWD" --no-container-mount-home)
  [[ -n ${CONTAINER_MOUNTS:-} ]] && container+=(--container-mounts="$CONTAINER_MOUNTS")
fi
srun --nodes=1 --ntasks=1 "${container[@]}" "$PYTHON" tools/convert_hf.py to-hf --checkpoint "$checkpoint" --out "$folder"
srun --nodes=1 --ntasks=1 "${container[@]}" "$PYTHON" tools/convert_hf.py verify --hf "$folder" --checkpoint "$checkpoint"
echo "weights: $folder"
