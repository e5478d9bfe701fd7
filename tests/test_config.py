"""Configuration: the shipped files are valid, and every mistake names its key and what to write."""

import time
from pathlib import Path

import pytest

from pivotrl import plain_yaml
from pivotrl.config import RunConfig, load_config, parse_config, save_config
from pivotrl.schema import Section

REPOSITORY = Path(__file__).resolve().parents[1]
MINIMAL = {"output": "runs/x", "model": {"path": "model"}}


def sections(section: type[Section], prefix: str = "") -> list[tuple[str, type[Section]]]:
    found = [(prefix, section)]
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            found += sections(field.annotation, f"{prefix}{name}.")
    return found


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_configurations_are_valid(path: Path) -> None:
    load_config(path)


def test_every_field_has_a_description() -> None:
    bare = [
        f"{prefix}{name}"
        for prefix, section in sections(RunConfig)
        for name, field in section.model_fields.items()
        if not field.description and not (isinstance(field.annotation, type) and issubclass(field.annotation, Section))
    ]
    assert not bare, bare


def test_overrides_are_laid_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("output: runs/x\nmodel: {path: model}\noptimizer: {lr: 1e-6}\n")
    config = load_config(file, ["training.steps=7", "optimizer.lr=2e-5", "trajectories.files=[a.jsonl, b.jsonl]"])
    assert config.training.steps == 7
    assert config.optimizer.lr == 2e-5
    assert config.trajectories.files == ["a.jsonl", "b.jsonl"]
    assert load_config(file).optimizer.lr == 1e-6, "YAML reads 1e-6 as a string; it must still be a number"


