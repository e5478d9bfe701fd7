import json

import pytest

from pivotrl.trajectories import store
from pivotrl.trajectories.records import Pivot, Profile, Turn


def test_arrays_stream_item_by_item_whatever_the_chunk_size(tmp_path, monkeypatch):
    items = [{"text": 'a ] , [ \\" \u20ac \U0001f600' * 5, "n": index} for index in range(40)] + [12, "x", None, []]
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf \n" + json.dumps(items, indent=1, ensure_ascii=False).encode())
    for size in (1, 2, 7, 64, 1 << 20):
        monkeypatch.setattr(store, "ARRAY_CHUNK", size)
        assert list(store.scan_json_array(path)) == list(enumerate(items))


@pytest.mark.parametrize("tail, item", [("", 2), (", {", 2), (", nope]", 2)])
def test_a_broken_array_names_the_item(tmp_path, tail, item):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": 2}' + tail)
    with pytest.raises(ValueError, match=f"item {item}: not JSON"):
        list(store.scan_json_array(path))


@pytest.mark.parametrize("tail", ['{"a": 3}\n{"a": 4}', "[]", "GARBAGE", "\n" * 5000 + "]"])
@pytest.mark.parametrize("head", ["[]\n", '[{"a": 1}]\n'])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_text_behind_an_array_is_never_lost_in_silence(tmp_path, monkeypatch, head, tail, size):
    monkeypatch.setattr(store, "ARRAY_CHUNK", size)
    path = tmp_path / "a.json"
    path.write_text(head + " \n\n")
    whole = list(store.scan_rows(path))
    assert len(whole) == head.count("a")
    path.write_text(head + tail)
    with pytest.raises(ValueError, match=r"a\.json: text follows the JSON array .* write one array, or JSON Lines"):
        list(store.scan_rows(path))


def test_lines_that_are_not_json_are_told_and_passed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n\xff\xfe\n{"b": ' + b"[" * 200_000 + b'\n{"c": NaN}\n{"d"')
    found = list(store.scan_jsonl(path))
    assert [line for line, _, _ in found] == [1, 3, 4, 5, 6]
    assert [bool(fault) for _, _, fault in found] == [False, True, True, False, True]


def test_writing_is_atomic_and_equal_rows_give_equal_bytes(tmp_path):
    path = tmp_path / "a.jsonl"
    store.write_jsonl(path, [{"b": "\u20ac", "a": 1}])
    before = path.read_bytes()

    def broken():
        yield {"a": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write_jsonl(path, broken())
    assert path.read_bytes() == before == b'{"b":"\\u20ac","a":1}\n'
    assert [row for _, row in store.read_jsonl(path)] == [{"a": 1, "b": "\u20ac"}]


def test_an_append_that_was_cut_is_dropped(tmp_path):
    path = tmp_path / "a.jsonl"
    store.append_jsonl(path, [{"a": 1}, {"a": 2}])
    whole = path.read_bytes()
    for tail in (b"", b"{", b'{"a":' + b"x" * 200_000):
        path.write_bytes(whole + tail)
        store.drop_incomplete_line(path)
        assert path.read_bytes() == whole
    path.write_bytes(b"{")
    store.drop_incomplete_line(path)
    assert path.read_bytes() == b""


def test_memory_stays_flat_over_a_long_file(tmp_path):
    import tracemalloc

    path = tmp_path / "long.jsonl"
    row = json.dumps({"messages": [{"role": "assistant", "content": "x" * 20_000}]})
    with open(path, "w") as file:
        file.writelines(row + "\n" for _ in range(1000))
    tracemalloc.start()
    assert sum(1 for _ in store.scan_rows(path)) == 1000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "20 MB of rows are read one at a time"


def test_records_survive_the_disk():
    turn = Turn(
        "a", "t", 0, 1, [{"role": "user", "content": "x"}], [], {"type": "message", "content": "y"}, {}, "s", "train"
    )
    pivot = Pivot(turn, Profile("a", [1.0, 0.0], ["r", "s"], 0.5, 0.25, "p", {"n": 2}), [1, 2], "h")
    assert Pivot.from_json(json.loads(store.dumps(pivot.to_json()))) == pivot
