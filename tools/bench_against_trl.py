"""One training step without its rollouts: PivotRL against TRL's GRPO trainer, on the same model, samples and cores.

    python tools/bench_against_trl.py [--batches 16x8,8x16] [--cores 1,2] [--repeats 7] [--json FILE]

Both start from sampled token ids and rewards and end with updated weights: advantages, padding or packing, one forward
and backward pass over the batch, clipping, AdamW. PivotRL: from the rewards to the end of `Policy.train_step`. TRL:
from the end of `GRPOTrainer._generate`, which is handed the samples, to the end of `zero_grad`. Not counted: sampling,
decoding, verdicts, TRL's data loader, PivotRL's refit of its engine. Both: float32, beta 0, clipping at 0.2, the mean
over all response tokens (TRL's `dapo`), advantages r - mean, clipping of the gradient's norm at 1, no recomputation.

Every contender is a process (or two) of its own, and they take turns. A ratio is the fastest TRL contender's median
over that row's; `paired` compares steps of the same turn; `CPU` compares CPU seconds, which other work on the machine
disturbs less. TRL lives in an environment of its own, made at the first run (build/venv_trl, 1.5 GB, a minute).
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
WORKER = REPOSITORY / "tools/bench_trl_worker.py"
ENVIRONMENT = REPOSITORY / "build/venv_trl"
TORCH = "torch==2.13.0+cpu"
PINNED = ("trl==1.16.0", "transformers==5.24.0", "accelerate==1.15.0", "datasets==5.2.0")
MIB = 2**20
LR = 1e-5
"""Small, so that many steps on one batch stay about the same work."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(REPOSITORY / "pivotrl/demo/base"), help="Hugging Face folder")
    parser.add_argument("--batches", default="16x8,8x16", help="prompts x samples (default 16x8,8x16)")
    parser.add_argument("--cores", default="1,2", help="1, 2 or both (default 1,2)")
    parser.add_argument("--repeats", type=int, default=7, metavar="R", help="turns after the first (default 7)")
    parser.add_argument("--packing", default="prompt_once,plain", help="PivotRL's (default prompt_once,plain)")
    parser.add_argument("--rows", default="32,64", help="sequences in one of TRL's forward passes (default 32,64)")
    parser.add_argument("--experts", default="eager", help="TRL: transformers' experts_implementation (default eager)")
    parser.add_argument("--signal", type=float, default=0.25, help="share of mixed groups in the rows that skip")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measured step there")
    return parser.parse_args()


# ---------------------------------------------------------------------- TRL's environment


