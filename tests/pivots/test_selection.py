import json
import re

import pytest

from pivotrl.pivots.candidates import units
from pivotrl.pivots.lock import FolderLock
from pivotrl.pivots.report import describe, one_sided, why_no_pivots
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.selection import select_pivots, survey_files
from pivotrl.policy.config import ModelConfig
from pivotrl.train import sampler_of
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import read_jsonl
from pivotrl.verifiers.base import VerifierConfig
from tests.pivots.fakes import FakeEngine, FakeParser, FakeTemplate, bytes_of, run_config
from tests.trajectories.rows import chat_row, write_rows

ROWS = 40


@pytest.fixture
def trajectories(tmp_path):
    long = chat_row("long")
    long["messages"][1]["content"] = "x" * 2000
    refused = chat_row("refused")
    refused["messages"][0]["content"] = "REFUSE"
    odd = chat_row("odd", verifier={"name": "magic"})
    odd_params = chat_row("odd_params", verifier={"params": {"threshold": 1}})
    rows = [chat_row(f"t{index}") for index in range(ROWS)]
    return write_rows(tmp_path / "a.jsonl", [*rows, long, refused, odd, odd_params, "{"])


def settings(trajectories, **pivots):
    share = {"max_bad_share": 0.1}
    return run_config([trajectories], pivots=share | pivots, trajectories={"heldout_share": 0.0})


def select(config, out, engine=None):
    engine = engine or FakeEngine()
    return select_pivots(config, engine, FakeParser(), FakeTemplate(), out), engine


def rows_of(path):
    return [row for _, row in read_jsonl(path)]


def test_mixed_turns_below_lambda_are_the_pivots_and_every_turn_is_counted(tmp_path, trajectories):
    summary, engine = select(settings(trajectories), tmp_path / "out")
    profiles = [Profile.from_json(row) for row in rows_of(tmp_path / "out" / "profile.jsonl")]
    pivots = [Pivot.from_json(row) for row in rows_of(tmp_path / "out" / "pivots.jsonl")]
    wanted = [item.id for item in profiles if item.variance > 0 and item.mean < 0.6]
    assert wanted and [pivot.id for pivot in pivots] == wanted
    for item in profiles:
        assert item.mean == pytest.approx(sum(item.rewards) / 4)
        assert item.variance == pytest.approx(item.mean * (1 - item.mean)), "population variance of 0 / 1 rewards"
        assert item.policy == "fake-model" and item.sampling["n"] == 4
    assert summary["candidates"] == len(profiles) == 2 * ROWS
    assert summary["mixed"] + summary["all_pass"] + summary["all_fail"] == 2 * ROWS
    assert summary["pivots"] == len(pivots) < summary["mixed"], "some mixed turns are too easy"
    assert summary["per_tool"]["get_order"]["candidates"] == ROWS == summary["per_tool"]["(message)"]["candidates"]
    assert {depth: counts["candidates"] for depth, counts in summary["per_depth"].items()} == {"0": ROWS, "1": ROWS}
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (
        pivots[0].prompt_ids == FakeTemplate().encode(pivots[0].turn.messages, []) and pivots[0].template_hash == "fake"
    )
    cost = summary["cost"]
    assert cost["prompt_tokens"] == sum(len(request.prompt_ids) for request in engine.requests)
    assert cost["samples"] == 4 * 2 * ROWS and cost["sampled_tokens"] > cost["samples"]
    assert cost["seconds"] == cost["engine_seconds"] > 0, "one engine"
    assert cost["gpu_hours"] == pytest.approx(cost["seconds"] / 3600, abs=1e-6)


def test_turns_that_cannot_be_used_are_counted_by_reason_and_written(tmp_path, trajectories):
    summary, _ = select(settings(trajectories), tmp_path / "out")
    reasons = {"prompt_too_long": 2, "template_refused": 2, "no_such_verifier": 4, "malformed_json": 1}
    assert summary["rejected"] == reasons
    rejected = rows_of(tmp_path / "out" / "rejected.jsonl")
    assert len(rejected) == 9
    too_long = next(row for row in rejected if row["reason"] == "prompt_too_long")
    assert too_long["id"] == "a:long/0" and too_long["row"] == "line 41" and too_long["file"] == "a.jsonl"
    assert "rollout.max_model_len" in too_long["found"] and "raise rollout.max_model_len" in too_long["write"]
    assert summary["turns"] == summary["candidates"] + 8


