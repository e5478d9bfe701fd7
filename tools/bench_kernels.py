"""How near the objective's kernels are to what memory allows, and how far from plain PyTorch.

    python tools/bench_kernels.py [--rows N] [--columns V] [--dtype bfloat16]   the GPU's path, or the CPU's without one
    python tools/bench_kernels.py --compile-only                                what the compilers say; needs no GPU

Everything is measured in this one run, in turns, and given as ratios: to a copy of as many bytes, and to plain PyTorch
(log_softmax, gather, entropy, autograd). Bytes are those that the algorithm must move, declared beside each row.
"""

import argparse
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile-only", action="store_true", help="registers, spills, reads and writes; no GPU")
    parser.add_argument("--rows", type=int, metavar="N", help="tokens (8192 on a GPU, 2048 on a CPU)")
    parser.add_argument("--columns", type=int, metavar="V", help="vocabulary (151936 on a GPU, 49152 on a CPU)")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="of the logits (bfloat16 on a GPU)")
    parser.add_argument("--repeats", type=int, default=7, metavar="R", help="turns of each (default 7)")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU (default 2)")
    return parser.parse_args()


@dataclass
class Contender:
    name: str
    work: Callable[[], object]
    passes: float | None
    """Times that it reads or writes all logits; None where that is not known."""
    seconds: list[float]
    peak: list[float]
    """Bytes beyond what lay there before, in each turn."""


# ---------------------------------------------------------------------- what the compilers say


def compile_only() -> None:
    from pivotrl.objective.kernels import library
    from pivotrl.objective.kernels.compiled import compile_all

    print("Triton        arch   dtype  block  warps  registers  spilled  reads of V  writes of V")
    for item in compile_all():
        print(
            f"{item.kernel:12}  sm_{item.architecture:<3}  {item.dtype:5}  {item.block:5}  {item.num_warps:5}  "
            f"{item.registers:9}  {item.spilled:7}  {item.reads:10g}  {item.writes:11g}"
        )
    print(
        "Best: 0 spilled; V is read once forward (stats), read and written once backward (dlogits), 16 bytes at a time."
    )
    if shutil.which("nvcc") is None:
        print("\ncsrc/group_loss.cu: no nvcc on PATH")
        return
    known = library.run_compiler(["nvcc", "--list-gpu-code"]).split()
    print("\nCUDA          arch   registers, spills, shared memory")
    with tempfile.TemporaryDirectory() as folder:
        for code in (code for code in library.ARCHITECTURES if f"sm_{code}" in known):
            said = library.compile_report(code, Path(folder) / "group_loss.cubin")
            print(f"group_loss    sm_{code:<3}  {said}")


# ---------------------------------------------------------------------- contenders


def contenders(arguments: argparse.Namespace, device: str) -> list[Contender]:
    import torch

    from pivotrl.objective.vocab import passes_for, vocab_parallel_logprob

    generator = torch.Generator(device).manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    logits_NV = torch.randn(arguments.rows, arguments.columns, generator=generator, device=device).to(dtype)
    spare_NV = torch.empty_like(logits_NV)
    targets_N = torch.randint(0, arguments.columns, (arguments.rows,), generator=generator, device=device)
    g_N, h_N = torch.randn(2, arguments.rows, generator=generator, device=device)
    merged = torch.zeros(3, arguments.rows, device=device)
    placement = (0, arguments.columns, 1.0)
    leaf_NV = logits_NV.detach().requires_grad_()

    def copy() -> None:
        spare_NV.copy_(logits_NV)

    def stats() -> None:
        passes_for(logits_NV).shard_stats(logits_NV, targets_N, *placement)

    def d_logits() -> None:
        passes_for(logits_NV).write_d_logits(logits_NV, spare_NV, targets_N, *merged, g_N, h_N, *placement)

    def ours() -> None:
        logp_N, entropy_N = vocab_parallel_logprob(leaf_NV, targets_N)
        torch.autograd.grad((logp_N * g_N + entropy_N * h_N).sum(), leaf_NV)

    def plain() -> None:
        log_p_NV = torch.log_softmax(leaf_NV.float() if dtype == torch.bfloat16 else leaf_NV, dim=1)
        logp_N = log_p_NV.gather(1, targets_N[:, None])[:, 0]
        entropy_N = -(log_p_NV.exp() * log_p_NV).sum(dim=1)
        torch.autograd.grad((logp_N * g_N + entropy_N * h_N).sum(), leaf_NV)

    found = [
        Contender("copy", copy, 2, [], []),
        Contender("stats: log-prob and entropy", stats, 1, [], []),
        Contender("d_logits", d_logits, 2, [], []),
        Contender("forward and backward", ours, 3, [], []),
        Contender("plain PyTorch, the same", plain, None, [], []),
    ]
    if device == "cuda":
        found += [item for item in [liger(leaf_NV, targets_N, g_N)] if item]
    return found


