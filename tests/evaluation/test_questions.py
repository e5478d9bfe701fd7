"""A file of questions is read strictly: each mistake names its line and what to write."""

import json

import pytest

from pivotrl.evaluation.questions import read_questions

GOOD = {"family": "add", "messages": [{"role": "user", "content": "Add 1 and 2"}], "answer": "3"}


def file_of(tmp_path, *rows):
    path = tmp_path / "q.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_questions_are_numbered_within_their_family(tmp_path):
    other = GOOD | {"family": "sort"}
    second = GOOD | {"messages": [{"role": "system", "content": "Short."}, *GOOD["messages"]]}
    found = read_questions(file_of(tmp_path, GOOD, "", other, second))
    assert [one.id for one in found] == ["add/0", "sort/0", "add/1"]
    assert found[2].messages == second["messages"] and found[0].answer == "3"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (GOOD | {"answer": "4"}, "asks what line 1 asks, in the same family; remove one"),
        ("{", "not JSON"),
        ("[]", "found"),
        (GOOD | {"answer": 3}, "answer is 3"),
        (GOOD | {"answer": ""}, "answer is ''"),
        (GOOD | {"family": None}, "family is None"),
        (GOOD | {"messages": []}, r"messages is \[\]"),
        (GOOD | {"messages": [{"role": "robot", "content": "x"}]}, "messages hold"),
        (GOOD | {"messages": [{"role": "user", "content": None}]}, "messages hold"),
        (GOOD | {"messages": [*GOOD["messages"], {"role": "assistant", "content": "3"}]}, "the assistant's own"),
        (GOOD | {"id": 7}, "unknown key 'id'"),
    ],
)
def test_a_mistake_names_its_line(tmp_path, row, says):
    with pytest.raises(ValueError, match=rf"q\.jsonl:2: .*{says}") as caught:
        read_questions(file_of(tmp_path, GOOD, row))
    assert "\n" not in str(caught.value)


def test_an_empty_or_missing_file(tmp_path):
    with pytest.raises(ValueError, match="no questions"):
        read_questions(file_of(tmp_path))
    with pytest.raises(ValueError, match=r"none\.jsonl: cannot be read"):
        read_questions(tmp_path / "none.jsonl")
