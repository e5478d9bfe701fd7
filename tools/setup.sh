#!/usr/bin/env bash
# Makes .venv with everything PivotRL needs on a machine without a GPU. Safe to run again: a finished set-up costs well under a second.
#
#   bash tools/setup.sh
#
# PIVOTRL_PYTHON=/path/to/python chooses the Python (>= 3.11, < 3.15). tools/demo.sh and tools/test.sh call this first.
# On a machine with a GPU the CPU set is installed all the same: these commands run the whole path on the CPU. For the GPU nodes of a cluster, see
# the extra `gpu` in pyproject.toml.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
python="$venv/bin/python"
log="$venv/setup.log"
torch_version=2.13.0
unwanted=(torchvision torchaudio torchcodec) # the reason is in pyproject.toml
cd "$root"
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONNOUSERSITE=1

say() { printf '[setup] %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 2
}

# --- Is it done already? No torch import on this path. ---

# What the environment was made from: the files that define it, its Python, and its place (scripts in bin/ hold absolute paths).
fingerprint() { { cat pyproject.toml tools/setup.sh csrc/group_loss.* && "$python" -VV && echo "$root"; } | sha256sum | cut -d' ' -f1; }

is_current() {
  [ -x "$python" ] && [ -f "$venv/setup.stamp" ] || return 1
  [ "$(cat "$venv/setup.stamp")" = "$(fingerprint 2>&1)" ] || return 1
  ! compgen -G "$venv/lib/python3.*/site-packages/torchvision" >/dev/null || return 1
  [ -z "${PIVOTRL_PYTHON:-}" ] || [ "$("$PIVOTRL_PYTHON" -VV 2>&1)" = "$("$python" -VV)" ]
}

# --- Which Python ---

can_make_venv='import sys
if not (3, 11) <= sys.version_info < (3, 15): sys.exit(f"it is Python {sys.version.split()[0]}; PivotRL needs >= 3.11 and < 3.15")
try: import ensurepip, venv
except ImportError: sys.exit("it has no venv module; on Debian and Ubuntu: apt install python%d.%d-venv" % sys.version_info[:2])'

choose_python() {
  local candidate reason seen=""
  if [ -n "${PIVOTRL_PYTHON:-}" ]; then
    reason="$("$PIVOTRL_PYTHON" -c "$can_make_venv" 2>&1)" || die "PIVOTRL_PYTHON=$PIVOTRL_PYTHON cannot be used: $reason"
    echo "$PIVOTRL_PYTHON"
    return
  fi
  # 3.14 comes last: megatron-core has no wheel for it, so pip compiles it there (needs g++).
  for candidate in python3.11 python3.12 python3.13 python3 python3.14 python; do
    command -v "$candidate" >/dev/null || continue
    if reason="$("$candidate" -c "$can_make_venv" 2>&1)"; then
      command -v "$candidate"
      return
    fi
    seen+=$'\n'"          $candidate: $(tail -n 1 <<<"$reason")"
  done
  die "found no usable Python. Install Python 3.11, 3.12 or 3.13, or name one: PIVOTRL_PYTHON=/path/to/python bash tools/setup.sh${seen:+ (tried:$seen)}"
}

# --- Steps ---

num_steps=7
step_index=0
alive_every=30 # seconds to a dot on a step's line

# Dots until it is killed or the set-up is gone. `read` of a pipe that nobody writes to sleeps without a process of its own,
# which would outlive this one and hold the output open.
dots() {
  exec 9>&-
  while read -rt "$alive_every" <> <(:) || kill -0 $$ 2>/dev/null; do printf . >&2; done
}

# step TITLE HINT COMMAND...: runs COMMAND with its output in the log; one line on the terminal; on failure says what to do and stops.
step() {
  local title="$1" hint="$2" started=$SECONDS lines_before alive status=0
  shift 2
  step_index=$((step_index + 1))
  lines_before=$(wc -l <"$log")
  printf '[setup] %d/%d %-58s' "$step_index" "$num_steps" "$title" >&2
  printf '\n=== %s: %s\n' "$title" "$*" >>"$log"
  dots &
  alive=$!
  if "$@" >>"$log" 2>&1; then :; else status=1; fi
  kill "$alive" 2>/dev/null || true
  wait "$alive" 2>/dev/null || true
  if [ "$status" = 0 ]; then
    printf '%4d s\n' $((SECONDS - started)) >&2
    return
  fi
  printf ' FAILED\n' >&2
  say "step $step_index of $num_steps failed: $title. The end of its log ($log):"
  tail -n "+$((lines_before + 3))" "$log" | grep -v '^WARNING: Location' | tail -n 15 | sed 's/^/          | /' >&2
  if tail -n "+$lines_before" "$log" | grep -qi 'no space left'; then hint="the disk is full: the environment takes 4 GB here and about as much again in pip's cache and temporary folder."; fi
  say "what to do: $hint"
  say "then run the same command again; it continues from what is there. To start from nothing: rm -rf $venv"
  exit 1
}