def test_the_reasons_of_all_samples_are_counted(tmp_path, trajectories):
    summary, _ = select(settings(trajectories), tmp_path / "out")
    rows = [Profile.from_json(row) for row in rows_of(tmp_path / "out" / "profile.jsonl")]
    pairs = [pair for row in rows for pair in zip(row.rewards, row.reasons, strict=True)]
    assert {reason for _, reason in pairs} == set(summary["reasons"]) and len(summary["reasons"]) > 2
    for name, found in summary["reasons"].items():
        rewards = [reward for reward, reason in pairs if reason == name]
        assert found == {
            "samples": len(rewards),
            "share": len(rewards) / len(pairs),
            "mean_reward": sum(rewards) / len(rewards),
        }
    text = describe(summary, tmp_path / "out")
    name, found = next(iter(summary["reasons"].items()))
    assert f"{name:34}{found['samples']:>8,}{found['share']:>8.1%}{found['mean_reward']:>8.3f}" in text
    assert "no pivots" not in text


def test_no_pivots_explain_themselves(tmp_path, trajectories):
    summary, _ = select(settings(trajectories, max_mean=1e-9), tmp_path / "out")
    assert summary["pivots"] == 0 and summary["mixed"]
    line = why_no_pivots(tmp_path / "out" / "pivots.jsonl")
    assert line in describe(summary, tmp_path / "out") and "\n" not in line
    assert f"of {2 * ROWS} turns profiled, {summary['all_fail']} always fail" in line
    assert f"{summary['mixed']} are mixed with a mean of 1e-09 (lambda) or more" in line
    assert f"(most frequent reasons: {next(iter(summary['reasons']))} " in line
    assert "pivots.max_mean (lambda), pivots.samples, the section verifier" in line
    with pytest.raises(ValueError, match=r"^no pivots in .*: of 80 turns profiled"):
        sampler_of(settings(trajectories).model_copy(update={"output": str(folder_of(tmp_path))}))
    summary_file = tmp_path / "out" / "summary.json"
    summary_file.write_text(json.dumps(summary | {"all_partial": 3}))
    assert "3 always earn the same part, " in why_no_pivots(tmp_path / "out")
    summary_file.write_text('{"candidates": null}')
    assert why_no_pivots(tmp_path / "out").startswith(f"no pivots in {tmp_path / 'out'}: look at the outcomes")


