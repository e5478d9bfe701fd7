"""One rank of test_checkpoint.py: checkpoints damaged in every way, and saves that fail.

Usage (under torchrun): damage_ranks.py MODEL_FOLDER RUN_FOLDER

Rank 0 damages and repairs; every rank must be told the same. Two steps are saved, steps 2 and 3.
"""

import contextlib
import io
import json
import math
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist

from pivotrl.config import RunConfig
from pivotrl.policy import checkpoint_checksums
from pivotrl.policy.checkpoint import Checkpoints, newest
from pivotrl.policy.checkpoint_checksums import Entry
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch, make, train


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def rewrite(target: Path, **values: object) -> None:
    """Change keys of run.json and make the manifest say that this is what was written."""
    run = json.loads((target / "run.json").read_bytes()) | values
    (target / "run.json").write_text(json.dumps(run))
    entries: dict[str, Entry] = checkpoint_checksums.read_manifest(target)
    checkpoint_checksums.write_manifest(
        target, entries | {"run.json": checkpoint_checksums.settle(target / "run.json")}
    )


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """What only rank 0 does to the folder, between two barriers."""
    dist.barrier()
    yield dist.get_rank() == 0
    dist.barrier()


def configured(policy: Policy, **settings: bool) -> RunConfig:
    """The policy's configuration with other settings of `checkpoint`."""
    return policy.config.model_copy(update={"checkpoint": policy.config.checkpoint.model_copy(update=settings)})


def told(policy: Policy, run: Path, **settings: bool) -> str:
    """What a run is told that tries to continue: an error, or `step N` and the lines that it prints."""
    config = policy.config
    printed = io.StringIO()
    policy.config = configured(policy, **settings)
    try:
        with contextlib.redirect_stdout(printed), Checkpoints(policy, run, next_batch=pivots) as checkpoints:
            return f"step {checkpoints.resume()}: {printed.getvalue()}"
    except ValueError as error:
        return str(error)
    finally:
        policy.config = config


def pivots(step: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(turn=SimpleNamespace(id=f"{step} {SALT[0]}"), prompt_ids=[1, 2])]


SALT = [""]


def refused(policy: Policy, run: Path, target: Path, backup: Path) -> None:
    """Every file of the checkpoint, flipped, cut and missing."""
    names = sorted(path.name for path in backup.iterdir())
    assert {"checksums.json", "run.json", ".metadata", "metadata.json", "common.pt", "random_00001.json"} < set(names)
    assert sum(name.endswith(".distcp") for name in names) == 4
    for name in names:
        for damage in (flip, truncate, Path.unlink):
            with alone() as me:
                if me:
                    damage(target / name)
            said = told(policy, run)
            whole = name == "checksums.json" and damage is Path.unlink  # then it is no checkpoint at all
            assert (f"{target}" if whole else f"{target / name}") in said, (name, damage, said)
            assert "checkpoint.fallback=true to continue from step_000002" in said and "\n" not in said, said
            with alone() as me:
                if me:
                    shutil.copy2(backup / name, target / name)


def mistaken(policy: Policy, run: Path, target: Path, backup: Path) -> None:
    """Whole files that say what is not so."""
    norms = json.loads((backup / "run.json").read_bytes())["norms"]
    for values, expected in [
        ({"step": 4}, "it is of step 4, but the folder's name says 3"),
        ({"optimizer_step": "x"}, "run.json: not what a run writes"),
        ({"learning_rate": 3e-3}, "was done at learning rate 0.003"),
        ({"norms": norms | {"exp_avg": norms["exp_avg"] * (1 + 1e-8)}}, "the norm of exp_avg is"),
    ]:
        with alone() as me:
            if me:
                rewrite(target, **values)
        assert expected in told(policy, run), (values, told(policy, run))
        with alone() as me:
            if me:
                shutil.rmtree(target)
                shutil.copytree(backup, target)
    with alone() as me:
        if me:
            (run / "latest").write_text("step_000099")
    assert "latest: it names 'step_000099'" in told(policy, run)
    with alone() as me:
        if me:
            (run / "latest").unlink()
    said = told(policy, run)
    assert said.startswith("step 3: ") and ("no file latest" in said) == (dist.get_rank() == 0), said
    with alone() as me:
        if me:
            (run / "latest").write_text("step_000003")
    assert "checkpoint.resume is false" in told(policy, run, resume=False)
    assert told(policy, run) == "step 3: "
    SALT[0] = "another"
    assert ("with other pivots than it was trained with" in told(policy, run)) == (dist.get_rank() == 0)
    SALT[0] = ""


