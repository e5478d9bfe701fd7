import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.metrics import MetricsWriter, PhaseTimer, read_metrics, terminal_line

QUIET = TelemetryConfig(tensorboard=False)


def write_steps(run: Path, steps: range, **options) -> None:
    with MetricsWriter(run, QUIET, **options) as writer:
        for step in steps:
            writer.write(step, {"reward": step / 10}, {"rollout": 1.0})


def test_killed_and_resumed_run_has_the_bytes_of_an_uninterrupted_one(tmp_path):
    write_steps(tmp_path / "whole", range(6))
    write_steps(tmp_path / "killed", range(5))
    file = tmp_path / "killed" / "metrics.jsonl"
    file.write_bytes(file.read_bytes() + b'{"step": 5, "rew')  # torn by the kill; the last checkpoint was at step 3
    write_steps(tmp_path / "killed", range(3, 6), start=3)
    assert file.read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()


def test_a_running_total_goes_on_where_the_checkpoint_left_it(tmp_path):
    def write(steps: range, start: int = 0) -> None:
        with MetricsWriter(tmp_path, QUIET, start=start) as writer:
            for step in steps:
                writer.write(step, {"reward": 0.0} if step == 2 else {"rollout_turns": 10 + step})

    write(range(5))
    write(range(3, 6), start=3)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row.get("rollout_turns") for row in rows] == [10, 21, None, 34, 48, 63]


def test_a_row_that_a_full_disk_left_out_after_its_checkpoint_is_recovered(tmp_path):
    write_steps(tmp_path / "whole", range(4))
    write_steps(tmp_path / "full", range(2))
    with MetricsWriter(tmp_path / "full", QUIET, start=2) as writer:
        writer.prepare(2, {"reward": 0.2}, {"rollout": 1.0})
        with (tmp_path / "full" / "metrics.jsonl").open("ab") as file:
            file.write(b'{"step": 2, "rew')
    for start in (2, 3):  # the checkpoint that holds the row's step decides
        run = shutil.copytree(tmp_path / "full", tmp_path / f"start_{start}")
        write_steps(run, range(start, 4), start=start)
        assert (run / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    (tmp_path / "full" / "metrics.next.json").write_bytes(b'{"ste')  # as after a loss of power
    write_steps(tmp_path / "full", range(3, 4), start=3)
    assert [row["step"] for row in read_metrics(tmp_path / "full" / "metrics.jsonl")] == [0, 1, 3]


def test_each_step_is_on_disk_before_the_next(tmp_path):
    with MetricsWriter(tmp_path, QUIET) as writer:
        writer.write(0, {"reward": 0.25})
        assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 0, "reward": 0.25}]


def test_only_rank_0_writes(tmp_path, capsys):
    write_steps(tmp_path / "run", range(2), rank=1)
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().out == ""


def test_numbers_that_json_lacks_become_null_and_tensors_become_numbers(tmp_path):
    with MetricsWriter(tmp_path, QUIET) as writer:
        writer.write(0, {"grad_norm": math.nan, "gap_max": math.inf, "reward": torch.tensor(0.5)})
    line = (tmp_path / "metrics.jsonl").read_text()
    row = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert row == {"step": 0, "grad_norm": None, "gap_max": None, "reward": 0.5}


def test_damage_before_the_last_line_is_reported_with_its_line(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 0}\n{"st\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: not a row of metrics"):
        read_metrics(file)


def test_tensorboard_gets_every_number_under_a_grouped_name(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsWriter(tmp_path, TelemetryConfig()) as writer:
        writer.write(0, {"reward": 0.5, "kl": math.nan, "reason.no_action": 0.125}, {"rollout": 1.5})
        writer.write(1, {"reward": 0.75})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(0, 0.5), (1, 0.75)]
    assert events.Scalars("seconds/rollout")[0].value == 1.5
    assert events.Scalars("reason/no_action")[0].value == 0.125
    assert "kl" not in events.Tags()["scalars"]


def test_terminal_line_counts_from_one_and_shows_where_the_time_went():
    row = {"step": 11, "reward": 0.5123, "kl": None, "gap": 2.1e-6, "seconds.total": 3.24}
    row |= {"seconds.rollout": 1.9, "seconds.train": 0.94, "seconds.refit": 0.1, "seconds.verify": 0.01}
    assert terminal_line(row, steps=60) == (
        "step 12/60  reward 0.512  gap 2.1e-06  3.2 s (rollout 1.9, train 0.9, refit 0.1)  about 2:35 min left"
    )
    assert "left" not in terminal_line(row | {"step": 59}, steps=60)


def test_phase_timer_adds_up_and_counts_a_phase_that_raised(monkeypatch):
    clock = iter([0.0, 1.0, 3.0, 10.0, 14.0, 20.0, 21.0, 30.0])
    monkeypatch.setattr("pivotrl.telemetry.metrics.time.perf_counter", lambda: next(clock))
    timer = PhaseTimer()
    with timer.phase("train"):
        pass
    with pytest.raises(RuntimeError), timer.phase("train"):
        raise RuntimeError
    with timer.phase("refit"):
        pass
    assert timer.with_total() == {"train": 6.0, "refit": 1.0, "total": 30.0}
