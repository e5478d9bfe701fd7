"""Duplicates, leakage and lengths of trajectories that were made to have them."""

import random
import tracemalloc

import pytest

from pivotrl.pivots.analysis.duplicates import Duplicates
from pivotrl.pivots.analysis.examples import Examples
from pivotrl.pivots.analysis.groups import OTHERS, Groups, _kept
from pivotrl.pivots.analysis.hash_sample import HashSample
from pivotrl.pivots.analysis.leakage import Leakage
from pivotrl.pivots.analysis.lengths import Lengths
from pivotrl.pivots.analysis.minhash import signature, similarity
from pivotrl.pivots.analysis.sweeps import Sweeps
from pivotrl.pivots.analysis.walk import walk
from tests.pivots.analysis.made import make_selection, trajectory

WORDS = [f"word{index}" for index in range(2000)]


def sentence(rng, count=60):
    return " ".join(rng.choices(WORDS, k=count))


def changed(text, rng, share):
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in text.split())


def test_similarity_is_jaccards():
    rng = random.Random(0)
    for share in (0.0, 0.02, 0.1, 0.5):
        one = sentence(rng, 200)
        other = changed(one, rng, share)
        sets = [{tuple(words[i : i + 3]) for i in range(198)} for words in (one.split(), other.split())]
        exact = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        assert similarity(signature(one, 500), signature(other, 500)) == pytest.approx(exact, abs=0.15)
    assert similarity(signature("", 9), signature("one", 9)) == 0.0
    assert similarity(signature("caf\u00e9 au lait", 9), signature("caf\u00e8 au lait", 9)) == 0.0
    assert similarity(signature("A B c \ud800", 9), signature("a b C \ud800", 9)) == 1.0
    assert similarity(signature("x y z a b c d", 4), signature("q r s a b c d", 4)) == 1.0, "the last words count"


def test_a_hash_sample_is_the_same_in_any_order_and_makes_what_it_keeps():
    made = []
    names = [f"n{index}" for index in range(5000)]
    samples = []
    for order in (names, names[::-1]):
        sample = HashSample(20, "salt")
        for name in order:
            sample.offer(name, lambda name=name: made.append(name) or name)
        samples.append(sorted(sample))
        assert len(sample) == 20 and sample.offered == 5000
    assert samples[0] == samples[1] and len(made) < 2 * 20 * 10


def test_duplicates_are_found_by_their_kind(tmp_path):
    rng = random.Random(3)
    plain = [trajectory(f"p{index}", sentence(rng), ["get"]) for index in range(20)]
    twin = trajectory("twin", "hello there my friend", ["get"], reply="bye")
    other = trajectory("twin", "hello there my friend", ["put"], reply="bye")
    text = sentence(rng)
    near = [trajectory(f"near{index}", f"{text} {index}", ["get"], reply="ok") for index in range(2)]
    selection = make_selection(tmp_path, [*plain, twin, other, *near], lambda turn: [0.0, 1.0])
    duplicates = Duplicates()
    for seen in walk(selection):
        duplicates.choose(seen)
    for seen in walk(selection):
        duplicates.compare(seen)
    found = duplicates.report()
    assert found["turns"] == found["compared"] == 48
    assert found["equal_prompts"] == pytest.approx(2 / 48), "the first turns of the twins"
    assert found["equal_prompts_other_action"] == pytest.approx(2 / 48)
    assert {one["id"] for one in found["conflicts"]} == {"t:twin/0", "t:twin~2/0"}
    assert {(one["id"], one["other"]) for one in found["near_pairs"]} >= {
        ("t:near0/0", "t:near1/0"),
        ("t:near1/0", "t:near0/0"),
    }
    assert not {one["id"][:3] for one in found["near_pairs"]} & {"t:p"}
    assert found["equal_actions"] == pytest.approx(24 / 48), "the replies; every call names its own key"


