"""Selection's memory: what a row adds, from reading to sampling."""

import json
import subprocess
import sys

from tests.launch import REPOSITORY

ROWS = (2_000, 14_000)
MOST_BYTES = 1_000
"""That a row may add; a million then take less than 1 GB."""


def test_a_row_adds_little_to_the_memory_of_reading_selection_and_sampling(tmp_path):
    """One row is 740 bytes of JSON and some 4,000 in Python: holding the rows would show."""
    peaks = []
    for rows in ROWS:
        command = [sys.executable, str(REPOSITORY / "tools" / "bench_selection.py"), "rows", "--rows", str(rows)]
        command += ["--steps", "10", "--folder", str(tmp_path / str(rows))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["rows"] == rows and found["pivots"] == found["candidates"] > 0.8 * rows
        assert found["sampled"] == 10 * 64
        peaks.append(found["stages"]["sample"]["peak_mib"] * 2**20)
    assert (peaks[1] - peaks[0]) / (ROWS[1] - ROWS[0]) < MOST_BYTES
