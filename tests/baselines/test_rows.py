"""Rows to imitate: the ids that the policy would see and write, checked against the template turn by turn."""

import json
from pathlib import Path

import pytest

from pivotrl.baselines.batches import Batches
from pivotrl.baselines.rows import Imitated, Row, read, stop_ids
from pivotrl.config import RunConfig, parse_config
from pivotrl.demo.trajectories import write
from pivotrl.policy.packing import Sample
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.trajectories.turns import TurnReader
from tests.launch import REPOSITORY

BASE = REPOSITORY / "pivotrl" / "demo" / "base"
HISTORY = "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
OTHERS = HISTORY + "{{ m.content }}<|im_end|>\n{%- endfor -%}"
REPLY = "{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}"
FORGETS = (
    HISTORY
    + "{%- if m.role == 'assistant' and not loop.last -%}{{ m.content.split('!')[-1] }}{%- else -%}{{ m.content }}"
    + "{%- endif -%}<|im_end|>\n{%- endfor -%}"
    + REPLY
)
"""As templates do that drop old thoughts: here, what stands before a `!`."""


def config_of(file: Path, **rollout: int) -> RunConfig:
    tree = {"output": "x", "model": {"path": str(BASE)}, "trajectories": {"files": [str(file)], "heldout_share": 0.25}}
    return parse_config(tree | {"rollout": {"max_model_len": 512, "max_new_tokens": 48, **rollout}}, "test")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "t.jsonl"
    write(path, 12, "train")
    return path


def targets(sample: Sample) -> list[int]:
    return [sample.response_ids[place] for place in sample.targets]


def samples_of(found: Imitated) -> list[Sample]:
    return [row.sample() for rows in found.trajectories.values() for row in rows]


def test_a_trajectory_is_one_row_whose_every_prompt_is_the_templates(file: Path) -> None:
    template, config = ChatTemplate(BASE), config_of(file)
    found = read(config, template)
    turns = [t for t in TurnReader(config.trajectories, 0) if isinstance(t, Turn) and t.split == "train"]
    assert found.turns == len(turns) and not found.left_out
    assert all(len(rows) == 1 for rows in found.trajectories.values())
    assert len(found.trajectories) == len({turn.trajectory_id for turn in turns}) < 12, "the training split only"
    left = iter(turns)
    for (row,) in found.trajectories.values():
        ids = row.ids.tolist()
        for start, end in row.spans:
            turn = next(left)
            assert template.encode(turn.messages, turn.tools) == ids[:start]
            assert ids[end - 1] == template.tokenizer.eos_token_id not in ids[start : end - 1]
            text = template.decode(ids[start:end])
            expert = turn.expert
            assert text == expert["content"] if expert["type"] == "message" else expert["name"] in text
        sample = row.sample()
        assert [*sample.prompt_ids, *sample.response_ids] == ids
        assert targets(sample) == [token for start, end in row.spans for token in ids[start:end]]
    assert next(left, None) is None


def test_parts_make_the_whole_in_the_same_order(file: Path) -> None:
    template, config = ChatTemplate(BASE), config_of(file)
    whole = read(config, template)
    parts = [read(config, template, part, 3) for part in range(3)]
    merged = Imitated.merge(parts)
    assert merged == whole and list(merged.trajectories) == list(whole.trajectories)
    assert len({len(part.trajectories) for part in parts}) <= 2, "shares of about equal size"


def test_a_turn_that_does_not_fit_is_left_out_and_what_precedes_it_stays(file: Path) -> None:
    template = ChatTemplate(BASE)
    whole = samples_of(read(config_of(file), template))
    longest = max(map(len, whole)) - 1
    cut = read(config_of(file, max_model_len=longest), template)
    for sample, shorter in zip(whole, samples_of(cut), strict=True):
        ids = [*sample.prompt_ids, *sample.response_ids]
        assert len(shorter) <= longest and ids[: len(shorter)] == [*shorter.prompt_ids, *shorter.response_ids]
        assert (len(shorter) == len(sample)) == (len(sample) <= longest)
    assert cut.left_out["too_long"] == read(config_of(file), template).turns - cut.turns > 0


def dialog(*contents: str) -> list[dict]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]


