"""One training of two ranks that meets a fault in every life, and goes on from what the fault left.

    python tests/faults/lives.py FOLDER

Every rank is forked from this process, which has imported everything, so that a life takes seconds; they are started
and watched by what `--ranks` uses, and each runs the command's own code. The run's folder is on a small disk of its own
where this process may mount one. Prints a JSON line for each life.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

from pivotrl.rollout import environment

environment.prepare()

import torch  # noqa: E402
import vllm  # noqa: E402
import vllm.model_executor.models.qwen3_moe  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401

from pivotrl.command import run_command  # noqa: E402
from pivotrl.config import load_config  # noqa: E402
from pivotrl.policy import checkpoint_checksums, checkpoint_rotation, device, local_ranks  # noqa: E402

device.prepare()

from pivotrl.session import open_session  # noqa: E402
from pivotrl.train import train  # noqa: E402
from tests.faults import faults  # noqa: E402

FAULTS = (
    "missing tensor",
    "flipped byte",
    "killed in refit",
    "killed in generation",
    "killed in save",
    "killed at the end of save",
    "engine dies",
    "full disk at bank",
    "full disk at metrics",
    "full disk at save",
)
STEPS = len(FAULTS) + 2
CLOCKS = ("seconds", "per_second", "refit_gb_per_second")
DISK = 48 << 20


class Forked:
    """A rank that is a fork of this process."""

    def __init__(self, environment: dict[str, str], output: IO[bytes] | None, work: Any) -> None:
        self.code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.environ.update(environment)
            if output is not None:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            torch.set_num_threads(1)
            code = run_command("pivotrl.train", [], 2, work)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def kill(self) -> None:
        os.kill(self.pid, 9)

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.01)
        return self.code


def live(run: Path, said: Path, work: Any) -> dict[str, Any]:
    """One life: what it said, how it ended, and what it left."""
    kept = os.dup(1), os.dup(2)
    began = time.monotonic()
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        code = local_ranks.run_ranks(2, [], lambda env, output: Forked(env, output, work))
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
    folder = run / "checkpoints"
    newest = checkpoint_rotation.newest(folder) if folder.exists() else None
    for name, entry in checkpoint_checksums.read_manifest(newest).items() if newest else ():
        checkpoint_checksums.check(newest / name, entry)
    (run / "filler").unlink(missing_ok=True)  # the disk's owner makes room
    return {
        "code": code,
        "said": said.read_text(errors="replace"),
        "step": checkpoint_rotation.step_of(newest) if newest else 0,
        "seconds": time.monotonic() - began,
        "rows": rows(run),
        "banked": {
            path.name: sum(one.read_bytes().count(b"\n") for one in path.iterdir())
            for path in sorted((run / "bank").glob("step_*"))
        },
        "heartbeat": json.loads((run / "heartbeat.json").read_text())["phase"],
    }


def rows(run: Path) -> list[dict[str, Any]]:
    """The run's metrics without what a clock decides; a torn last line is left out."""
    lines = (run / "metrics.jsonl").read_bytes().split(b"\n")
    found = [json.loads(line) for line in lines if line.endswith(b"}")]
    return [{key: value for key, value in row.items() if not any(word in key for word in CLOCKS)} for row in found]


def training(run: Path, fault: str, step: int, steps: int, *settings: str) -> Any:
    """What one rank of a life does."""

    def work() -> None:
        torch.manual_seed(0)
        faults.put(fault, int(os.environ["RANK"]), run, step)
        train(open_session(config_of(run, steps, *settings)))

    return work


def config_of(run: Path, steps: int, *settings: str) -> Any:
    overrides = [
        f"output={run}",
        f"training.steps={steps}",
        "training.pivots_per_step=4",
        "training.group_size=4",
        "checkpoint.every=1",
        "checkpoint.keep=2",
        "rollout.max_new_tokens=24",
        "rollout.kv_cache_gib=0.1",
        "rollout.refit_buffer_mib=1",
        "telemetry.tensorboard=false",
        "telemetry.heartbeat_seconds=0.2",
        "trajectories.files=[none]",
        "verifier.name=tests.faults.hanging:Hanging",
        "verifier.seconds=1",
    ]
    return load_config("configs/demo_cpu.yaml", [*overrides, *settings])


def write_pivots(run: Path) -> None:
    """Turns of the demo's experts, with profiles that nobody sampled."""
    from pivotrl.demo.trajectories import write
    from pivotrl.trajectories.config import TrajectoriesConfig
    from pivotrl.trajectories.records import Pivot, Profile, Turn
    from pivotrl.trajectories.store import write_jsonl
    from pivotrl.trajectories.template import ChatTemplate
    from pivotrl.trajectories.turns import TurnReader

    file = run.parent / "trajectories.jsonl"
    write(file, 12, "faults")
    config = TrajectoriesConfig(files=[str(file)], heldout_share=0.0)
    template = ChatTemplate("pivotrl/demo/base", None)
    turns = [turn for turn in TurnReader(config, 0) if isinstance(turn, Turn)][:16]
    pivots = [
        Pivot(
            turn,
            Profile(turn.id, [1.0, 0.0], ["a", "b"], 0.5, 0.25, "nobody", {}),
            template.encode(turn.messages, turn.tools),
            template.hash,
        )
        for turn in turns
    ]
    (run / "pivots").mkdir(parents=True)
    write_jsonl(run / "pivots" / "pivots.jsonl", (pivot.to_json() for pivot in pivots))


def mount(folder: Path) -> bool:
    """A small disk in memory at `folder`, for this process and its children only; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    newuser, newns, private = 0x10000000, 0x00020000, 1 << 18 | 1 << 14
    if libc.unshare(newns | (0 if uid == 0 else newuser)):
        return False
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    if libc.mount(b"none", b"/", None, private, None):
        return False
    return libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, f"size={DISK}".encode()) == 0


def stuck() -> None:
    """Rank 1 stops between two collectives, and does not end."""
    import torch.distributed as dist

    from pivotrl.policy.config import ParallelConfig
    from pivotrl.policy.parallel import initialize
    from pivotrl.telemetry.metrics import PhaseTimer

    world = initialize(ParallelConfig(timeout_seconds=12.0), seed=0)
    dist.barrier()
    if world.rank == 1:
        os.kill(os.getpid(), 19)
    with PhaseTimer(4).phase("refit"):
        dist.all_gather_object([None, None], world.rank, group=world.object_group)


def main(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mounted = mount(disk)
    straight, chain = folder / "straight", disk / "chain"
    write_pivots(straight)
    (chain / "pivots").mkdir(parents=True)
    for path in (straight / "pivots").iterdir():
        (chain / "pivots" / path.name).write_bytes(path.read_bytes())

    def told(name: str, life: dict[str, Any]) -> None:
        print(json.dumps({"name": name, "mounted": mounted, **life}), flush=True)

    told("straight", live(straight, folder / "said", training(straight, "", 0, STEPS)))
    done = 0
    for fault in FAULTS:
        life = live(chain, folder / "said", training(chain, fault, done + 1, STEPS))
        told(fault, life | {"fault_step": done + 1})
        done = life["step"]
    told("the end", live(chain, folder / "said", training(chain, "", 0, STEPS)))
    hang = training(chain, "hanging verifier", STEPS, STEPS + 1)
    told("hanging verifier", live(chain, folder / "said", hang))
    told("stuck", live(chain, folder / "said", stuck))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
