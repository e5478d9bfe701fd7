#!/usr/bin/env bash
# Sets up, checks style, and runs the tests. Arguments go to pytest: bash tools/test.sh tests/verifiers -k golden
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
bash "$root/tools/setup.sh"
cd "$root"
source tools/env.sh
python=.venv/bin/python
"$python" -m ruff check .
"$python" -m ruff format --check .
exec "$python" -m pytest "$@"