def read_with(tmp_path: Path, template: str, rows: list[dict]) -> tuple[Imitated, ChatTemplate]:
    (tmp_path / "t.jinja").write_text(template)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), **row}) + "\n" for n, row in enumerate(rows)))
    config = config_of(path)
    config = config.model_copy(update={"trajectories": config.trajectories.model_copy(update={"heldout_share": 0.0})})
    made = ChatTemplate(BASE, tmp_path / "t.jinja")
    return read(config, made), made


def test_a_template_that_forgets_gives_one_row_a_turn_behind_its_own_prompt(tmp_path: Path) -> None:
    messages = dialog("Who are you?", "It is late ! Done", "and now", "paid", "Next", "Look ! ok")
    found, template = read_with(tmp_path, FORGETS, [{"messages": messages}])
    (rows,) = found.trajectories.values()
    assert [len(row.spans) for row in rows] == [1, 2], "the second turn is written as it stays; the first was not"
    for row, places in zip(rows, [(1,), (3, 5)], strict=True):
        for (start, end), place in zip(row.spans, places, strict=True):
            ids = row.ids.tolist()
            assert ids[:start] == template.encode(messages[:place], [])
            assert template.decode(ids[start:end]) == messages[place]["content"]
    one_row, _ = read_with(tmp_path, OTHERS + REPLY, [{"messages": messages}])
    assert [len(rows) for rows in one_row.trajectories.values()] == [1]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (OTHERS + "{%- if add_generation_prompt -%}<|im_start|>assistant\nok {%- endif -%}", "other_prompt"),
        ((OTHERS + REPLY).replace("<|im_end|>", ""), "no_end"),
        ("{%- if messages | length > 3 -%}{{ raise_exception('no') }}{%- endif -%}" + OTHERS + REPLY, "refused"),
    ],
)
def test_a_turn_that_the_template_makes_unusable_is_counted(tmp_path: Path, template: str, reason: str) -> None:
    found, _ = read_with(tmp_path, template, [{"messages": dialog("Who", "Done", "Next", "Done")}])
    assert dict(found.left_out) == {reason: 1 if reason == "refused" else 2}
    assert found.turns == 2 - found.left_out[reason]


def test_a_row_that_is_one_turn_is_written_from_the_experts_action(tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "get_order", "arguments": '{"order_id": "w12"}'}
    source = (BASE / "chat_template.jinja").read_text()
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "Where is order w12"}], "tools": []},
        "expected_action": call,
    }
    found, template = read_with(tmp_path, source, [row])
    ((only,),) = found.trajectories.values()
    ((start, end),) = only.spans
    text = template.decode(only.ids.tolist()[start:end])
    assert text == '<tool_call>\n{"name": "get_order", "arguments": {"order_id": "w12"}}\n</tool_call>'


def test_stop_tokens_are_the_tokenizers_and_the_generation_configs(file: Path, tmp_path: Path) -> None:
    template, config = ChatTemplate(BASE), config_of(file)
    assert stop_ids(config, template) == {template.tokenizer.eos_token_id}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    elsewhere = config.model_copy(update={"model": config.model.model_copy(update={"path": str(tmp_path)})})
    assert stop_ids(elsewhere, template) == {2, 7}
    template.tokenizer.eos_token = None
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(ValueError, match="names no end token"):
        stop_ids(elsewhere, template)


def test_a_row_is_named_by_its_ids_and_its_targets() -> None:
    one, other = Row(), Row()
    one.add([1, 2], [3, 4])
    other.add([1, 2, 3], [4])
    assert one.ids == other.ids and one.content() != other.content()


def test_an_epoch_holds_every_item_at_most_once_and_batches_are_pure() -> None:
    batches, again = Batches(11, 4, 3), Batches(11, 4, 3)
    assert batches.per_epoch == 2
    for epoch in range(3):
        seen = [number for step in range(2) for number in batches(2 * epoch + step)]
        assert len(set(seen)) == len(seen) == 8 and set(seen) <= set(range(11))
    assert [again(step) for step in (5, 0, 3)] == [batches(step) for step in (5, 0, 3)]
    assert batches(0) != batches(2) and batches(0) != Batches(11, 4, 4)(0)
