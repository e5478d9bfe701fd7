"""Every kind of damage is seen and named."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pivotrl.policy import checkpoint_checksums as sums
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint, Entry


def test_what_was_written_is_accepted_and_any_other_file_named(tmp_path: Path) -> None:
    path, data = tmp_path / "shard", bytes(range(256)) * 100
    entry = sums.write(path, data)
    assert entry == sums.settle(path) and entry.size == len(data)
    sums.check(path, entry)
    flipped = bytearray(data)
    flipped[12_345] ^= 1
    for content, said in {
        bytes(flipped): r"SHA-256 .* found, .* expected\)",
        data[:-1]: r"25599 bytes found, 25600 expected\)",
        data + b"x": "25601 bytes found",
        b"": "0 bytes found",
    }.items():
        path.write_bytes(content)
        with pytest.raises(
            DamagedCheckpoint, match=rf"shard is damaged: it does not have the bytes that were saved \({said}"
        ):
            sums.check(path, entry)
    path.unlink()
    with pytest.raises(DamagedCheckpoint, match="shard: No such file"):
        sums.check(path, entry)
    os.mkfifo(path)
    with pytest.raises(DamagedCheckpoint, match="shard: not a file"):
        sums.check(path, entry)


@pytest.mark.parametrize("left_out", [".metadata", "common.pt", "metadata.json", "__0_0.distcp"])
def test_a_manifest_that_leaves_a_file_out_vouches_for_nothing(tmp_path: Path, left_out: str) -> None:
    names = [".metadata", "common.pt", "metadata.json", "__0_0.distcp"]
    entries = {name: sums.write(tmp_path / name, b"abc") for name in names}
    group = SimpleNamespace(rank=lambda: 0, size=lambda: 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "together", lambda group, work: work())
        sums.write_manifest(tmp_path, entries)
        sums.verify(tmp_path, group)
        del entries[left_out]
        sums.write_manifest(tmp_path, entries)
        with pytest.raises(DamagedCheckpoint, match=f"{left_out}: checksums.json does not have it"):
            sums.verify(tmp_path, group)


def test_a_file_that_does_not_hold_what_was_written_is_seen_at_once(tmp_path: Path) -> None:
    file = sums.HashedFile(tmp_path / "shard")
    file.write(b"abc")
    file._file.write(b"a disk's mistake")
    with pytest.raises(DamagedCheckpoint, match=r"shard is damaged: .* \(19 bytes found, 3 expected"):
        file.settle()


def test_every_flipped_bit_of_the_manifest_is_seen(tmp_path: Path) -> None:
    sums.write_manifest(tmp_path, {"a": Entry(3, "ab"), "b/c": Entry(4, "cd")})
    path = tmp_path / sums.MANIFEST
    whole = path.read_bytes()
    assert sums.read_manifest(tmp_path) == {"a": Entry(3, "ab"), "b/c": Entry(4, "cd")}
    for index in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                assert sums.read_manifest(tmp_path) == {"a": Entry(3, "ab"), "b/c": Entry(4, "cd")}, (index, bit)
            except DamagedCheckpoint as error:
                assert str(path) in str(error)
    odd = [
        {"a": [3, "ab", 1]},
        {"a": ["3", "ab"]},
        {"a": [3, None]},
        {"a/../../b": [3, "ab"]},
        {"/a": [3, "ab"]},
        {"a": 3},
    ]
    signed = [json.dumps({"files": files, "sha256": sums._own(files)}) for files in odd]
    for text in ("", "[]", "[" * 100_000, json.dumps({"files": {}}), *signed):
        path.write_text(text)
        with pytest.raises(DamagedCheckpoint, match=sums.MANIFEST):
            sums.read_manifest(tmp_path)


def test_ranks_share_the_files_evenly() -> None:
    entries = {f"shard {i}": Entry(100 + i, "") for i in range(17)} | {"large": Entry(900, "")}
    parts = [sums.share(entries, rank, 4) for rank in range(4)]
    assert sorted(name for part in parts for name in part) == sorted(entries)
    loads = [sum(entries[name].size for name in part) for part in parts]
    assert max(loads) <= 900 and min(loads) > 0.6 * max(loads)
