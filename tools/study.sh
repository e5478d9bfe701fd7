#!/usr/bin/env bash
# Sets up, then runs the whole study (SFT, PivotRL, its ablations, end-to-end RL; two processes side by side) and writes docs/study.md.
# Killed and started again, it continues. With --quick: minutes, small sizes, its page in runs/study_quick/study.md.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
bash "$root/tools/setup.sh"
cd "$root"
source tools/env.sh
page=(--page docs/study.md)
for argument in "$@"; do
    case "$argument" in --quick | --page | --page=*) page=() ;; esac
done
exec .venv/bin/python -m pivotrl.study.run "${page[@]}" "$@"