# Leftovers of a set-up that was killed: pip writes RECORD last, so a package without one is half there and must not count as installed.
drop_half_installed() {
  local info
  for info in "$venv"/lib/python3.*/site-packages/*.dist-info; do
    if [ -d "$info" ] && [ ! -f "$info/RECORD" ]; then rm -rf "$info"; fi
  done
  rm -rf "$venv"/lib/python3.*/site-packages/~*
}

make_venv() {
  local wanted="$1"
  if [ -x "$python" ] && "$python" -m pip --version && grep -qF "$venv" "$venv/pyvenv.cfg" && [ "$("$python" -VV)" = "$("$wanted" -VV)" ]; then
    drop_half_installed
    return
  fi
  # Everything but the lock, which is held, and the log, which is open.
  find "$venv" -mindepth 1 -maxdepth 1 ! -name setup.lock ! -name setup.log -exec rm -rf {} +
  "$wanted" -m venv "$venv"
}

has_cpu_torch() { "$python" -c 'from importlib.metadata import version; assert version("torch") == "'"$torch_version"'+cpu"' 2>/dev/null; }

# pip knows the CPU build only where a folder of wheels is configured. Elsewhere uv finds it: it knows PyTorch's own CPU index by itself,
# where a plain `pip install torch` would take a CUDA build of several GB.
install_torch() {
  has_cpu_torch && return
  "$python" -m pip install --quiet "torch==$torch_version+cpu" && return
  echo "pip found no CPU build of torch $torch_version; trying uv"
  "$python" -m pip install --quiet uv
  "$python" -m uv pip install --python "$python" --torch-backend=cpu --reinstall-package torch "torch==$torch_version"
}

install_rest() {
  echo "torch==$torch_version+cpu" >"$venv/constraints.txt"
  "$python" -m pip install --quiet --constraint "$venv/constraints.txt" --editable ".[cpu,dev]"
}

remove_unwanted() { "$python" -m pip uninstall --quiet --yes "${unwanted[@]}"; }

check_imports() {
  # VLLM and Megatron print warnings on import; only a traceback matters here.
  OMP_NUM_THREADS=1 "$python" - "${unwanted[@]}" <<'PYTHON'
import importlib.util
import sys

import torch

assert torch.version.cuda is None, f"torch {torch.__version__} is a CUDA build"
for name in sys.argv[1:]:
    assert importlib.util.find_spec(name) is None, f"{name} is still installed"
import megatron.core
import torch.utils.tensorboard
import transformers
import vllm
from vllm import LLM

import pivotrl

print("torch", torch.__version__, "megatron-core", megatron.core.__version__, "vllm", vllm.__version__, "transformers", transformers.__version__)
PYTHON
}

main() {
  if is_current; then return; fi
  [ "$(uname -s)" = Linux ] || die "this set-up is for Linux; found $(uname -s). vLLM's CPU wheels and the gloo paths used here are tested on Linux only."
  mkdir -p "$venv"
  exec 9>"$venv/setup.lock"
  if ! flock --nonblock 9; then
    say "another set-up of this folder is running; waiting for it"
    flock 9
    if is_current; then return; fi
  fi
  local wanted
  wanted="$(choose_python)"
  rm -f "$venv/setup.stamp"
  : >"$log"
  say "setting up $venv with $("$wanted" -V 2>&1) ($wanted): 2 to 15 minutes the first time, most of it packages on their way, and 4 GB. Log: $log"
  local network="is there a connection to a Python package index? Behind a proxy, set HTTPS_PROXY; with a folder of wheels, set PIP_FIND_LINKS."
  step "virtual environment" "check that '$wanted -m venv' works and that $venv can be written." make_venv "$wanted"
  step "torch $torch_version, CPU build" "$network" install_torch
  step "vLLM, Megatron-Core and the rest" "$network" install_rest
  step "removing ${unwanted[*]}" "look at the log." remove_unwanted
  step "checking the imports" "remove $venv and run again; if it fails again, report the log with your Python version and CPU." check_imports
  step "the CUDA kernel, where nvcc is" "the log has the compiler's words; without nvcc on PATH the objective runs by its definition." "$python" -m pivotrl.objective.kernels.library --optional
  step "writing the stamp" "check that $venv can be written." sh -c 'echo "$1" >"$2.new" && mv "$2.new" "$2"' sh "$(fingerprint)" "$venv/setup.stamp"
}

main
