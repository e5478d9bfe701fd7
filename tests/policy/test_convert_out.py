"""The folder that a conversion writes: nobody else's is touched, and nothing half-written is left."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.policy.convert_out import SUFFIX, refuse_used, written_whole
from tests.launch import REPOSITORY


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=f"--out .*: {tmp_path / 'file'} is a file"):
        refuse_used(tmp_path / "file" / "a" / "b")
    with pytest.raises(ValueError, match="File name too long"):
        refuse_used(tmp_path / ("x" * 300))
    refuse_used(tmp_path / "new" / "folder")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="it is a link"):
        refuse_used(tmp_path / "link")
    monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root, who may write everywhere
    with pytest.raises(ValueError, match=f"{tmp_path} may not be written"):
        refuse_used(tmp_path / "new" / "folder")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    said = r"--out .*: cannot make .* \(Not a directory\)"
    with pytest.raises(ValueError, match=said), written_whole(tmp_path / "file" / "out", tmp_path):
        pass


def test_a_folder_beside_it_stays_whatever_its_name(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "out.partial"
    other.mkdir()
    (other / "thesis").write_text("years")
    with written_whole(out, other) as folder:
        (folder / "weights").write_text("w")
    assert (other / "thesis").read_text() == "years"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.partial"]
    said, new = "is the unfinished folder of that name", tmp_path / "new"
    with pytest.raises(ValueError, match=said), written_whole(new, tmp_path / f"new{SUFFIX}"):
        pass


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("unexpected pos"), KeyboardInterrupt()]
)
def test_work_that_fails_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    kind = ValueError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind) as raised, written_whole(tmp_path / "out", tmp_path) as folder:
        (folder / "half").mkdir()
        raise error
    assert list(tmp_path.iterdir()) == []
    if isinstance(error, OSError):
        said = f"--out {tmp_path / 'out'}: it could not be written (No space left on device)"
        assert str(raised.value) == said


def test_a_full_disk_is_said_where_torch_hides_it(tmp_path: Path) -> None:
    said = re.escape("(No space left on device)")
    with pytest.raises(ValueError, match=said), written_whole(tmp_path / "out", tmp_path):
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 704 vs 598")


def test_two_at_once_and_what_a_killed_one_leaves(tmp_path: Path) -> None:
    work = (
        "import sys, time; from pathlib import Path; from pivotrl.policy.convert_out import written_whole\n"
        "with written_whole(Path(sys.argv[1]), Path('/')) as folder:\n"
        "    (folder / 'half').write_text('x'); print('at work', flush=True); time.sleep(60)\n"
    )
    out = tmp_path / "out"
    other = subprocess.Popen([sys.executable, "-c", work, out], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "at work\n"
        with pytest.raises(ValueError, match="another command writes"), written_whole(out, tmp_path):
            pass
        assert (tmp_path / f"out{SUFFIX}" / "half").exists()
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    with written_whole(out, tmp_path) as folder:
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == [out]