def test_a_saved_configuration_reads_back_equal(tmp_path: Path) -> None:
    config = parse_config(MINIMAL, "test")
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("tree", "fragments"),
    [
        ({**MINIMAL, "trainning": {}}, ["unknown key trainning", "did you mean training?"]),
        ({**MINIMAL, "optimizer": {"learning_rate": 1}}, ["unknown key optimizer.learning_rate", "known keys: lr, "]),
        ({**MINIMAL, "training": {"group_sise": 4}}, ["unknown key training.group_sise", "training.group_size?"]),
        ({**MINIMAL, "optimizer": {"lr": "fast"}}, ["optimizer.lr", "'fast'", "number"]),
        ({**MINIMAL, "training": {"group_size": 1}}, ["training.group_size", "found 1"]),
        ({"output": "runs/x"}, ["model is missing", "model: ..."]),
        ({**MINIMAL, "objective": {"clip_low": -1}}, ["objective.clip_low", "-1"]),
        ({**MINIMAL, "optimizer": {"lr": float("inf")}}, ["optimizer.lr", "found inf", "finite"]),
        ({**MINIMAL, "pivots": {"max_mean": float("nan")}}, ["pivots.max_mean", "found nan"]),
        ({**MINIMAL, "optimizer": {"lr": "nan"}}, ["optimizer.lr", "finite"]),
        (
            {**MINIMAL, "rollout": {"max_model_len": 512, "max_new_tokens": 512}},
            ["rollout.max_new_tokens is 512", "rollout.max_model_len, 512"],
        ),
        ({"output": "runs/x", "model": {"path": "m", "recompute": True}}, ["model.recompute", "write full"]),
        ({**MINIMAL, "se\ned": 1}, ["unknown key 'se\\ned'"]),
        ({**MINIMAL, "trajectories": {"files": [1] * 50}}, ["trajectories.files.4", "and 45 more"]),
    ],
)
def test_mistakes_name_the_key_and_the_remedy(tree: dict, fragments: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^file\.yaml: ") as caught:
        parse_config(tree, "file.yaml")
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message, message


def bomb(levels: int) -> str:
    """A few lines that stand for 9 ** levels values."""
    nested = "".join(f", &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels))
    return f"[&a0 [x, x, x, x, x, x, x, x, x]{nested}]"


@pytest.mark.parametrize(
    ("lines", "fragments"),
    [
        (f"seed: {bomb(9)}", ["alias 'a0': write the value out", "line 2"]),
        (f"trajectories: {{files: {bomb(9)}}}", ["alias 'a0'"]),
        ("seed: &s [*s]", ["alias 's'"]),
        ("verifier: {params: {x: " + "[" * 20_000 + "]" * 20_000 + "}}", ["nested deeper than", "line 2"]),
        ("seed: 2020-99-99", ["seed: found '2020-99-99'", "integer"]),
        ("seed: 3\nseed: 4", ["key 'seed' is there twice", "line 3"]),
        ("seed: !!int x", ["'x' is not a value of tag:yaml.org,2002:int", "line 2"]),
        (f"seed: {'9' * 5000}", ["is not a value of tag:yaml.org,2002:int"]),
        (f"seed: {'x' * 100_000}", ["seed: found 'xxx"]),
        ("seed: 4294967296", ["seed: found 4294967296", "4294967295"]),
        ("seed: yes", ["seed: found True; write a number"]),
        ("optimizer: {lr: .inf}", ["optimizer.lr", "finite"]),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_hostile_yaml_is_one_short_line_at_once(tmp_path: Path, lines: str, fragments: list[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"model: {{path: model}}\n{lines}\noutput: runs/x\n")
    begin = time.process_time()
    with pytest.raises(ValueError, match=r"run\.yaml: ") as caught:
        load_config(file)
    assert time.process_time() - begin < 2
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600 + len(str(file))
    for fragment in fragments:
        assert fragment in message, message


def test_values_that_are_shared_are_saved_without_aliases(tmp_path: Path) -> None:
    shared = [1, 2]
    (tmp_path / "shared.yaml").write_text(plain_yaml.dump({"a": shared, "b": shared}))
    assert plain_yaml.load((tmp_path / "shared.yaml").read_text()) == {"a": shared, "b": shared}


def test_unreadable_files_and_overrides_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.yaml: cannot read"):
        load_config(tmp_path / "nowhere.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("model: [unclosed\n")
    with pytest.raises(ValueError, match=r"broken\.yaml: not valid YAML: .*line"):
        load_config(broken)
    broken.write_text("- a\n- b\n")
    with pytest.raises(ValueError, match="found list at the top"):
        load_config(broken)
    broken.write_text("output: runs/x\nmodel: {path: model}\n")
    with pytest.raises(ValueError, match="write key=value"):
        load_config(broken, ["training.steps"])
    with pytest.raises(ValueError, match=r"'seed=\[\*x\]'.*alias 'x': write the value out"):
        load_config(broken, ["seed=[*x]"])
    with pytest.raises(ValueError, match="output is not a section"):
        load_config(broken, ["output.steps=3"])


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["training.packing=once"], "on the command line: training.packing: found 'once'; "),
        (["training={packing: once}"], "on the command line: training.packing: found 'once'; "),
        (["training.group_sise=4"], "on the command line: unknown key training.group_sise; did you"),
        (["trainning.steps=4"], "on the command line: unknown key trainning; did you mean training?"),
        (["seed=3"], "FILE: optimizer.lr: found 'fast'; "),
        (["training.packing=once"], "; FILE: optimizer.lr: found 'fast'; "),
        (["optimizer.lr_typo=1"], "on the command line: unknown key optimizer.lr_typo"),
        (
            ["optimizer.lr=1", "rollout.max_new_tokens=9", "rollout.max_model_len=9"],
            "FILE and on the command line: rollo",
        ),
        (["optimizer.lr=slow"], "on the command line: optimizer.lr: found 'slow'; "),
    ],
)
def test_a_mistake_is_blamed_on_the_file_or_on_the_command_line(
    tmp_path: Path, overrides: list[str], said: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("output: runs/x\nmodel: {path: model}\noptimizer: {lr: fast}\n")
    with pytest.raises(ValueError) as caught:
        load_config(file, overrides)
    message = str(caught.value).replace(str(file), "FILE")
    assert said in message and (said.startswith("; ") or message.startswith(said)), message


def test_a_verifier_may_be_given_by_its_name_alone():
    needed = {"output": "x", "model": {"path": "y"}}
    short = parse_config({**needed, "verifier": "my_package.module:MyVerifier"}, "here").verifier
    assert short == parse_config({**needed, "verifier": {"name": "my_package.module:MyVerifier"}}, "here").verifier
    assert short.name == "my_package.module:MyVerifier"


@pytest.mark.parametrize("key", ["temperature", "top_p"])
def test_importance_weights_need_log_probs_of_what_was_sampled_from(key: str) -> None:
    tree = {"output": "x", "model": {"path": "y"}, "objective": {"importance": "mask"}, "rollout": {key: 0.7}}
    with pytest.raises(ValueError, match=rf"objective.importance is mask, and rollout.{key} is 0.7"):
        parse_config(tree, "test")