def trl_python() -> Path:
    """The Python of TRL's environment, which is made where it is missing or was made from other versions."""
    python, stamp = ENVIRONMENT / "bin/python", ENVIRONMENT / "bench.stamp"
    wanted = "\n".join([sys.version, TORCH, *PINNED])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making {ENVIRONMENT} with {', '.join(PINNED)}", file=sys.stderr, flush=True)
    log = ENVIRONMENT.with_suffix(".log")
    log.parent.mkdir(exist_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    with log.open("w") as output:

        def works(*command: str) -> bool:
            return subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode == 0

        # As tools/setup.sh: pip knows the CPU build only where wheels are configured; elsewhere uv finds it.
        release = TORCH.removesuffix("+cpu")
        done = (
            works(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
            and (
                works(*pip, TORCH)
                or (works(*pip, "uv") and works(*pip[:2], "uv", "pip", "install", "--torch-backend=cpu", release))
            )
            and works(*pip, TORCH, *PINNED)
        )
    if not done:
        last = [line for line in log.read_text().splitlines() if line.strip()][-1:]
        raise ValueError(f"cannot install {TORCH} and {', '.join(PINNED)} ({''.join(last)}); the whole log: {log}")
    stamp.write_text(wanted)
    return python


# ---------------------------------------------------------------------- contenders


@dataclass
class Contender:
    """One system in one setting, and what it measured."""

    name: str
    role: str
    """`pivotrl` or `trl`."""
    ranks: int
    threads: int
    options: dict[str, Any]
    rewards: list[str] = field(default_factory=lambda: ["rewards_all"])
    """Batches' rewards that it is timed on in each turn."""
    whole_gradient: bool = True
    """Whether its rank 0 can put the whole gradient together."""
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Answers of the worker, by rewards."""
    ready: dict[str, Any] = field(default_factory=dict)
    gradient_error: float | None = None
    """|g - g of the first TRL contender| / |the latter|, over all parameters together."""


def contenders(arguments: argparse.Namespace, cores: int, batch: Path, size: tuple[int, int]) -> list[Contender]:
    shared = {"batch": str(batch), "model": arguments.model, "lr": LR}

    def pivotrl(packing: str, layout: str, ranks: int, **overrides: int) -> Contender:
        settings = {
            "model.path": arguments.model,
            "training.packing": packing,
            "training.pivots_per_step": size[0],
            "training.group_size": size[1],
            "objective.advantage": "mean_only",
            "optimizer.lr": LR,
            "optimizer.warmup_steps": 0,
            **{f"parallel.{key}": value for key, value in overrides.items()},
        }
        options = shared | {"threads": 1, "overrides": [f"{key}={value}" for key, value in settings.items()]}
        return Contender(f"pivotrl {packing}, {layout}", "pivotrl", ranks, 1, options)

    def trl(rows: int, ranks: int, threads: int) -> Contender:
        options = shared | {"threads": threads, "rows": rows, "experts": arguments.experts, "max_new_tokens": 48}
        shape = f"{ranks} process{'es' if ranks > 1 else ''} x {threads} thread{'s' if threads > 1 else ''}"
        return Contender(f"trl, {shape}, {rows} rows", "trl", ranks, threads, options)

    packings, rows = arguments.packing.split(","), [int(item) for item in arguments.rows.split(",")]
    if cores == 1:
        found = [pivotrl(packing, "1 rank", 1, tensor=1, expert=1) for packing in packings]
        found += [trl(count, 1, 1) for count in rows]
    else:
        found = [pivotrl(packing, "TP 2 EP 2", 2, tensor=2, expert=2) for packing in packings]
        found += [pivotrl(packings[0], "DP 2", 2, tensor=1, expert=1)]
        found[-1].whole_gradient = False
        found += [trl(count, 1, 2) for count in rows] + [trl(count, 2, 1) for count in rows]
    found[0].rewards.append("rewards_some")
    next(item for item in found if item.role == "trl").rewards.append("rewards_some")
    return found


class Child:
    """The processes of one contender."""

    def __init__(self, contender: Contender, python: str, folder: Path):
        self.contender = contender
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = json.dumps(contender.options | {"scratch": str(folder)})
        self.log = folder / "log"
        self.processes = []
        for rank in range(contender.ranks):
            # Threads that wait without sleeping would take the core that another process of this machine needs.
            environment = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ
            environment |= {"OMP_NUM_THREADS": str(contender.threads), "PYTHONWARNINGS": "ignore"}
            if contender.ranks > 1:
                environment |= {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(contender.ranks),
                    "LOCAL_WORLD_SIZE": str(contender.ranks),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                }
            with self.log.open("a") as log:
                self.processes.append(
                    subprocess.Popen(
                        [python, str(WORKER), contender.role, options],
                        env=environment,
                        stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                        stdout=subprocess.PIPE if rank == 0 else log,
                        stderr=log,
                        text=True,
                    )
                )

    def ask(self, **request: Any) -> dict[str, Any]:
        print(json.dumps(request), file=self.processes[0].stdin, flush=True)
        return self.read()

    def read(self) -> dict[str, Any]:
        line = self.processes[0].stdout.readline()
        if not line:
            said = [text for text in self.log.read_text().splitlines() if text.strip()]
            raise ValueError(f"{self.contender.name} ended: {''.join(said[-1:])}")
        return json.loads(line)

    def close(self) -> None:
        self.processes[0].stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# ---------------------------------------------------------------------- measuring


def measure(found: list[Contender], pythons: dict[str, str], repeats: int) -> None:
    """Start all contenders, compare their gradients in a first turn, then let them take turns."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(index) for index in range(len(found))]
        children = []
        try:
            for contender, folder in zip(found, folders, strict=True):
                folder.mkdir()
                children.append(Child(contender, pythons[contender.role], folder))
                contender.ready = children[-1].read()  # one start at a time
            for turn in range(repeats + 1):
                for child, folder in zip(children, folders, strict=True):
                    for rewards in child.contender.rewards:
                        request = {"rewards": rewards}
                        if turn == 0 and rewards == "rewards_all" and child.contender.whole_gradient:
                            request["gradients"] = str(folder / "gradients.safetensors")
                        answer = child.ask(**request)
                        child.contender.steps.setdefault(rewards, []).append(answer)
        finally:
            for child in children:
                child.close()
        compare_gradients(found, folders)


def compare_gradients(found: list[Contender], folders: list[Path]) -> None:
    """Against the first TRL contender's, before clipping, at the weights that all start from."""
    from safetensors.torch import load_file

    gradients = {
        index: load_file(folders[index] / "gradients.safetensors")
        for index, contender in enumerate(found)
        if contender.whole_gradient
    }
    reference = gradients[next(index for index, contender in enumerate(found) if contender.role == "trl")]
    norm = sum(float(tensor.double().square().sum()) for tensor in reference.values()) ** 0.5
    for index, mine in gradients.items():
        if mine.keys() != reference.keys():
            raise ValueError(f"{found[index].name}: other parameters: {sorted(mine.keys() ^ reference.keys())[:3]}")
        square = sum(float((mine[name] - reference[name]).double().square().sum()) for name in reference)
        found[index].gradient_error = square**0.5 / norm


# ---------------------------------------------------------------------- the table


def timed(contender: Contender, rewards: str, key: str) -> list[float]:
    """Of every turn but the first, which warms up."""
    return [step[key] for step in contender.steps[rewards][1:]]


def loss_of(contender: Contender) -> float:
    return statistics.mean(contender.steps["rewards_all"][0]["losses"])


def show(found: list[Contender], tokens: int, signal: float) -> None:
    trl = [contender for contender in found if contender.role == "trl"]

    def best(key: str) -> Contender:
        return min(trl, key=lambda contender: statistics.median(timed(contender, "rewards_all", key)))

    fastest, thriftiest = best("seconds"), best("cpu_seconds")
    print(
        f"{'':48} {'s/step':>7} {'spread':>13} {'tokens/s':>8} {'ratio':>6} {'paired':>6} {'CPU s':>6} {'CPU':>5}  "
        f"{'prepare':>7} {'passes':>6} {'update':>6} {'other':>6}  {'peak MiB':>8} {'of a step':>9}  {'gradient':>8}"
    )
    for contender in found:
        for rewards in contender.rewards:
            seconds, cpu = (timed(contender, rewards, key) for key in ("seconds", "cpu_seconds"))
            theirs, their_cpu = (
                timed(fastest, "rewards_all", "seconds"),
                timed(thriftiest, "rewards_all", "cpu_seconds"),
            )
            paired = statistics.median(one / mine for one, mine in zip(theirs, seconds, strict=True))
            median = statistics.median(seconds)
            peak = max(step["peak_bytes"] for step in contender.steps[rewards])
            phases = [
                statistics.median(step["phases"].get(phase, 0.0) for step in contender.steps[rewards][1:])
                for phase in ("prepare", "passes", "update", "other")
            ]
            error = contender.gradient_error if rewards == "rewards_all" else None
            some = "" if rewards == "rewards_all" else f" | {signal:.0%} mixed"
            print(
                f"{contender.name + some:48} {median:7.3f} {f'{min(seconds):.3f}-{max(seconds):.3f}':>13} "
                f"{tokens / median:8,.0f} {statistics.median(theirs) / median:6.2f} {paired:6.2f} "
                f"{statistics.median(cpu):6.3f} {statistics.median(their_cpu) / statistics.median(cpu):5.2f}  "
                f"{phases[0]:7.3f} {phases[1]:6.3f} {phases[2]:6.3f} {phases[3]:6.3f}  {peak / MIB:8,.0f} "
                f"{(peak - contender.ready['ready_bytes']) / MIB:9,.0f}  "
                f"{'' if error is None else f'{error:.1e}':>8}"
            )
    losses = [loss_of(contender) for contender in found]
    print(
        f"loss of the first step: {losses[0]:.7f}, and {max(losses) - min(losses):.1e} between the lowest and highest"
    )


def describe(arguments: argparse.Namespace) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    revision, model = commit.stdout.strip() or "unknown", os.path.relpath(arguments.model)
    return (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        f"{time.strftime('%Y-%m-%d')}, commit {revision}; {model}"
    )


def run(arguments: argparse.Namespace) -> None:
    pythons = {"pivotrl": sys.executable, "trl": str(trl_python())}
    print(describe(arguments))
    results = []
    versions: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for text in arguments.batches.split(","):
            size = tuple(int(part) for part in text.split("x"))
            batch = make_batch(arguments, Path(folder) / f"{text}.json", size)
            held = json.loads(batch.read_text())
            prompts = [len(ids) for ids in held["prompts"]]
            responses = [len(ids) for group in held["completions"] for ids in group]
            tokens, once = size[1] * sum(prompts) + sum(responses), sum(prompts) + sum(responses)
            padded = size[0] * size[1] * (max(prompts) + max(responses))
            for cores in (int(count) for count in arguments.cores.split(",")):
                found = contenders(arguments, cores, batch, size)
                measure(found, pythons, arguments.repeats)
                for role in ("pivotrl", "trl"):
                    known = next(item for item in found if item.role == role).ready["versions"]
                    line = f"{role}: " + ", ".join(f"{name} {version}" for name, version in known.items())
                    if line not in versions:
                        print(line)
                    versions.add(line)
                print(
                    f"\n{text} prompts x samples on {cores} core{'s' if cores > 1 else ''}, load "
                    f"{os.getloadavg()[0]:.1f}: {tokens:,} tokens; each prompt once {once:,}; as TRL pads {padded:,}"
                )
                show(found, tokens, arguments.signal)
                sys.stdout.flush()
                results.append({"batch": text, "cores": cores, "contenders": [vars(item) for item in found]})
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def make_batch(arguments: argparse.Namespace, path: Path, size: tuple[int, int]) -> Path:
    options = {"batch": str(path), "model": arguments.model, "signal": arguments.signal}
    options |= {"prompts": size[0], "samples": size[1]}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, str(WORKER), "sample", json.dumps(options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"cannot sample a batch of {size[0]} prompts: {done.stderr.strip().splitlines()[-1]}")
    return path


def main() -> int:
    arguments = parse()
    try:
        run(arguments)
    except ValueError as error:
        print(f"bench_against_trl: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
