"""Whatever file operation a run is killed at, its folder has a complete checkpoint that counts, or none had yet."""

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pivotrl.policy import checkpoint_checksums, checkpoint_rotation
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint, check, read_manifest

OPERATIONS = ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink", "open")


def save(folder: Path, step: int, reward: float | None = None, keep: int = 1, keep_best: int = 0) -> Path:
    partial = checkpoint_rotation.start(folder, step)
    entries = {
        name: checkpoint_checksums.write(partial / name, data)
        for name, data in {
            "shard": bytes([step]) * 1000,
            "run.json": json.dumps({"step": step, "reward": reward}).encode(),
        }.items()
    }
    checkpoint_checksums.write_manifest(partial, entries)
    target = checkpoint_rotation.publish(partial)
    checkpoint_rotation.rotate(target, keep, keep_best)
    return target


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed_at(operation: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed when it comes to that file operation; False where it ended before."""
    child = os.fork()
    if child == 0:
        left = [operation]

        def counted(original: Callable) -> Callable:
            def call(*args: object, **kwargs: object) -> object:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return original(*args, **kwargs)

            return call

        for name in OPERATIONS:
            setattr(os, name, counted(getattr(os, name)))
        io.open = counted(io.open)  # what pathlib calls
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("before", "step"), [((), 1), ((1,), 2), ((1, 2), 2)])
def test_a_run_killed_at_any_operation_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: tuple, step: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # counts, but a kill loses no pages
    operation, killed, seen = 0, True, set()
    while killed:
        folder = tmp_path / str(operation)
        folder.mkdir()
        for earlier in before:
            save(folder, earlier)
        killed = killed_at(operation, lambda folder=folder: save(folder, step))
        checkpoint_rotation.clean(folder)
        target = checkpoint_rotation.newest(folder)
        seen.add(target.name if target else None)
        assert target is not None or not before
        if target is not None:
            for name, entry in read_manifest(target).items():
                check(target / name, entry)
            assert (target / "shard").read_bytes()[0] == checkpoint_rotation.step_of(target)
        assert not [name for name in names(folder) if name.endswith((".partial", ".replaced"))]
        save(folder, step + 1)  # the run goes on
        assert checkpoint_rotation.newest(folder) == folder / checkpoint_rotation.name_of(step + 1)
        operation += 1
    assert operation > 15
    assert seen == {checkpoint_rotation.name_of(before[-1]) if before else None, checkpoint_rotation.name_of(step)}


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    for step, reward in enumerate([0.1, 0.9, 0.2, 0.5, 0.3, None], start=1):
        save(tmp_path, step, reward, keep=2, keep_best=2)
    assert names(tmp_path) == ["best", "latest", "step_000002", "step_000004", "step_000005", "step_000006"]
    assert (tmp_path / "best").read_text() == "step_000002"
    assert (tmp_path / "latest").read_text() == "step_000006"


def test_a_reward_that_is_no_number_is_not_the_best(tmp_path: Path) -> None:
    for step, reward in enumerate([0.1, float("nan"), 0.3, 0.2], start=1):
        save(tmp_path, step, reward, keep_best=1)
    assert (tmp_path / "best").read_text() == "step_000003"


def test_whatever_is_left_over_is_cleaned_away(tmp_path: Path) -> None:
    save(tmp_path, 2)
    elsewhere = tmp_path / "elsewhere"
    for name in ("elsewhere", "step_000002.partial", "step_000002.replaced", "step_000003.replaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shard").write_text(name)
    (tmp_path / "step_000004.partial").symlink_to(elsewhere)
    checkpoint_rotation.clean(tmp_path)
    assert names(tmp_path) == ["elsewhere", "latest", "step_000002", "step_000003"]
    assert (elsewhere / "shard").exists() and (tmp_path / "step_000002" / "shard").stat().st_size == 1000


def test_another_branch_is_not_removed(tmp_path: Path) -> None:
    for step in (2, 6, 4):  # someone pointed `latest` back to step 2
        save(tmp_path, step, keep=2)
    assert names(tmp_path) == ["latest", "step_000002", "step_000004", "step_000006"]


def test_a_checkpoint_with_an_unreadable_run_json_is_left_alone(tmp_path: Path) -> None:
    (save(tmp_path, 1) / "run.json").write_text("{")
    save(tmp_path, 2)
    assert "step_000001" in names(tmp_path)


def test_latest_is_refused_where_it_names_nothing_and_replaced_where_it_is_missing(tmp_path: Path) -> None:
    save(tmp_path, 1, keep=2)
    save(tmp_path, 2, keep=2)
    for text in ("step_000007", "", "../step_000001", "step_000001/../step_000002"):
        (tmp_path / "latest").write_text(text)
        with pytest.raises(DamagedCheckpoint, match="latest: it names"):
            checkpoint_rotation.newest(tmp_path)
    (tmp_path / "latest").write_bytes(b"\xff")
    with pytest.raises(DamagedCheckpoint, match="latest: cannot be read"):
        checkpoint_rotation.newest(tmp_path)
    (tmp_path / "latest").unlink()
    assert checkpoint_rotation.newest(tmp_path) == tmp_path / "step_000002"


def test_damaged_checkpoints_are_set_aside_and_never_removed(tmp_path: Path) -> None:
    for number in ("", "1"):
        save(tmp_path, 1, keep=2)
        damaged = save(tmp_path, 2, keep=2)
        older = checkpoint_rotation.before(tmp_path, damaged)
        assert older == tmp_path / "step_000001"
        aside = checkpoint_rotation.set_aside(tmp_path, damaged, older)
        assert aside == tmp_path / f"step_000002.damaged{number}" and aside.is_dir()
    assert names(tmp_path) == ["latest", "step_000001", "step_000002.damaged", "step_000002.damaged1"]
    assert (tmp_path / "latest").read_text() == "step_000001"
    checkpoint_rotation.clean(tmp_path)
    assert "step_000002.damaged" in names(tmp_path)
    assert checkpoint_rotation.before(tmp_path, tmp_path / "step_000001") is None
