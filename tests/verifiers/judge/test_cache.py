import sqlite3
import subprocess
import sys

import pytest

from pivotrl.verifiers.judge.cache import AnswerCache, Kept

WRITER = """
import sys
from pivotrl.verifiers.judge.cache import AnswerCache, Kept
cache = AnswerCache(sys.argv[1])
for index in range(200):
    cache.keep(f"{sys.argv[2]}-{index}", Kept("SAME", index, 1))
    cache.keep(f"shared-{index}", Kept("DIFFERENT", 0, 0))
print(cache.secret().hex())
"""


def test_answers_are_kept(tmp_path):
    cache = AnswerCache(str(tmp_path / "deep" / "folder"))
    assert cache.find(["a"]) == {}
    cache.keep("a", Kept("SAME", 3, 4))
    cache.keep("a", Kept("DIFFERENT", 0, 0))  # the first answer stays
    cache.close()
    again = AnswerCache(str(tmp_path / "deep" / "folder" / "judge.sqlite3"))
    assert again.find(["a", "b"]) == {"a": Kept("SAME", 3, 4)}
    for index in range(1200):
        again.keep(str(index), Kept("UNCLEAR", index, 0))
    assert len(again.find(map(str, range(1300)))) == 1200


def test_processes_share_a_file(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    secrets = {writer.communicate(timeout=60)[0].strip() for writer in writers}
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    cache = AnswerCache(str(tmp_path))
    assert secrets == {cache.secret().hex()}
    keys = [f"{name}-{index}" for name in ("0", "1", "2", "shared") for index in range(200)]
    assert len(cache.find(keys)) == 800


def test_what_is_no_cache_is_named(tmp_path):
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"this is no database, but it is long enough to be looked at " * 40)
    with pytest.raises(ValueError, match=r"broken.sqlite3 cannot be used \(file is not a database\); delete it"):
        AnswerCache(str(broken))
    other = tmp_path / "other.sqlite3"
    connection = sqlite3.connect(other)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ValueError, match="is of version 7, not 1"):
        AnswerCache(str(other))
    with pytest.raises(ValueError, match="~no-such-user/x: Could not determine home directory"):
        AnswerCache("~no-such-user/x")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be made"):
        AnswerCache(str(tmp_path / "file"))