def liger(leaf_NV, targets_N, advantages_N) -> Contender | None:
    """Liger's Triton GRPO loss: log-probs and clip, without entropy, of sequences of one length."""
    try:
        from liger_kernel.ops.grpo_loss import GrpoLossFunction
    except ImportError:
        return None
    import torch

    rows, length = len(targets_N), 256
    batch = rows // length
    logits = leaf_NV[: batch * length].detach().view(batch, length, -1)
    padded = torch.cat([logits, logits[:, :1]], dim=1).requires_grad_()  # it wants one position more
    ids = targets_N[: batch * length].view(batch, length)

    def work() -> None:
        loss, *_ = GrpoLossFunction.apply(
            padded, None, None, ids, advantages_N[:batch], None, 1.0, 0.0, 0.2, 0.2, False
        )
        torch.autograd.grad(loss.sum(), padded)

    return Contender("Liger GRPO (no entropy)", work, 3, [], [])


# ---------------------------------------------------------------------- measuring


class HostPeak:
    """Resident bytes of this process beyond those at the start, looked at every few milliseconds."""

    def __enter__(self):
        self._start = self.bytes = self._resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()
        self.bytes -= self._start

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self.bytes = max(self.bytes, self._resident())

    @staticmethod
    def _resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def turn(item: Contender, device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        item.work()
        end.record()
        torch.cuda.synchronize()
        item.seconds.append(start.elapsed_time(end) / 1000)
        item.peak.append(torch.cuda.max_memory_allocated() - before)
        return
    with HostPeak() as peak:
        start = time.perf_counter()
        item.work()
        item.seconds.append(time.perf_counter() - start)
    item.peak.append(peak.bytes)


def bench(arguments: argparse.Namespace) -> None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    defaults = (8192, 151936, "bfloat16") if device == "cuda" else (2048, 49152, "float32")
    for name, value in zip(("rows", "columns", "dtype"), defaults, strict=True):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if device == "cpu":
        torch.set_num_threads(arguments.threads)
    found = contenders(arguments, device)
    for repeat in range(arguments.repeats + 1):
        for item in found:
            turn(item, device)
            if repeat == 0:  # the first turn compiles, and fills the allocator
                item.seconds.clear()
                item.peak.clear()
    report(arguments, device, found)


def report(arguments: argparse.Namespace, device: str, found: list[Contender]) -> None:
    import torch

    size = {"bfloat16": 2, "float32": 4}[arguments.dtype]
    logits = arguments.rows * arguments.columns * size
    name = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{platform.processor() or 'CPU'}, {arguments.threads} threads"
    )
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    print(
        f"{name}; {time.strftime('%Y-%m-%d')}, commit {commit.stdout.strip() or 'unknown'}, torch {torch.__version__}"
    )
    print(
        f"{arguments.rows} rows x {arguments.columns} columns {arguments.dtype}: {logits / 2**20:.0f} MiB of logits\n"
    )
    copy = found[0]
    bandwidth = 2 * logits / statistics.median(copy.seconds)
    plain = next(item for item in found if item.name.startswith("plain"))
    print(f"{'':28}  declared MiB      ms  % of copy  x faster than plain  peak MiB  of plain's")
    for item in found:
        seconds, peak = statistics.median(item.seconds), max(item.peak)
        declared = None if item.passes is None else item.passes * logits
        whole = item.name.startswith(("forward", "Liger", "plain"))
        print(
            f"{item.name:28}  {'' if declared is None else f'{declared / 2**20:.0f}':>12}  {1000 * seconds:6.2f}  "
            f"{'' if declared is None else f'{100 * declared / seconds / bandwidth:.0f}':>9}  "
            f"{f'{statistics.median(plain.seconds) / seconds:.2f}' if whole else '':>19}  {peak / 2**20:8.0f}  "
            f"{f'{peak / max(plain.peak):.2f}' if whole else '':>10}"
        )
    if device == "cuda":
        bench_group_loss()


def bench_group_loss() -> None:
    """The O(N) half: 1,024 samples of 64 to 1,024 tokens, by the kernel and by the definition, on the same device."""
    import importlib.util

    import torch

    if importlib.util.find_spec("pydantic") is None:
        print("\ngroup_loss: not timed, since its configuration needs pydantic")
        return
    from pivotrl.objective import fused, loss
    from pivotrl.objective.config import ObjectiveConfig

    if not fused.is_installed():
        print("\ngroup_loss: not built (python -m pivotrl.objective.kernels.library)")
        return
    lengths = torch.randint(64, 1025, (1024,))
    index = torch.arange(1024).repeat_interleave(lengths).cuda()
    tokens = len(index)
    columns = [-torch.rand(tokens, device="cuda") for _ in range(4)]
    batch = loss.ResponseTokens(columns[0], index, torch.randn(1024, device="cuda"), *columns[1:])
    config = ObjectiveConfig(beta=0.01, importance="truncate")
    seconds = {}
    for name, function in (("kernel", fused.policy_loss), ("definition", loss.policy_loss)):
        times = []
        for _ in range(20):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            function(config, batch, float(tokens))
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        seconds[name] = statistics.median(times[5:])
    print(
        f"\ngroup_loss, {tokens} tokens of 1,024 samples: {seconds['kernel']:.3f} ms, "
        f"{seconds['definition'] / seconds['kernel']:.1f} x faster than the definition on the same GPU"
    )


def main() -> int:
    arguments = parse()
    if arguments.compile_only:
        compile_only()
    else:
        bench(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