def unwritable(policy: Policy, run: Path) -> None:
    """A disk that fills up under each rank in turn, at once and in the background."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = sorted(path.name for path in run.iterdir())
    for rank in range(2):
        for background in (False, True):
            policy.config = configured(policy, background=background)
            if dist.get_rank() == rank:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
            try:
                with Checkpoints(policy, run) as checkpoints:
                    checkpoints.save(4)
            except ValueError as error:
                assert f"step_000004.partial/__{rank}_" in str(error) and "File too large" in str(error), error
                assert "step_000004 was not written, step_000003 is still there to continue from" in str(error), error
            else:
                raise AssertionError("a file of more than 100,000 bytes was written")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            dist.barrier()
            assert sorted(path.name for path in run.iterdir()) == before
            dist.barrier()
    assert told(policy, run) == "step 3: "


def not_finite(policy: Policy, run: Path) -> None:
    """A reward that is no number updates nothing; weights that are no numbers for another reason are not saved."""
    before = sorted(path.name for path in run.iterdir())
    samples = [replace(sample, advantage=math.nan) for sample in batch(3)]
    assert policy.train_step(samples, 3)["updates_left_out"] == 1
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.fill_(math.nan)
    try:
        with Checkpoints(policy, run) as checkpoints:
            checkpoints.save(4)
    except ValueError as error:
        assert "the norm of main is nan" in str(error) and "step_000003 is still there" in str(error), error
    else:
        raise AssertionError("weights that are not numbers were saved")
    dist.barrier()
    assert sorted(path.name for path in run.iterdir()) == before
    assert told(policy, run) == "step 3: "


def fallen_back(policy: Policy, run: Path, target: Path) -> None:
    """The checkpoint before the damaged one, and nothing where that one is damaged too."""
    shard = next(target.glob("__1_*"))
    with alone() as me:
        if me:
            flip(shard)
    said = told(policy, run, fallback=True)
    assert said.startswith("step 2: ") and (str(shard) in said) == (dist.get_rank() == 0), said
    if dist.get_rank() == 0:
        assert f"{shard} is damaged: it does not have the bytes that were saved (SHA-256 " in said, said
        assert said.endswith("; the damaged one is now step_000003.damaged: delete it when you like\n"), said
    assert (run / "step_000003.damaged" / shard.name).exists() and not target.exists()
    assert newest(run) == run / "step_000002"
    with alone() as me:
        if me:
            truncate(run / "step_000002" / shard.name)
    said = told(policy, run, fallback=True)
    assert f"step_000002/{shard.name}" in said and "no checkpoint before it" in said, said
    assert newest(run) == run / "step_000002"


def main() -> None:
    model, run = sys.argv[1], Path(sys.argv[2])
    policy = make(model, run, {"parallel": {"expert": 2}})
    with Checkpoints(policy, run, next_batch=pivots) as checkpoints:
        train(policy, range(2))
        checkpoints.save(2)
        train(policy, range(2, 3))
        checkpoints.save(3)
    target, backup = run / "step_000003", run.with_name("backup")
    with alone() as me:
        if me:
            shutil.copytree(target, backup)
    refused(policy, run, target, backup)
    mistaken(policy, run, target, backup)
    unwritable(policy, run)
    not_finite(policy, run)
    fallen_back(policy, run, target)
    print("ALL REFUSED", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