def folder_of(tmp_path):
    """A run's folder whose selection is `out`."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "pivots").symlink_to(tmp_path / "out")
    return run


def test_where_no_turn_can_be_profiled_the_advice_is_one_line_and_can_be_followed(tmp_path):
    rows = [chat_row(f"t{index}") for index in range(3)]
    for row in rows:
        row["messages"][1]["content"] = "x" * 2000
    files = write_rows(tmp_path / "a.jsonl", rows)
    with pytest.raises(
        ValueError, match=r"no turn could be profiled: 6 of 6 were rejected as prompt_too_long"
    ) as found:
        select(settings(files), tmp_path / "out")
    assert "\n" not in str(found.value) and "; raise rollout.max_model_len, lower" in str(found.value)
    assert "turn a:t0/0: 2" in str(found.value) and "leaves room for 960" in str(found.value)
    assert len(rows_of(tmp_path / "out" / "rejected.jsonl")) == 6
    longer = run_config(
        [files], rollout={"max_model_len": 8192, "max_new_tokens": 64}, trajectories={"heldout_share": 0.0}
    )
    summary, _ = select(longer, tmp_path / "out")
    assert summary["candidates"] == 6, "the same folder takes the changed setting"


def test_profiling_says_what_mixed_means(tmp_path, trajectories, capsys):
    select(settings(trajectories), tmp_path / "out")
    assert capsys.readouterr().err.count("mixed: the share of turns where some samples earn more than others") == 1
    select(settings(trajectories), tmp_path / "out")
    assert "samples earn more" not in capsys.readouterr().err, "nothing left to profile"


@pytest.mark.parametrize(
    "profiling, deaths", [("fixed", [0, 19]), ("fixed", [5, 13, 16]), ("thorough", [19]), ("thrifty", [5, 13])]
)
def test_killed_and_continued_gives_the_same_bytes(tmp_path, trajectories, profiling, deaths):
    config = settings(trajectories, profiling=profiling)
    _, engine = select(config, tmp_path / "whole")
    once = len(engine.requests)
    sampled = 0
    for death in deaths:
        engine = FakeEngine(die_after=death)
        with pytest.raises(KeyboardInterrupt):
            select(config, tmp_path / "killed", engine)
        sampled += len(engine.requests)
        for file in (tmp_path / "killed" / "progress").glob("engine_*"):
            with open(file, "a") as log:
                log.write('{"turn":99,"profile":{')  # a kill in the middle of a write
    _, engine = select(config, tmp_path / "killed")
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")
    unit = 8 * (1 if profiling == "fixed" else 4)
    assert once <= sampled + len(engine.requests) <= once + len(deaths) * unit, "a unit at most is sampled again"
    whole, killed = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "killed"))
    costs = [found.pop("cost") for found in (whole, killed)]
    assert whole == killed
    counts = ("samples", "prompt_tokens", "sampled_tokens")
    assert [costs[0][key] for key in counts] == [costs[1][key] for key in counts]


def test_turns_drawn_in_rounds_have_the_first_samples_of_fixed_ones(tmp_path, trajectories):
    fixed, _ = select(settings(trajectories, samples=8), tmp_path / "fixed")
    rounds, engine = select(settings(trajectories, samples=8, profiling="thorough"), tmp_path / "rounds")
    everything, some = (rows_of(tmp_path / name / "profile.jsonl") for name in ("fixed", "rounds"))
    lengths = set()
    for whole, part in zip(everything, some, strict=True):
        drawn = len(part["rewards"])
        lengths.add(drawn)
        assert part["rewards"] == whole["rewards"][:drawn] and part["sampling"]["n"] == drawn >= 2
    assert len(lengths) > 1 and max(lengths) <= 8
    assert rounds["cost"]["samples"] == sum(len(row["rewards"]) for row in some) < fixed["cost"]["samples"]
    assert rounds["cost"]["prompt_tokens"] == fixed["cost"]["prompt_tokens"], "a prompt counts once"
    assert any(request.first for request in engine.requests) and engine.calls < len(engine.requests)
    assert rounds["candidates"] == fixed["candidates"] and rounds["profiling"] == "thorough"


def test_a_finished_selection_started_again_samples_nothing_and_may_take_another_lambda(tmp_path, trajectories):
    first, _ = select(settings(trajectories), tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    second, engine = select(settings(trajectories), tmp_path / "out")
    assert not engine.requests and first == second and bytes_of(tmp_path / "out") == before
    third, engine = select(settings(trajectories, max_mean=1.0), tmp_path / "out")
    assert not engine.requests and third["pivots"] == third["mixed"] > first["pivots"]
    mixed, engine = select(settings(trajectories, keep="mixed"), tmp_path / "out")
    assert not engine.requests and mixed["pivots"] == mixed["mixed"] > first["pivots"]
    ablation, engine = select(settings(trajectories, keep="all"), tmp_path / "out")
    assert not engine.requests and ablation["pivots"] == ablation["candidates"] > mixed["pivots"]
    assert len(rows_of(tmp_path / "out" / "pivots.jsonl")) == ablation["candidates"]


def test_another_configuration_does_not_continue_a_selection(tmp_path, trajectories):
    select(settings(trajectories), tmp_path / "out")
    with pytest.raises(
        ValueError, match=r"pivots\.samples=4, and now it is 8; set it back to continue, or give another"
    ):
        select(settings(trajectories, samples=8), tmp_path / "out")
    with open(trajectories, "a") as file:
        file.write(json.dumps(chat_row("new")) + "\n")
    with pytest.raises(ValueError, match=r"content of .*a\.jsonl"):
        select(settings(trajectories), tmp_path / "out")


def test_seeds_belong_to_turns_not_to_their_place(tmp_path, trajectories):
    _, engine = select(settings(trajectories), tmp_path / "a")
    _, other = select(settings(trajectories, chunk=20), tmp_path / "b")
    assert [request.seed for request in engine.requests] == [request.seed for request in other.requests]
    assert engine.calls > other.calls
    assert len({request.seed for request in engine.requests}) == 2 * ROWS
    assert (tmp_path / "a" / "profile.jsonl").read_bytes() == (tmp_path / "b" / "profile.jsonl").read_bytes()


def test_limit_draws_a_spread_that_a_larger_limit_contains(tmp_path, trajectories):
    def chosen(limit):
        summary, _ = select(settings(trajectories, limit=limit), tmp_path / f"l{limit}")
        rows = rows_of(tmp_path / f"l{limit}" / "profile.jsonl") + rows_of(tmp_path / f"l{limit}" / "rejected.jsonl")
        assert summary["turns_left_out_by_limit"] == 2 * ROWS + 8 - limit
        return [row["id"] for row in rows if row["id"]]

    few, more = chosen(10), chosen(30)
    assert len(few) == 10 and len(more) == 30 and set(few) < set(more)
    assert len({name.split("/")[0] for name in few}) > 5, "not the first few trajectories"


def test_held_out_trajectories_are_never_profiled(tmp_path, trajectories):
    config = run_config([trajectories], pivots={"max_bad_share": 0.1}, trajectories={"heldout_share": 0.5})
    summary, _ = select(config, tmp_path / "out")
    assert summary["heldout_turns"] > 20
    assert summary["candidates"] + summary["heldout_turns"] + 8 >= 2 * ROWS + 8 - 8
    pivots = [Pivot.from_json(row) for row in rows_of(tmp_path / "out" / "pivots.jsonl")]
    assert {pivot.turn.split for pivot in pivots} == {"train"}


def test_too_many_bad_rows_stop_before_sampling_and_leave_the_list(tmp_path, trajectories):
    engine = FakeEngine()
    with pytest.raises(ValueError, match=r"1 of 45 rows are bad \(2\.2%: malformed_json 1\)"):
        select(settings(trajectories, max_bad_share=0.01), tmp_path / "out", engine)
    assert not engine.requests and len(rows_of(tmp_path / "out" / "rejected.jsonl")) == 1


def test_a_refused_start_changes_nothing_of_a_finished_selection(tmp_path, trajectories):
    select(settings(trajectories), tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    other = write_rows(tmp_path / "b.jsonl", [chat_row("b"), "{"])
    with pytest.raises(ValueError, match=r"started with trajectories\.files="):
        select(settings(other, max_bad_share=1), tmp_path / "out")
    assert bytes_of(tmp_path / "out") == before
    with FolderLock(tmp_path / "out") as lock:
        survey_files(settings(trajectories), tmp_path / "out", lock)
    assert bytes_of(tmp_path / "out") == before, "rejections found while profiling stay"


def test_two_selections_do_not_write_into_one_folder(tmp_path, trajectories):
    with FolderLock(tmp_path / "out") as lock:
        lock.take()
        with pytest.raises(ValueError, match=r"out: another selection is writing there; wait"):
            select(settings(trajectories), tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["selection.lock"]
    select(settings(trajectories), tmp_path / "out")


@pytest.mark.parametrize("out", ["file", "file/below", "nul\0"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, trajectories, out):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"--out: .* is no folder to write into"):
        select(settings(trajectories), tmp_path / out)


def changed(place, old, new):
    """Replace text in the line of turn `place`; the first line begins the attempt."""
    return lambda lines: [
        line.replace(old, new, 1) if line.startswith(f'{{"turn":{place},') else line for line in lines
    ]


def without_a_reason(lines):
    return [lines[0], re.sub(r'"reasons":\["\w+",', '"reasons":[', lines[1], count=1), *lines[2:]]


DAMAGES = {
    "doubled": (lambda lines: [*lines, lines[3]], r"engine_00000.jsonl:\d+: turn \d+ a second time"),
    "one too many": (changed(3, '"turn":3', '"turn":88'), r"\d+: expected one of 88 turns, found turn 88"),
    "no number": (changed(3, '"turn":3', '"turn":true'), r"\d+: expected one of 88 turns, found turn True"),
    "empty row": (lambda lines: [*lines[:3], "{}\n", *lines[4:]], "4: expected one of 88 turns, found turn None"),
    "no object": (lambda lines: [*lines[:3], "garbage\n", *lines[4:]], "4: Expecting value"),
    "another key": (changed(3, '"mean":', '"men":'), r"\d+: turn 3 lacks a part"),
    "no clock": (changed(3, '"clock":', '"o\'clock":'), r"\d+: turn 3 lacks a part"),
    "a reward more": (changed(3, '"rewards":[', '"rewards":[5,'), r"\d+: turn 3 holds a profile that its rewards do"),
    "a reason less": (without_a_reason, r"2: turn \d+ holds a profile that its rewards do not give"),
    "another turn": (changed(3, "a:t1/1", "a:x/0"), "engine_00000.jsonl: turn 3 is 'a:x/0', and in the files .*t1/1"),
    "another selection": (
        lambda lines: [lines[0].replace(lines[0][-20:-5], "0" * 15), *lines[1:]],
        "1: the lines of another selection",
    ),
    "no attempt": (lambda lines: lines[1:], "1: the lines of another selection"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_refused_with_its_line_and_the_remedy(tmp_path, trajectories, damage):
    select(settings(trajectories), tmp_path / "out")
    log = tmp_path / "out" / "progress" / "engine_00000.jsonl"
    change, says = DAMAGES[damage]
    log.write_text("".join(change(log.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=rf"progress/.*{says}.*; the log was damaged or edited: delete the folder pro"):
        select(settings(trajectories), tmp_path / "out")


def test_a_header_that_is_lost_or_edited_is_refused(tmp_path, trajectories):
    select(settings(trajectories), tmp_path / "out")
    header = tmp_path / "out" / "progress" / "header.json"
    for text, says in [("[1]", "not what a selection begins with"), ("{", "Expecting property")]:
        header.write_text(text)
        with pytest.raises(ValueError, match=rf"progress/header\.json: {says}.*; the log was damaged"):
            select(settings(trajectories), tmp_path / "out")
    header.unlink()
    with pytest.raises(ValueError, match=r"progress/header\.json: it is missing; the log was damaged"):
        select(settings(trajectories), tmp_path / "out")


def test_a_log_of_an_earlier_release_is_refused(tmp_path, trajectories):
    select(settings(trajectories), tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    (tmp_path / "out" / "progress.jsonl").write_text('{"seed":5,"pivots.samples":4}\n')
    with pytest.raises(
        ValueError, match=r"progress\.jsonl: the log of a selection by an earlier release, .* delete it"
    ):
        select(settings(trajectories), tmp_path / "out")
    assert bytes_of(tmp_path / "out") == before


def test_the_ends_of_units_are_ends_of_trajectories():
    def turn(trajectory, index):
        return Turn(f"{trajectory}/{index}", trajectory, index, 0, [], [], {}, {}, "", "train")

    lengths = {"a": 3, "b": 5, "c": 1, "d": 40, "e": 2}
    turns = [turn(name, index) for name, length in lengths.items() for index in range(length)]
    found = list(units(iter(turns), 4))
    assert ["".join(item.trajectory_id for item in unit.turns) for unit in found] == [
        "aaabbbbb",
        "c" + 15 * "d",
        16 * "d",
        9 * "d",
        "ee",
    ], "a trajectory of more than four times the size is cut"
    assert [place for unit in found for place in unit.places] == list(range(len(turns)))


@pytest.mark.parametrize("name", [[], 5, None, "nosuch"])
def test_a_rows_verifier_that_is_none_is_one_line(name):
    scorer = Scorer(VerifierConfig(), FakeParser(), FakeTemplate())
    turn = Turn("a", "t", 0, 1, [], [], {"type": "message", "content": "x"}, {"name": name}, "a.jsonl line 1", "train")
    with pytest.raises(ValueError, match=r"^verifier\.name: .* write ") as found:
        scorer.check(turn)
    assert "\n" not in str(found.value)


def test_an_attempt_that_was_killed_before_its_first_turn_costs_nothing(tmp_path, trajectories):
    whole, _ = select(settings(trajectories), tmp_path / "out")
    (log,) = (tmp_path / "out" / "progress").glob("engine_*.jsonl")
    with log.open("a") as file:
        file.write(log.read_text().splitlines()[0].replace('"attempt":0', '"attempt":1') + "\n")
    again, engine = select(settings(trajectories), tmp_path / "out")
    assert not engine.requests and again["cost"] == whole["cost"]


@pytest.mark.parametrize("size", [1000, (64 << 20) + 5])
def test_other_weights_at_the_same_path_are_another_policy(tmp_path, trajectories, size):
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    config = settings(trajectories).model_copy(update={"model": ModelConfig(path=str(weights.parent))})
    for last, refused in ((b"a", False), (b"a", False), (b"b", True)):
        with weights.open("wb") as file:
            file.truncate(size)
            file.seek(size - 1)
            file.write(last)
        if refused:
            with pytest.raises(ValueError, match=r"weights in model\.path .* set it back to continue, or give another"):
                select(config, tmp_path / "out")
        else:
            select(config, tmp_path / "out")


@pytest.mark.parametrize(
    ("transfer", "other", "warned"),
    [
        ((300, 110), (2400, 14), True),
        ((300, 60), (2400, 64), False),
        ((1500, 110), (1200, 14), False),
        ((0, 0), (9, 0), False),
    ],
    ids=["mostly one rare action", "less than half", "a frequent action", "no pivots"],
)
def test_pivots_of_mostly_one_rare_action_are_warned_of(transfer, other, warned):
    tools = {
        name: {"candidates": turns, "pivots": kept}
        for name, (turns, kept) in (("refund", other), ("transfer", transfer))
    }
    summary = {
        "candidates": transfer[0] + other[0],
        "pivots": transfer[1] + other[1],
        "per_tool": tools,
    }
    said = one_sided(summary)
    assert (said is not None) is warned
    assert not warned or "110 of 124 pivots expect transfer, as 11% of the turns do" in said
