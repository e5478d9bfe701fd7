"""Selections of one and of two ranks, killed at random moments: kill_ranks.py FOLDER KILLS SEED

Every rank is forked from this process, which has imported everything, so that a life takes a second. The engine is the
fake one, made slow; all else is real, torch's store and the verifier's worker process included. Prints one JSON object.
"""

import errno
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch.distributed as dist

from pivotrl.config import RunConfig
from pivotrl.pivots.progress_write import EngineLog
from pivotrl.pivots.selection import select_pivots
from tests.pivots.fakes import FakeEngine, FakeParser, FakeTemplate, run_config
from tests.trajectories.rows import chat_row, write_rows

TRAJECTORIES, CHUNK = 90, 7
SECONDS = 0.004
append = EngineLog.append


class Rank(FakeEngine):
    """One of `ranks` in engines of `tensor`, which takes its time; some requests take longer."""

    def __init__(self, rank: int, ranks: int, tensor: int):
        super().__init__()
        self.rank, self.world_size, self.engines, self.engine_index = rank, ranks, ranks // tensor, rank // tensor
        self.object_group = dist.group.WORLD if ranks > 1 else None

    def _samples(self, request):
        time.sleep(SECONDS * (1 + request.seed % 3))
        return super()._samples(request)


def life(config: RunConfig, out: Path, ranks: int, tensor: int = 1) -> list[int]:
    """Start the ranks of one life -> their pids. A rank exits with 0, or with 2 after a user's error."""
    pids = []
    out.parent.mkdir(parents=True, exist_ok=True)
    store = out.with_name(f"store_{time.monotonic_ns()}")
    sys.stdout.flush()
    for rank in range(ranks):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        code = 1
        try:
            if ranks > 1:
                dist.init_process_group("gloo", store=dist.FileStore(str(store), ranks), rank=rank, world_size=ranks)
            os.dup2(os.open(out.with_name("ranks.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            select_pivots(config, Rank(rank, ranks, tensor), FakeParser(), FakeTemplate(), out)
            code = 0
        except ValueError as error:
            out.with_name(f"error_{rank}").write_text(str(error))
            code = 2
        finally:
            os._exit(code)
    return pids


def full_disk_of_engine_1(self: EngineLog, rows: list) -> None:
    if self._path.name == "engine_00001.jsonl":
        raise OSError(errno.ENOSPC, "No space left on device", str(self._path))
    append(self, rows)


def wait(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def lines(out: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in (out / "progress").glob("engine_*"))


def killed(config: RunConfig, out: Path, kills: int, draw: random.Random) -> list[dict[str, int]]:
    """Lives of one and of two ranks, each ended by SIGKILL some turns after it began."""
    lives = []
    for number in range(kills):
        ranks = 1 + number % 2
        before = lines(out)
        pids, enough = life(config, out, ranks), before + draw.randrange(12)
        deadline = time.monotonic() + 60
        while lines(out) <= enough and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.03)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        lives.append({"ranks": ranks, "codes": wait(pids), "lines": lines(out) - before})
    return lives


def main() -> None:
    folder, kills, draw = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    file = write_rows(folder / "a.jsonl", [chat_row(f"t{index}") for index in range(TRAJECTORIES)])
    said = {"seconds": {}}
    for profiling in ("fixed", "thorough"):
        started = time.monotonic()
        config = run_config([file], pivots={"chunk": CHUNK, "profiling": profiling, "samples": 6})
        codes = wait(life(config, folder / profiling / "whole", 1))
        lives = killed(config, folder / profiling / "killed", kills, draw)
        codes += wait(life(config, folder / profiling / "killed", 2))
        said[profiling] = {"lives": lives, "codes": codes}
        said["seconds"][profiling] = time.monotonic() - started
    wide = run_config([file], pivots={"chunk": CHUNK, "profiling": "thorough", "samples": 6}, rollout={"tensor": 2})
    said["tensor"] = wait(life(wide, folder / "tensor", 2, tensor=2))
    EngineLog.append = full_disk_of_engine_1
    said["fails"] = wait(life(config, folder / "fails" / "out", 2))
    said["errors"] = [(folder / "fails" / f"error_{rank}").read_text() for rank in range(2)]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
