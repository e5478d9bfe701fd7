"""The table, its text and its page, from results that were made up."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from pivotrl.config import parse_config
from pivotrl.evaluation import report
from pivotrl.evaluation.comparison import compare, mean_of
from pivotrl.evaluation.text import describe
from tests.telemetry.fake_run import HOSTILE
from tests.telemetry.test_report import parse

TRAJECTORIES, TURNS = 30, 4


def made(name, success, seed, pivots=(), families=("add", "sort")):
    """A result in which each turn, task and question succeeds with chance `success`."""
    rng = np.random.default_rng(seed)
    turns = [
        {
            "id": f"t{index}/{turn}",
            "trajectory": f"t{index}",
            "rewards": (rng.random(8) < success).astype(float).tolist(),
            "reasons": ["r"] * 8,
        }
        for index in range(TRAJECTORIES)
        for turn in range(TURNS)
    ]
    tasks = [
        {
            "id": f"live/{n}",
            "reward": float(rng.random() < success),
            "turns": 5,
            "ended": "done",
            "facts": {"violations": 0.0},
        }
        for n in range(64)
    ]
    asked = [
        {"id": f"{family}/{n}", "family": family, "right": [int(rng.random() < success)], "answer": HOSTILE}
        for family, count in zip(families, (10, 90), strict=True)
        for n in range(count)
    ]
    return {
        "name": name,
        "weights": f"w-{name}",
        "pivots": sorted(pivots),
        "settings": {},
        "seconds": 1.0,
        "turns": {"sampled": turns},
        "tasks": {"sampled": tasks},
        "families": {"greedy": asked},
    }


PIVOTS = ["t0/1", "t3/0", "t3/2"]
RESULTS = [made("base", 0.4, 0, PIVOTS), made(f"late {HOSTILE}", 0.8, 1, PIVOTS)]


@pytest.fixture(scope="module")
def table():
    return compare(RESULTS, 1000, 0.95)


def row(table, key):
    return next(one for one in table["measures"] if one["key"] == key)


def test_means_are_those_of_the_items(table):
    for place, result in enumerate(RESULTS):
        rewards = {one["id"]: np.mean(one["rewards"]) for one in result["turns"]["sampled"]}
        assert row(table, "turn_reward")["values"][place]["mean"] == pytest.approx(np.mean(list(rewards.values())))
        assert row(table, "turn_reward_pivots")["values"][place]["mean"] == pytest.approx(
            np.mean([rewards[one] for one in PIVOTS])
        )
        shares = [
            np.mean([one["right"] for one in result["families"]["greedy"] if one["family"] == f])
            for f in ("add", "sort")
        ]
        assert row(table, "families")["values"][place]["mean"] == pytest.approx(np.mean(shares)), (
            "families weigh the same"
        )
        assert mean_of(result, "families", "greedy") == pytest.approx(np.mean(shares))
    assert (row(table, "turn_reward")["items"], row(table, "turn_reward")["clusters"]) == (120, 30)
    assert (row(table, "turn_reward_pivots")["items"], row(table, "turn_reward_pivots")["clusters"]) == (3, 2)


def test_intervals_hold_their_means_and_differences_are_told(table):
    for measure in table["measures"]:
        base, late = measure["values"]
        assert base["low"] <= base["mean"] <= base["high"] and "difference" not in base
        assert late["difference"]["mean"] == pytest.approx(late["mean"] - base["mean"])
        assert late["difference"]["low"] <= late["difference"]["mean"] <= late["difference"]["high"]
    assert row(table, "turn_reward")["values"][1]["difference"]["low"] > 0.3
    assert row(table, "task_turns")["values"][1]["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_other_items_cannot_be_compared():
    other = made("other", 0.5, 2, PIVOTS)
    other["tasks"]["sampled"].pop()
    with pytest.raises(
        ValueError, match=r"'other' and 'base' were measured on other tasks \(task success, live, sampled"
    ):
        compare([RESULTS[0], other], 100, 0.95)
    with pytest.raises(ValueError, match="no policy"):
        compare([], 100, 0.95)


def test_one_trajectory_has_no_interval():
    one = made("base", 0.5, 3)
    one["turns"]["sampled"] = one["turns"]["sampled"][:TURNS]
    table = compare([one], 100, 0.95)
    value = row(table, "turn_reward")["values"][0]
    assert value["low"] is None and value["high"] is None
    assert "turn_reward_pivots" not in {measure["key"] for measure in table["measures"]}, "no pivot, no figure"
    assert "4 turns of 1 independent trajectories" in describe(table)


def test_the_text_is_a_table(table):
    text = describe(table)
    lines = text.splitlines()
    means = [row(table, "turn_reward")["values"][place]["mean"] for place in (0, 1)]
    line = next(n for n, one in enumerate(lines) if one.startswith("turn reward, all held-out turns (sampled)"))
    assert re.findall(r"(\d\.\d{3}) \[", lines[line]) == [f"{mean:.3f}" for mean in means]
    assert f"{100 * (means[1] - means[0]):+.1f} [+" in lines[line + 1]
    assert (
        "95% interval" in lines[-1]
        and "120 turns of 30 independent trajectories" in lines[-1]
        and "64 tasks" in lines[-1]
    )
    assert max(map(len, lines[:-1])) <= 120


def test_the_page_stands_alone(tmp_path):
    config = parse_config({"output": "x", "model": {"path": "m"}, "evaluation": {"draws": 200}}, "test")
    report.write(config, RESULTS, {"base": "m", "late": f"runs/{HOSTILE}"}, tmp_path / "evaluation")
    page = parse(tmp_path / "evaluation" / "report.html")
    assert not page.tags & {"script", "img", "link", "iframe", "a", "image"}
    text = (tmp_path / "evaluation" / "report.html").read_text()
    assert "default-src 'none'" in text and not re.search(r"https?://|url\(|nan\b", text)
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        for shape in ElementTree.fromstring(picture).iter():
            assert not str(shape.get("width", "")).startswith("-")
    words = "".join(page.words)
    for said in ("Turn reward, held-out pivots, sampled", "Each family", "alert(1)", "How it was measured", "add"):
        assert said in words
    assert len(text) < 100_000
    alone = report.write(config, RESULTS[:1], {"base": "m"}, tmp_path / "evaluation")
    parse(tmp_path / "evaluation" / "report.html")
    assert alone["policies"] == ["base"]


def test_the_package_offers_its_functions_by_name():
    import pivotrl.evaluation as package

    assert package.compare is compare and package.evaluate.__name__ == "evaluate"
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_trials_of_one_task_are_drawn_together():
    alike = made("base", 0.5, 3)
    for item in alike["turns"]["sampled"]:
        item["rewards"] = [float(int(item["trajectory"][1:]) % 2)] * 8
    grouped = {
        **alike,
        "turns": {
            "sampled": [i | {"group": f"task {int(i['trajectory'][1:]) % 4}"} for i in alike["turns"]["sampled"]]
        },
    }
    (apart,), (together,) = (row(compare([one], 2000), "turn_reward")["values"] for one in (alike, grouped))
    assert together["mean"] == apart["mean"]
    assert together["high"] - together["low"] > 2 * (apart["high"] - apart["low"]), "4 tasks tell less than 30"
    assert row(compare([grouped], 100), "turn_reward")["clusters"] == 4
