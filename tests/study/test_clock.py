"""The study's clock counts what child processes use, since verdicts are computed in some."""

import subprocess
import sys

from pivotrl.study.work import clock, processor_seconds

BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"


def test_a_childs_seconds_count_while_it_lives_and_after():
    before = processor_seconds()
    with (
        clock() as spent,
        subprocess.Popen(
            [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
    ):
        child.stdout.readline()
        assert processor_seconds() - before >= 0.4
        child.communicate("\n", timeout=60)
    assert 0.4 <= spent["processor_seconds"] < 60
    assert spent["seconds"] >= 0.4
