"""Being asked to stop, on one rank and on several, and the stacks of a rank that hangs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pivotrl.cluster import state
from pivotrl.cluster.preemption import Preemption, Stopped
from pivotrl.pivots.selection import select_pivots
from tests.launch import launch
from tests.pivots.fakes import FakeEngine, FakeParser, FakeTemplate, bytes_of, run_config
from tests.trajectories.rows import chat_row, write_rows


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_asks_and_the_handler_is_put_back(number: int) -> None:
    before = signal.getsignal(number)
    with Preemption(environment={}) as preemption:
        assert preemption.asked() == ""
        os.kill(os.getpid(), number)
        assert preemption.asked() == "a signal"
        assert preemption.asked() == "a signal", "it stays asked"
    assert signal.getsignal(number) == before


def test_a_file_asks(tmp_path: Path) -> None:
    file = tmp_path / "stop"
    preemption = Preemption(environment={"PIVOTRL_STOP_FILE": str(file)})
    assert preemption.asked() == ""
    file.touch()
    assert preemption.asked() == "a stop file"


def test_the_deadline_leaves_room_for_the_slowest_step() -> None:
    now = [1000.0]
    variables = {"PIVOTRL_DEADLINE": "1100", "PIVOTRL_MARGIN_SECONDS": "10"}
    preemption = Preemption(environment=variables, clock=lambda: now[0])
    for seconds, reason in [(30, ""), (5, ""), (25, ""), (1, "the end of the job")]:  # 1060 + 30 + 10 just fits
        now[0] += seconds
        assert preemption.asked() == reason, now


def test_a_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="PIVOTRL_DEADLINE is 'noon': write a number of seconds"):
        Preemption(environment={"PIVOTRL_DEADLINE": "noon"})


def test_ranks_agree_when_one_of_them_is_asked() -> None:
    said = launch(2, Path(__file__).with_name("asked_ranks.py"))
    assert sorted(said.split()) == ["rank0:asignal:2", "rank1:asignal:2"], said


def test_a_selection_that_is_asked_ends_and_goes_on(tmp_path: Path) -> None:
    files = [write_rows(tmp_path / "a.jsonl", [chat_row(f"row{index}") for index in range(20)])]
    config = run_config(files)
    whole = FakeEngine()
    select_pivots(config, whole, FakeParser(), FakeTemplate(), tmp_path / "whole")
    asks = iter(["", "a signal"])
    engine = FakeEngine()
    with pytest.raises(Stopped, match=r"stopped by a signal after 16 of \d+ turns") as caught:
        select_pivots(config, engine, FakeParser(), FakeTemplate(), tmp_path / "part", lambda: next(asks))
    assert engine.calls == 2 and caught.value.done == 16 < caught.value.total
    again = FakeEngine()
    select_pivots(config, again, FakeParser(), FakeTemplate(), tmp_path / "part")
    assert engine.calls + again.calls == whole.calls
    assert bytes_of(tmp_path / "part") == bytes_of(tmp_path / "whole")


def test_the_state_is_one_key_a_line(tmp_path: Path) -> None:
    state.write(tmp_path / "run", 3, 10, "a signal")
    file = tmp_path / "run" / state.NAME
    assert json.loads(file.read_text()) == {"finished": False, "step": 3, "steps": 10, "stopped": "a signal"}
    assert '  "step": 3,\n' in file.read_text(), "slurm/job.sh reads it with sed"
    state.write(tmp_path / "run", 10, 10)
    assert '"finished": true' in file.read_text()


def test_a_rank_that_hangs_prints_its_stacks() -> None:
    code = (
        "import time; from pivotrl.cluster.watchdog import Watchdog\n"
        "def stuck_in_a_collective(): time.sleep(60)\n"
        "with Watchdog() as dog: dog.beat(); stuck_in_a_collective()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=os.environ | {"PIVOTRL_HANG_SECONDS": "1"}
    )
    deadline, said = time.monotonic() + 60, ""
    while "stuck_in_a_collective" not in said and time.monotonic() < deadline:
        said += process.stderr.readline()
    process.kill()
    process.communicate()
    assert "Timeout" in said and "stuck_in_a_collective" in said
