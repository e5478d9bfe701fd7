"""Every gate, on made-up steps: where it speaks, what it says, and that a resumed run judges the same."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from pivotrl import plain_yaml
from pivotrl.config import parse_config, save_config
from pivotrl.telemetry.gates import Event, Gates
from pivotrl.telemetry.health import Health
from pivotrl.telemetry.health_config import HealthConfig
from pivotrl.telemetry.metrics import MetricsWriter
from pivotrl.telemetry.report import write_report

WELL = {
    "loss": 0.01,
    "grad_norm": 1.0,
    "gap": 0.01,
    "canary_error": 1e-5,
    "entropy": 0.4,
    "reason.call_matches": 0.6,
    "reason.other_value": 0.3,
    "reason.format": 0.1,
    "refit_seconds": 1.2,
}
WINDOW = 6


def gates(dtype: str = "float32", **changes) -> Gates:
    return Gates(HealthConfig(window=WINDOW, **changes), dtype)


def judged(steps: list[dict], **changes) -> list[list[Event]]:
    judge = gates(**changes)
    return [judge.judge(step, row) for step, row in enumerate(steps)]


def spoke(steps: list[dict], **changes) -> dict[int, list[str]]:
    """Step -> the gates that spoke at it."""
    return {step: [e.gate for e in events] for step, events in enumerate(judged(steps, **changes)) if events}


def run_of(length: int, **late) -> list[dict]:
    """`length` well steps, then one with other figures."""
    return [WELL] * length + [WELL | late]


def test_a_well_run_is_never_spoken_of() -> None:
    assert spoke([WELL] * 60) == {}


def test_a_window_shorter_than_a_median_needs_still_has_a_bound_of_the_gradient() -> None:
    for window in (2, 4):
        judge = Gates(HealthConfig(window=window), "float32")
        said = [event.gate for step, row in enumerate(run_of(10, grad_norm=10.5)) for event in judge.judge(step, row)]
        assert said == ["grad_norm"]


@pytest.mark.parametrize(
    ("late", "gate", "fragments"),
    [
        ({"loss": math.nan}, "finite", ["the loss is no finite number", "the update was left out"]),
        ({"grad_norm": None}, "finite", ["the gradient's norm is no finite number"]),
        ({"gap": 0.06}, "gap", ["0.06, above 0.05 (health.gap.above)", "canary_error"]),
        ({"canary_error": 6e-4}, "canary", ["0.0006, above 0.0005"]),
        ({"gap": None}, "gap", ["the mean gap of sampler and trainer is no finite number"]),
        ({"canary_error": math.inf}, "canary", ["the canary's error is no finite number"]),
        ({"grad_norm": 10.5}, "grad_norm", ["10.5, above 10 (10 x the median 1 of the last 6 steps)"]),
        (
            {"reason.format": 0.4, "reason.no_action": 0.2},
            "format",
            ["60% of the actions cannot be read, above 50% (health.format.above), mostly format"],
        ),
    ],
)
def test_one_figure_out_of_bounds_is_one_line(late: dict, gate: str, fragments: list[str]) -> None:
    *before, events = judged(run_of(10, **late))
    assert not any(before)
    (event,) = events
    assert event.gate == gate and event.action == ("stop" if gate == "finite" else "warn")
    assert event.step == event.since == 10
    line = event.line()
    assert line.startswith(f"health.{gate}: ") and " at step 11; " in line and "\n" not in line
    for fragment in fragments:
        assert fragment in line


@pytest.mark.parametrize(
    "late",
    [{"gap": 0.049}, {"canary_error": 4e-4}, {"grad_norm": 9.9}, {"reason.format": 0.5}],
)
def test_just_within_bounds_is_silent(late: dict) -> None:
    assert spoke(run_of(10, **late)) == {}


def test_bfloat16_has_another_canary() -> None:
    assert gates("bfloat16").judge(0, WELL | {"canary_error": 0.8}) == []
    assert gates("bfloat16").judge(0, WELL | {"canary_error": 1.1})[0].bound == 1.0


def test_a_gradient_norm_needs_a_past_and_may_have_an_absolute_bound() -> None:
    assert spoke([WELL] * 3 + [WELL | {"grad_norm": 50.0}]) == {}
    assert spoke(run_of(3, grad_norm=50.0), grad_norm={"above": 40}) == {3: ["grad_norm"]}
    slowly = [WELL | {"grad_norm": 1.2**step} for step in range(40)]
    assert spoke(slowly) == {}, "the median follows what grows slowly"


def test_entropy_has_a_floor_and_must_not_collapse_against_its_start() -> None:
    low = WELL | {"entropy": 0.039}
    assert spoke([WELL] * WINDOW + [low] * 4) == {8: ["entropy"], 9: ["entropy"]}, "the third in a row, and the fourth"
    assert spoke([WELL] * WINDOW + [low, low, WELL, low, low]) == {}
    assert spoke([low] * 40) == {}, "low from the start is no collapse"
    assert spoke([WELL | {"entropy": 0.004}] * 3) == {2: ["entropy"]}


def test_reasons_that_shift_are_told_with_the_one_that_moved_most() -> None:
    hacked = WELL | {"reason.call_matches": 0.1, "reason.other_value": 0.1, "reason.loophole": 0.7}
    *_, (event,) = judged([WELL] * WINDOW + [hacked] * 3)
    assert event.gate == "reasons" and event.since == WINDOW
    assert math.isclose(event.value, 0.7) and "mostly loophole +70%" in event.line()
    learnt = WELL | {"reason.call_matches": 1.0, "reason.other_value": 0.0, "reason.format": 0.0}
    assert spoke([WELL] * WINDOW + [learnt] * 20) == {}, "learning is no hole"


def test_refits_that_become_slow() -> None:
    slow = WELL | {"refit_seconds": 2.5}
    assert spoke([WELL] * WINDOW + [slow] * 3) == {8: ["refit"]}
    quick = [row | {"refit_seconds": row["refit_seconds"] / 10} for row in [WELL] * WINDOW + [slow] * 9]
    assert spoke(quick) == {}, "a refit below a second is not slow"


def test_refits_that_become_slower_by_a_little_each_step() -> None:
    def worn(steps: int, base: float = 1.2) -> list[dict]:
        """2 % more seconds and fewer GB/s at each step."""
        rows = [(base * 1.02**step, 48 / (base * 1.02**step)) for step in range(steps)]
        return [WELL | {"refit_seconds": seconds, "refit_gb_per_second": speed} for seconds, speed in rows]

    # The medians of 6 steps are 0.75 apart after log(0.75) / log(1 / 1.02) = 14.5 steps, and the first is at step 2.5.
    assert spoke(worn(30), refit="off") == {step: ["refit_trend"] for step in (20, 21, 23, 27)}
    assert spoke(worn(19)) == {}, "what no single refit shows"
    (event,) = judged(worn(21))[20]
    assert event.value < event.bound and event.since == 20
    assert "below 28.6 (0.75 x the 38.1 of the first 6)" in event.line()
    assert spoke(worn(60, base=0.1), refit="off", refit_trend={"at_least": 0.5}) == {}, "refits below half a second"
    steady = [WELL | {"refit_seconds": 1.2, "refit_gb_per_second": 40.0 if step % 3 else 9.0} for step in range(60)]
    assert spoke(steady) == {}, "every third refit is slow, from the start"
    assert spoke(worn(30), refit_trend="off") == {}


def test_a_gate_that_stays_out_speaks_ever_more_rarely_but_a_stop_always() -> None:
    bad = [WELL | {"gap": 1.0}] * 20
    assert list(spoke(bad)) == [0, 1, 3, 7, 15]
    assert list(spoke(bad, gap="stop")) == list(range(20))
    assert list(spoke(bad, gap={"patience": 5})) == [4, 5, 7, 11, 19]
    assert spoke(bad, gap=False) == spoke(bad, gap="off") == {}
    assert judged(bad)[15][0].line().count(", since step 1; ") == 1


def test_off_is_written_as_people_write_it(tmp_path: Path) -> None:
    tree = {"output": "x", "model": {"path": "y"}}
    text = "{gap: off, refit: {action: off}, finite: stop, grad_norm: {times: null}}"
    config = parse_config(tree | {"health": plain_yaml.load(text)}, "here")
    assert (config.health.gap.action, config.health.refit.action, config.health.finite.action) == ("off", "off", "stop")
    save_config(config, tmp_path / "config.yaml")
    assert parse_config(plain_yaml.load((tmp_path / "config.yaml").read_text()), "there") == config
    with pytest.raises(ValueError, match=r"health\.gap\.action: found 'halt'"):
        parse_config(tree | {"health": {"gap": "halt"}}, "here")


@pytest.fixture
def world():
    """One rank."""
    if dist.is_initialized():
        pytest.skip("another test left a process group")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield SimpleNamespace(rank=0, world_size=1, object_group=dist.group.WORLD)
    dist.destroy_process_group()


def test_a_resumed_run_judges_as_one_that_never_stopped(tmp_path: Path, world: SimpleNamespace, capsys) -> None:
    health = {"window": WINDOW, "gap": "stop"}
    tree = {"output": str(tmp_path), "model": {"path": "y", "dtype": "float32"}, "health": health}
    config = parse_config(tree | {"telemetry": {"tensorboard": False}}, "here")
    steps = [WELL] * 8 + [WELL | {"grad_norm": 30.0, "entropy": 0.01}] * 4 + [WELL | {"gap": 0.5}]

    def go(run: Path, start: int, end: int) -> list:
        judge = Health(run, config, world, start)
        with MetricsWriter(run, config.telemetry, start=start) as writer:
            found = []
            for step in range(start, end):
                writer.write(step, steps[step])
                found.append(judge.check(step, steps[step]))
            return found

    whole = go(tmp_path / "whole", 0, len(steps))
    assert whole[:-1] == [None] * 12
    assert str(whole[-1]).startswith("health.gap: the mean gap of sampler and trainer is 0.5, above 0.05")
    assert "saved after step 13" in str(whole[-1]) and "health.gap.action=warn" in str(whole[-1])
    go(tmp_path / "killed", 0, 11)
    parts = go(tmp_path / "killed", 9, len(steps))
    assert str(parts[-1]) == str(whole[-1])
    files = [(tmp_path / name / "health.jsonl").read_bytes() for name in ("whole", "killed")]
    assert files[0] == files[1]
    events = [json.loads(line) for line in files[0].splitlines()]
    assert [(event["step"], event["gate"]) for event in events] == [
        (8, "grad_norm"),
        (9, "grad_norm"),
        (10, "entropy"),
        (11, "entropy"),
        (12, "gap"),
    ]
    said = capsys.readouterr().out
    assert "health.gap" not in said, "the command says it at the end"
    page = write_report(tmp_path / "whole").read_text()
    assert "<h2>Health</h2>" in page and page.index(">gap<") < page.index(">entropy<"), "the newest first"
