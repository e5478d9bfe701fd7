#!/usr/bin/env bash
# What only a GPU can tell about the objective's kernels, about training a prompt once and about an engine's sleep:
# build, test, time. About 3 minutes on one H200 (measured with the kernels alone).
#
#   bash tools/gpu_check.sh [OUT_FOLDER]
#
# Needs Python with torch (CUDA), triton and pytest, and nvcc and g++; nothing of this project has to be installed. The
# definition is timed too where pydantic is there, a training pass where the trainer's packages are, and the engine is
# tested where vLLM is. OUT_FOLDER (default: runs/gpu_check) gets what is printed.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
out="${1:-$root/runs/gpu_check}"
python="${PYTHON:-python3}"
mkdir -p "$out"
cd "$root"
export PYTHONPATH="$root" PYTHONDONTWRITEBYTECODE=1
exec > >(tee "$out/gpu_check.txt") 2>&1

step() { printf '\n== %s (%d s so far)\n' "$*" "$SECONDS"; }
failed=()
try() { "$@" || failed+=("${*:3}"); }  # what fails is told at the end: a GPU's time is dear, and the rest is worth knowing

step "machine"
date -u +%Y-%m-%d
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
"$python" -c 'import torch, triton; print("torch", torch.__version__, "triton", triton.__version__)'
nvcc --version | tail -n 2 | head -n 1

step "csrc/group_loss.cu"
try timeout 180 "$python" -m pivotrl.objective.kernels.library

step "tests"
# The project's own pytest settings ask for plugins and versions that a bare machine lacks.
try timeout 240 "$python" -m pytest -c /dev/null --rootdir "$root" --import-mode=importlib -p no:cacheprovider -q \
  -W ignore::pytest.PytestUnknownMarkWarning -m gpu tests/objective/test_gpu.py tests/objective/test_head.py \
  tests/policy/test_prompt_once_gpu.py

step "tests of the engine"
if "$python" -c 'import vllm, megatron.core, transformers, pydantic' 2>/dev/null; then
  try timeout 600 "$python" -m pytest -c /dev/null --rootdir "$root" --import-mode=importlib -p no:cacheprovider -q \
    -W ignore::pytest.PytestUnknownMarkWarning -m gpu tests/rollout/test_life_gpu.py tests/rollout/test_routes_gpu.py
else
  echo "skipped: vllm, megatron-core, transformers or pydantic is not installed"
fi

step "a refit on one GPU, and what else of the trainer needs one"
if "$python" -c 'import megatron.core, transformers, pydantic' 2>/dev/null; then
  try timeout 240 "$python" -m pytest -c /dev/null --rootdir "$root" --import-mode=importlib -p no:cacheprovider -q -rs \
    -W ignore::pytest.PytestUnknownMarkWarning -m gpu tests/rollout/test_refit_gpu.py tests/policy/test_checkpoint_gpu.py \
    tests/policy/test_memory_gpu.py
else
  echo "not tested: megatron-core, transformers or pydantic is not installed"
fi

step "what the compilers say"
try timeout 120 "$python" tools/bench_kernels.py --compile-only

step "times: the whole vocabulary, and one of eight shards"
try timeout 120 "$python" tools/bench_kernels.py
try timeout 60 "$python" tools/bench_kernels.py --columns 18992
try timeout 60 "$python" tools/bench_kernels.py --dtype float32

step "a group's pass, its prompt once and plain"
if "$python" -c 'import megatron.core, transformers, pydantic' 2>/dev/null; then
  try timeout 180 "$python" tools/bench_prompt_once.py --prompt 4096 --response 256 --hidden 2048 --heads 32 --kv-heads 4 \
    --head-dim 128 --experts 16 --top-k 8 --expert-ffn 768 --vocab 151936
else
  echo "not timed: it runs the trainer, and megatron-core, transformers or pydantic is not installed"
fi

step "done"
if (( ${#failed[@]} )); then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all passed"
