import gzip
import json

import pytest

from pivotrl.trajectories import arrays, store
from pivotrl.trajectories.records import Pivot, Profile, Turn


def test_arrays_stream_item_by_item_whatever_the_chunk_size(tmp_path, monkeypatch):
    items = [{"text": 'a ] , [ \\" \u20ac \U0001f600' * 5, "n": index} for index in range(40)] + [12, "x", None, []]
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf \n" + json.dumps(items, indent=1, ensure_ascii=False).encode())
    for size in (1, 2, 7, 64, 1 << 20):
        monkeypatch.setattr(arrays, "ARRAY_CHUNK", size)
        found = list(store.scan_rows(path))
        assert found == [(f"item {index}", item, "") for index, item in enumerate(items)]


@pytest.mark.parametrize("tail, item", [("", 2), (", {", 2), (", nope]", 2)])
def test_a_broken_array_names_the_item(tmp_path, tail, item):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": 2}' + tail)
    with pytest.raises(ValueError, match=f"item {item}: not JSON"):
        list(store.scan_rows(path))


@pytest.mark.parametrize("tail", ['{"a": 3}\n{"a": 4}', "[]", "GARBAGE", "\n" * 5000 + "]"])
@pytest.mark.parametrize("head", ["[]\n", '[{"a": 1}]\n'])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_text_behind_an_array_is_never_lost_in_silence(tmp_path, monkeypatch, head, tail, size):
    monkeypatch.setattr(arrays, "ARRAY_CHUNK", size)
    path = tmp_path / "a.json"
    path.write_text(head + " \n\n")
    whole = list(store.scan_rows(path))
    assert len(whole) == head.count("a")
    path.write_text(head + tail)
    with pytest.raises(ValueError, match=r"a\.json: text follows the JSON array .* write one array, or JSON Lines"):
        list(store.scan_rows(path))


@pytest.mark.parametrize(
    "text", ['[{"a": 1} {"a": 2}]', '[{"a": 1},, {"a": 2}]', '[{"a": 1}\n{"a": 2}]', '[{"a": 1},]']
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_commas_of_an_array_are_neither_left_out_nor_doubled(tmp_path, monkeypatch, text, size):
    monkeypatch.setattr(arrays, "ARRAY_CHUNK", size)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="item 1: not JSON"):
        list(store.scan_rows(path))


@pytest.mark.parametrize("indent", [0, 2])
@pytest.mark.parametrize("head", ["", "\ufeff", "\n \n", "\ufeff\n"])
def test_one_object_over_many_lines_is_one_row(tmp_path, head, indent):
    row = {"messages": [{"role": "user", "content": "a\nb"}], "deep": {"x": [{"y": []}, 1, True]}, "empty": {}}
    path = tmp_path / "a.traj"
    path.write_text(head + json.dumps(row, indent=indent) + "\n\n", encoding="utf-8")
    assert list(store.scan_rows(path)) == [("item 0", row, "")]
    path.write_text(head + json.dumps(row), encoding="utf-8")
    (place, found, fault), *more = store.scan_rows(path)
    assert (found, fault, more) == (row, "", []) and place.startswith("line ")


def test_lines_stay_lines_where_the_first_is_broken_or_cut(tmp_path):
    path = tmp_path / "a.jsonl"
    for first in ("{bad", '{"a": 1}}', '{"a": ', "{", '{"a": "x', "x"):
        path.write_text(first + '\n{"a": 2}\n')
        rows = list(store.scan_rows(path))
        assert [row for _, row, _ in rows] == [None, {"a": 2}] and rows[0][2]


def test_a_list_of_messages_is_one_row_and_a_list_of_rows_is_not(tmp_path):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(messages, indent=1))
    assert list(store.scan_rows(path)) == [("item 0", messages, "")]
    path.write_text(json.dumps([messages, messages]))
    assert [row for _, row, _ in store.scan_rows(path)] == [messages, messages]
    rows = [{"role": "expert", "messages": messages}] * 2
    path.write_text(json.dumps(rows))
    assert [row for _, row, _ in store.scan_rows(path)] == rows


def test_a_file_that_is_one_row_is_whole_and_not_too_large(tmp_path, monkeypatch):
    path = tmp_path / "a.traj"
    path.write_text('{\n "a": 1,\n "b": 2 "c": 3\n}')
    with pytest.raises(ValueError, match=r"a\.traj: begins as one JSON object .* line 3 column"):
        list(store.scan_rows(path))
    monkeypatch.setattr(store, "LARGEST_ROW", 20)
    for text in ('{\n "a": 1,\n "b": 2, "c": 3\n}', '[{"role": "user", "content": "x"}]'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"may have 20 bytes: write JSON Lines"):
            list(store.scan_rows(path))


@pytest.mark.parametrize(
    "raw, says",
    [
        (gzip.compress(b"{}"), "packed with gzip; unpack it"),
        (b"PK\x03\x04...", "packed with zip"),
        (b"PAR1...", "Parquet"),
        ('{"messages": []}'.encode("utf-16"), "UTF-16"),
        ('{"messages": []}'.encode("utf-16-le"), "UTF-16"),
        ('{"messages": []}'.encode("utf-32"), "UTF-16"),
        (b'{"a": \n"\xff\xff"}', "not UTF-8"),
        (b'["\xff\xff\xff\xff"]', "not UTF-8"),
    ],
)
def test_files_that_are_no_utf_8_text_say_what_they_are(tmp_path, raw, says):
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=says):
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
