"""Kill a training of two ranks at random moments, let it continue, and compare its end with that of a run left alone.

    python tests/policy/kills.py --model MODEL_FOLDER --folder FOLDER --kills 20 [--seed 0]

Every rank is forked from this process, which has imported everything, so that a life takes seconds. Runs take turns
between writing checkpoints at once and in the background. Nine kills in ten come after rank 0 has started up. The
line for each says what rank 0 was doing. What the ranks print, tracebacks of those that lost the other one included,
is in FOLDER/ranks.log.
"""

import argparse
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path
from typing import IO

import torch
import torch.distributed as dist

from pivotrl.config import parse_config
from pivotrl.policy import checkpoint_rotation, device, parallel
from pivotrl.policy.checkpoint import Checkpoints, newest
from pivotrl.policy.checkpoint_checksums import check, read_manifest
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch

RANKS, STEPS, EVERY = 2, 12, 2
PHASES = ("starting", "resuming", "training", "saving", "done")
_SHARED = struct.Struct("iiii")


class Shared:
    """What rank 0 tells, in memory that outlives it: phase, step it started at, finished steps, last step saved."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SHARED.size)

    def tell(self, phase: str, start: int = -1, step: int = -1, saved: int = -1) -> None:
        self._memory[:] = _SHARED.pack(PHASES.index(phase), start, step, saved)

    def read(self) -> tuple[str, int, int, int]:
        phase, start, step, saved = _SHARED.unpack(self._memory[:])
        return PHASES[phase], start, step, saved


def train(model: str, run: Path, rank: int, life: str, background: bool, shared: Shared) -> None:
    """One life of one rank, from the newest checkpoint to the end; rank 0 writes a line for each step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(life, RANKS), rank=rank, world_size=RANKS)
    tree = {"output": str(run), "model": {"path": model, "dtype": "float32"}, "parallel": {"expert": 2}}
    tree |= {"optimizer": {"lr": 1e-3}, "training": {"steps": STEPS}}
    tree |= {"checkpoint": {"every": EVERY, "background": background}}
    config = parse_config(tree, "kills")
    policy = Policy(config, parallel.initialize(config.parallel, config.seed))
    tell = shared.tell if rank == 0 else lambda *_: None
    tell("resuming")
    with Checkpoints(policy, run / "checkpoints") as checkpoints:
        start = checkpoints.resume()
        saved = start
        with (run / f"losses_{rank}.jsonl").open("a") as losses:
            for step in range(start, STEPS):
                tell("training", start, step, saved)
                metrics = policy.train_step(batch(step), step)
                losses.write(json.dumps({"step": step, **metrics}) + "\n")
                losses.flush()
                tell("saving", start, step + 1, saved)
                checkpoints.save_if_due(step + 1, metrics["loss"])
                if not background and (step + 1) % EVERY == 0:
                    saved = step + 1
    tell("done", start, STEPS, STEPS)


def begin(model: str, run: Path, background: bool, shared: Shared, log: IO) -> list[int]:
    """Fork the ranks; returns their process ids."""
    shared.tell("starting")
    run.mkdir(exist_ok=True)
    life = f"{run}_{time.monotonic_ns()}.store"
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            try:
                train(model, run, rank, life, background, shared)
                os._exit(0)
            finally:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
        children.append(child)
    return children


def end(children: list[int], kill_after: float | None, from_start: bool, shared: Shared, draw: random.Random) -> bool:
    """Wait for the ranks, or kill them, in random order, some seconds after they began or after rank 0 has started up.

    Returns:
        Whether they were killed.
    """
    deadline = time.monotonic() + (kill_after if from_start and kill_after is not None else 300)
    left, started = set(children), from_start or kill_after is None
    while left and time.monotonic() < deadline:
        if not started and shared.read()[0] != "starting":
            started, deadline = True, time.monotonic() + kill_after
        for child in list(left):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                left.discard(child)
                assert status == 0, f"a rank failed with status {status}"
        time.sleep(0.002)
    assert not left or kill_after is not None, "the run did not end"
    for child in draw.sample(sorted(left), len(left)):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return bool(left)


def verified(run: Path) -> int:
    """The step that the folder's checkpoint is of, 0 without one; every file of it is checked."""
    target = newest(run / "checkpoints") if (run / "checkpoints").exists() else None
    if target is None:
        return 0
    for name, entry in read_manifest(target).items():
        check(target / name, entry)
    return checkpoint_rotation.step_of(target)


def outcome(run: Path) -> dict:
    """What two runs must have in common: each step's metrics, as last done, and the sum of the state at the end."""
    rows = [json.loads(line) for line in (run / "losses_0.jsonl").read_bytes().split(b"\n") if line.endswith(b"}")]
    about = json.loads((run / "checkpoints" / f"step_{STEPS:06d}" / "run.json").read_bytes())
    return {"losses": {row["step"]: row for row in rows}, "norms": about["norms"], "reward": about["reward"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    device.prepare()
    draw, shared = random.Random(arguments.seed), Shared()

    straight = arguments.folder / "straight"
    log = (arguments.folder / "ranks.log").open("wb")
    began = time.monotonic()
    children = begin(arguments.model, straight, False, shared, log)
    while shared.read()[0] == "starting":
        time.sleep(0.002)
    up = time.monotonic()
    assert not end(children, None, False, shared, draw)
    starting, working = up - began, time.monotonic() - up
    expected = outcome(straight)
    print(f"a run left alone: {starting:.1f} s to start up, {working:.1f} s of {STEPS} steps", flush=True)

    kills, runs, tally = 0, 0, dict.fromkeys(PHASES, 0)
    while kills < arguments.kills:
        run, background = arguments.folder / f"run_{runs}", bool(runs % 2)
        runs, finished, resumable = runs + 1, False, 0
        while not finished:
            from_start = draw.random() < 0.1
            patience = draw.uniform(0, starting if from_start else 0.9 * working) if kills < arguments.kills else None
            children = begin(arguments.model, run, background, shared, log)
            finished = not end(children, patience, from_start, shared, draw)
            phase, start, step, saved = shared.read()
            assert start in (-1, resumable), f"continued from step {start}, and the folder had step {resumable}"
            resumable = verified(run)
            assert resumable >= saved, f"step {saved} was saved, and the folder has step {resumable}"
            if not finished:
                kills += 1
                tally[phase] += 1
                how = "background" if background else "at once"
                print(f"kill {kills}: {phase}, after step {step}, continues from {resumable} ({how})", flush=True)
        found = outcome(run)
        assert found == expected, f"{run} ended otherwise than the run left alone"
        left = [path.name for path in (run / "checkpoints").iterdir() if path.suffix in (".partial", ".replaced")]
        assert not left, left
    phases = ", ".join(f"{count} while {phase}" for phase, count in tally.items() if count)
    print(f"{kills} kills of {runs} runs: {phases}; EQUAL ENDS", flush=True)


if __name__ == "__main__":
    main()
