#!/usr/bin/env bash
# Sets up, then runs the whole study (SFT, PivotRL, its ablations, end-to-end RL; two processes side by side) and writes docs/study.md; then
# the smaller one from a base for which most turns are settled, and docs/study_settled.md.
# Killed and started again, it continues. With --quick: minutes, small sizes, pages in runs/study_quick and runs/study_settled_quick.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
out=runs/study
pages=(--page docs/study.md --page docs/study_settled.md)
case "$*" in
    "" | "--page-only") ;;
    "--quick" | "--quick --page-only") out=runs/study_quick pages=() ;;
    *)
        echo "study.sh: found '$*'; write nothing, --quick, or --page-only behind either (python -m pivotrl.study.run has more options)" >&2
        exit 2
        ;;
esac
bash "$root/tools/setup.sh"
cd "$root"
source tools/env.sh
.venv/bin/python -m pivotrl.study.run --out "$out" "${pages[@]:0:2}" "$@"
exec .venv/bin/python -m pivotrl.study.run --settled "$out" "${pages[@]:2:2}" "$@"
