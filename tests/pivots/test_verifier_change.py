import json

import pytest

from pivotrl.pivots.verifier_change import since_checkpoint, since_selection, warnings
from tests.pivots.fakes import run_config

MESSAGE = {"params": {"message": "similar"}}


def config(verifier, output="unused"):
    return run_config(["a.jsonl"], verifier=verifier).model_copy(update={"output": str(output)})


def selection(folder, verifier):
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"verifier": config(verifier).verifier.model_dump()}))
    return folder


@pytest.mark.parametrize(
    "then, now, says",
    [
        ({}, {"preset": "robust"}, "verifier.preset was 'nemo_gym', is 'robust'"),
        ({"name": "exact"}, {"name": "name_only"}, "verifier.name was 'exact', is 'name_only', verifier.preset was"),
        ({}, MESSAGE, "verifier.params was {}, is {'message': 'similar'}"),
        (MESSAGE, {}, "verifier.params was {'message': 'similar'}, is {}"),
        ({"params": {"a": {"b": 1}}}, {"params": {"a": {"b": 2}}}, "verifier.params was {'a': {'b': 1}}, is"),
        ({"name": "my.own:Verifier"}, {"name": "my.other:Verifier"}, "verifier.name was 'my.own:Verifier', is"),
    ],
)
def test_pivots_of_another_verifier_are_one_line(tmp_path, then, now, says):
    folder = selection(tmp_path / "pivots", then)
    line = since_selection(config(now), folder)
    assert line.startswith(f"warning: the pivots in {folder} were profiled with another verifier") and "\n" not in line
    assert says in line and "select the pivots anew" in line
    assert warnings(config(now, tmp_path), None) == [line]


@pytest.mark.parametrize("now", [{"preset": "nemo_gym"}, {"workers": 3, "seconds": 9.0}, {"name": "tool_call"}])
def test_what_does_not_change_a_verdict_is_not_said(tmp_path, now):
    assert since_selection(config(now), selection(tmp_path / "pivots", {})) == ""


@pytest.mark.parametrize("text", [None, "", "[]", '{"verifier": 7}', '{"verifier": {"name": 7}}', "\0"])
def test_a_summary_that_does_not_tell_says_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    assert since_selection(config(MESSAGE), tmp_path) == ""


@pytest.mark.parametrize(
    "then, now",
    [({}, MESSAGE), (MESSAGE, {}), (MESSAGE, {"params": {"message": "any", "message_threshold": 0.4}})],
)
def test_params_that_a_checkpoint_was_trained_without_are_one_line(tmp_path, then, now):
    (tmp_path / "run.json").write_text(json.dumps({"step": 4, "config": config(then).model_dump(mode="json")}))
    line = since_checkpoint(config(now), tmp_path)
    assert line == (
        f"warning: continuing {tmp_path} with other rewards than it was trained with: "
        f"verifier.params was {then.get('params', {})}, is {now.get('params', {})}"
    )
    assert warnings(config(now, tmp_path / "none"), tmp_path) == [line]
    assert since_checkpoint(config(then), tmp_path) == ""
