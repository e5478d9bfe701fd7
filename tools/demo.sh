#!/usr/bin/env bash
# Sets up, then trains a tiny Mixture-of-Experts agent on two CPU processes and writes a report: at most 8 minutes after the set-up.
# Arguments go to the demo: bash tools/demo.sh seed=2
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
bash "$root/tools/setup.sh"
cd "$root"
source tools/env.sh
started="$(mktemp)"
trap 'rm -f "$started"' EXIT
.venv/bin/python -m torch.distributed.run --standalone --nproc-per-node 2 -m pivotrl.demo.run "$@"
find runs -name report.html -newer "$started" -printf 'Report: file://%%s/%p\n' 2>/dev/null | sed "s#%s#$root#"