def test_a_sample_of_the_turns_is_compared_with_all(tmp_path):
    rng = random.Random(4)
    texts = [sentence(rng, 12) for _ in range(60)]
    rows = [trajectory(f"t{index}", texts[index // 2], ["get"]) for index in range(120)]
    selection = make_selection(tmp_path, rows, lambda turn: [0.0, 1.0] if turn.turn_index == 0 else None)
    duplicates = Duplicates(sampled=30)
    for seen in walk(selection):
        duplicates.choose(seen)
    for seen in walk(selection):
        duplicates.compare(seen)
    found = duplicates.report()
    assert (found["turns"], found["compared"], found["equal_prompts"]) == (120, 30, 1.0)


def test_leakage_is_told_by_trajectory(tmp_path):
    rng = random.Random(5)
    texts = [sentence(rng) for _ in range(120)]
    twins = [trajectory(f"a{index}", texts[index], []) for index in range(40)]
    again = [trajectory(f"b{index}", texts[index], []) for index in range(40)]
    near = [trajectory(f"c{index}", f"{texts[index]} and so on", []) for index in range(20, 40)]
    alone = [trajectory(f"d{index}", texts[index], []) for index in range(40, 120)]
    selection = make_selection(tmp_path, [*twins, *again, *near, *alone], lambda turn: [0.0, 1.0], heldout_share=0.3)
    leakage = Leakage()
    split = {}
    for seen in walk(selection):
        leakage.choose(seen)
        split[seen.trajectory.id.removeprefix("t:")] = seen.split
    for seen in walk(selection):
        leakage.compare(seen)
    found = leakage.report()
    torn = [one for n in range(40) for one, other in ((f"a{n}", f"b{n}"), (f"b{n}", f"a{n}"))
            if (split[one], split[other]) == ("heldout", "train")]  # fmt: skip
    assert torn and found["equal"] == len(torn)
    assert found["heldout"] == found["compared"] == sum(one == "heldout" for one in split.values())
    assert 0 < found["near"] <= 30 and not any(pair["id"].startswith("t:d") for pair in found["pairs"])
    assert all(split[pair["id"].removeprefix("t:")] == "heldout" for pair in found["pairs"])
    assert all(split[pair["train"].removeprefix("t:")] == "train" for pair in found["pairs"])


def test_lengths_count_tokens_where_the_tokenizer_is_at_hand(tmp_path):
    from pivotrl.trajectories.template import ChatTemplate

    base = "pivotrl/demo/base"
    template = ChatTemplate(base)
    rows = [trajectory(f"t{index}", "please " * (5 * index + 1), []) for index in range(30)]
    where = {"model.path": base, "model.chat_template (hash)": template.hash}
    selection = make_selection(
        tmp_path, rows, lambda turn: None if len(str(turn.messages)) > 900 else [0.0, 1.0], **where
    )
    lengths, exact = Lengths(selection), []
    for seen in walk(selection):
        lengths.add(seen)
        exact += [len(template.encode(turn.messages, turn.tools)) for turn, _ in seen.turns]
    found = lengths.report()
    assert (found["unit"], found["measured"], sum(found["counts"])) == ("tokens", 30, 30)
    assert found["quantiles"]["1"] == max(exact) and found["quantiles"]["0.5"] == sorted(exact)[14]
    assert found["room"] == 464 and found["dropped"] == sum(len(str(row["messages"][:2])) > 900 for row in rows) > 0
    assert found["longer_than"]["464"] == sum(length > 464 for length in exact) / 30
    for place, count in enumerate(found["counts"]):
        assert count == sum(length // found["width"] == place for length in exact)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    rng = random.Random(6)
    peaks = []
    for count in (100, 500):
        rows = [trajectory(f"t{index}", sentence(rng), [f"tool{index % 7}"]) for index in range(count)]
        chosen = make_selection(tmp_path / str(count), rows, lambda turn: [float(rng.random() < 0.3) for _ in range(4)])
        parts = [Groups(0.6), Examples(0.6), Lengths(chosen, 10)]
        duplicates, leakage, sweeps = Duplicates(10), Leakage(10), Sweeps(0.6, 4)
        tracemalloc.start()
        for seen in walk(chosen):
            for part in parts:
                part.add(seen)
            duplicates.choose(seen)
            leakage.choose(seen)
            for _, profile in seen.turns:
                sweeps.add(profile)
        for seen in walk(chosen):
            duplicates.compare(seen)
            leakage.compare(seen)
        reports = [one.report() for one in (*parts, duplicates, leakage, sweeps)]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert reports[0]["all"]["turns"] == 2 * count
    grown = (peaks[1] - peaks[0]) / 800
    assert grown < 350, f"{grown:.0f} bytes a turn; the reader keeps an integer for each id, and a row has 1,000"


def test_keys_are_capped():
    groups = {str(index): None for index in range(1000)}
    assert _kept(groups, "7") == "7" and _kept(groups, "new") == OTHERS
