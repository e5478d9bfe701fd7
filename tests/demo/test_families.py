"""The families' answers, checked by other means than those that made them."""

import pytest

from pivotrl.demo.families import FAMILIES, questions


def independent(family: str, question: str) -> str:
    words = question.split()
    if family == "add":
        return str(sum(int(word) for word in words if word.isdigit()))
    if family == "sort":
        return " ".join(chr(code) for code in range(ord("a"), ord("k")) if chr(code) in words[1:])
    if family == "reverse":
        return question.removeprefix("Reverse ")[::-1]
    table = str.maketrans("abcdefghij", "bcdefghija")
    text = " ".join(words[3:])
    for _ in range(int(words[1])):
        text = text.translate(table)
    return text


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_right(family):
    pairs = questions(family, 300, "test")
    assert [answer for _, answer in pairs] == [independent(family, question) for question, _ in pairs]
    assert len(set(pairs)) > 250


def test_seeds_decide():
    assert questions("add", 20, 1) == questions("add", 20, 1) != questions("add", 20, 2)


def test_unknown_family_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'chess'.*add, sort"):
        questions("chess", 1, 0)
