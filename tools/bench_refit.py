"""A refit with its proof beside a Hugging Face folder written and reloaded, and beside one plain copy; with a verdict.

  python tools/bench_refit.py [--parts tp1 tp2 ep2 demo] [--layers 12] [--rounds 3] [--work FOLDER]

A random Qwen3-MoE (0.5 B parameters, bfloat16) lies in a trainer of TP2 x EP2 on two ranks and goes to two engines of
one rank (tp1), to one of two ranks (tp2), and to one whose ranks hold whole experts (ep2). In every round each way is
taken in turns: two refits, plain copies of the bytes that the rank's engine takes, the policy's export as a Hugging
Face folder, a new engine from it (its imports left out), and vLLM's `reload_weights` from it. Ratios are of medians.

- Equal: every parameter of the refitted engine, bit for bit, with what vLLM's own loader made of the folder in the new
  engine; what is packed away for a CPU's matrix products is read back by multiplying with the identity.
- `reload_weights` leaves the experts unpacked on a CPU, so that the engine then computes something else (tests/rollout
  has that as a test): its time is told, and the bar is held against the new engine, which is right.
- Extra memory: the peak of the process's resident memory during a refit that plans anew and makes its buffers, less
  what it was before; until all weights have landed, which is held against the two buffers, and with the canary's two
  forward passes. It is not the process's first refit, in which libraries are loaded too.
- ep2 is loaded and compared, not sampled from: vLLM's CPU kernel ignores the expert map, so there is no canary.

Exit code: 0 where all bars are met, else 1.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

ENGINES = {"tp1": (1, False), "tp2": (2, False), "ep2": (2, True)}
PARTS = (*ENGINES, "demo")
FASTER, DEMO_SECONDS = 5.0, 0.2
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="engines, and the demo's model (all)")
    parser.add_argument("--layers", type=int, default=12, help="layers; 12 are 0.5 B parameters (default 12)")
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="rounds that are timed (default 3)")
    parser.add_argument(
        "--buffer-mib", type=int, default=128, metavar="M", help="rollout.refit_buffer_mib (default 128)"
    )
    parser.add_argument("--work", type=Path, help="folder for the models (default: a temporary one)")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # one engine, or the demo, on two ranks
    return parser.parse_args(argv)


def make_model(folder: Path, layers: int) -> None:
    """A random Qwen3-MoE of 12 x 38 M + 43 M parameters, with the demo's tokenizer."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    config = Qwen3MoeConfig(
        vocab_size=32768,
        hidden_size=640,
        intermediate_size=1920,
        moe_intermediate_size=576,
        num_hidden_layers=layers,
        num_attention_heads=10,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=32,
        num_experts_per_tok=4,
        norm_topk_prob=True,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        dtype="bfloat16",
    )
    model = Qwen3MoeForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(REPOSITORY / "pivotrl/demo/base" / name, folder)


def timed(call: Callable[[], Any]) -> float:
    """Seconds until every rank is done."""
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - start


def copies(size: int) -> list[float]:
    """Seconds of three plain copies of so many bytes."""
    import torch

    source, target = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    return [timed(lambda: target.copy_(source)) for _ in range(3)]


def resident(key: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def extra_memory(refit: Callable[[], Any]) -> tuple[int, int]:
    """Peak resident bytes of a refit above those before it: until its canary, and in all."""
    import ctypes
    import gc

    from pivotrl.rollout import refit as refits

    peaks, prove = [], refits.prove

    def noted(*arguments: Any) -> float:
        peaks.append(resident("VmHWM"))
        return prove(*arguments)

    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    refits.prove = noted
    try:
        refit()
    finally:
        refits.prove = prove
    return peaks[0] - before, resident("VmHWM") - before


def write_folder(policy: Any, folder: Path) -> None:
    """The policy's export (collective); rank 0 writes."""
    from safetensors.torch import save_file

    tensors = {name: tensor.contiguous().clone() for name, tensor in policy.export() if policy.world.rank == 0}
    if policy.world.rank == 0:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def reload(engine: Any, folder: Path) -> None:
    """vLLM's own loader, into the running engine."""
    from safetensors import safe_open

    def stored() -> Any:
        with safe_open(folder / "model.safetensors", "pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)

    runner = engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner
    runner.reload_weights(weights_iterator=stored())


def weights(engine: Any) -> dict[str, Any]:
    """What this rank's engine computes with, by the names of its parameters."""
    from pivotrl.rollout.inventory import find_landings
    from pivotrl.rollout.landings import PackedHead, PackedLinear, PrepackedExperts

    found = {}
    for name, landing in find_landings(engine.model, engine.device_kind)[0].items():
        if isinstance(landing, PrepackedExperts):
            found[name] = getattr(landing.layer, landing.attribute).data
        elif isinstance(landing, PackedLinear):
            found[name] = _read_back(landing.layer, landing.shape[1], engine.dtype)
        else:
            found[name] = landing.tensor
            for head in landing.heads if isinstance(landing, PackedHead) else []:
                found[f"{name}, packed"] = _read_back(head, landing.tensor.shape[1], engine.dtype)
    return found


def _read_back(layer: Any, columns: int, dtype: str) -> Any:
    """The transposed weight of a layer that packs it away: each product has one term that is not 0."""
    import torch

    return layer.quant_method.apply(layer, torch.eye(columns, dtype=getattr(torch, dtype)))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both ways into engines of one layout, on this rank."""
    import gc

    import torch

    from pivotrl.config import load_config
    from pivotrl.policy.parallel import initialize
    from pivotrl.policy.step import Policy
    from pivotrl.rollout import engine as engines
    from pivotrl.rollout import environment
    from pivotrl.rollout import refit as refits

    tensor, expert_parallel = ENGINES[arguments.part]
    model, out = arguments.work / "model", arguments.work / f"out_{arguments.part}"
    overrides = [
        f"model.path={model}",
        "model.dtype=bfloat16",
        "training.offload=true",
        f"rollout.tensor={tensor}",
        f"rollout.expert_parallel={str(expert_parallel).lower()}",
        f"rollout.refit_buffer_mib={arguments.buffer_mib}",
        "rollout.kv_cache_gib=0.1",
    ]
    config = load_config(str(REPOSITORY / "configs/demo_cpu.yaml"), overrides)
    world = initialize(config.parallel, seed=0)
    policy = Policy(config, world)
    policy.sleep()
    environment.prepare()
    from vllm.v1.engine import core

    if expert_parallel:  # to be loaded and compared; see the docstring
        engines.check_engine = lambda *_: None
        refits.prove = lambda *_: float("nan")

    # An engine that goes takes the process groups with it, and there is another one.
    core.cleanup_dist_env_and_memory = lambda *_, **__: None

    def new_engine(folder: Path) -> Any:
        return engines.Engine(config.rollout, str(folder), "bfloat16", 0, world)

    if world.rank == 0:
        shutil.copytree(model, out, ignore=shutil.ignore_patterns("*.safetensors*"), dirs_exist_ok=True)
    engine = new_engine(model)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.25)  # other weights than the engine has
    refits.refit(policy, engine)
    engine.refit_route = None
    extra = extra_memory(lambda: refits.refit(policy, engine))
    seconds: dict[str, list[float]] = {name: [] for name in ("refit", "proof", "copy", "write", "reload", "new")}
    wrong: set[str] = set()
    for _ in range(arguments.rounds):
        reports = [refits.refit(policy, engine) for _ in range(2)]
        seconds["refit"] += [report.seconds for report in reports]
        seconds["proof"] += [report.proof_seconds for report in reports]
        size = reports[0].landed_bytes
        seconds["copy"] += copies(size)
        seconds["write"].append(timed(lambda: write_folder(policy, out)))
        started = time.perf_counter()
        truth = new_engine(out)
        seconds["new"].append(time.perf_counter() - started)
        theirs, ours = weights(truth), weights(engine)
        wrong |= theirs.keys() ^ ours.keys()
        wrong |= {name for name, one in theirs.items() if name in ours and not torch.equal(one, ours[name])}
        compared = len(theirs)
        del truth, theirs, ours
        gc.collect()
        seconds["reload"].append(timed(lambda: reload(engine, out)))
    return {
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "wrong": sorted(wrong),
        "compared": compared,
        "extra": extra,
        "buffers": 2 * arguments.buffer_mib * 2**20,
        "gb": reports[-1].bytes / 1e9,
        "landed_gb": size / 1e9,
        "remote_gb": reports[-1].remote_bytes / 1e9,
        "canary": reports[-1].canary_error,
    }


def measure_demo() -> dict[str, Any]:
    """Refits of the demo's model by the demo's configuration."""
    from pivotrl.config import load_config
    from pivotrl.policy.parallel import initialize
    from pivotrl.policy.step import Policy
    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.refit import refit

    config = load_config(str(REPOSITORY / "configs/demo_cpu.yaml"), ["rollout.kv_cache_gib=0.1"])
    world = initialize(config.parallel, seed=0)
    policy = Policy(config, world)
    engine = Engine(config.rollout, config.model.path, config.model.dtype, 0, world)
    refit(policy, engine)
    return {"seconds": [refit(policy, engine).seconds for _ in range(9)]}


def on_ranks(arguments: argparse.Namespace, part: str, work: Path) -> list[dict[str, Any]]:
    """What both ranks measured of a part. Raises SystemExit where they failed."""
    from pivotrl.policy.local_ranks import run_ranks

    options = ["--layers", arguments.layers, "--rounds", arguments.rounds, "--buffer-mib", arguments.buffer_mib]
    command = [__file__, *options, "--work", work, "--part", part]
    if code := run_ranks(2, [str(word) for word in command]):
        raise SystemExit(code)
    return [json.loads((work / f"{part}_{rank}.json").read_text()) for rank in range(2)]


def as_part(arguments: argparse.Namespace) -> int:
    from pivotrl.command import run_command

    def work() -> None:
        found = measure_demo() if arguments.part == "demo" else measure(arguments)
        (arguments.work / f"{arguments.part}_{os.environ['RANK']}.json").write_text(json.dumps(found))

    return run_command("bench_refit", [__file__], 2, work)


def bench(arguments: argparse.Namespace, work: Path) -> bool:
    """Measure, print the table and the verdicts; whether all bars are met."""
    model = work / "model"
    if not (model / "model.safetensors").exists():
        model.mkdir(parents=True, exist_ok=True)
        make_model(model, arguments.layers)
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f} before, {time.strftime('%Y-%m-%d')}; bfloat16, trainer TP2 EP2 on two ranks")
    print("seconds                    refit  (proof)    copy   write  reload  new engine | refit is faster than")
    print(
        "                                                                              | new engine   reload   x copy"
    )
    verdicts: list[tuple[bool, str]] = []
    for part in [part for part in arguments.parts if part != "demo"]:
        ranks = on_ranks(arguments, part, work)
        one, times = ranks[0], ranks[0]["seconds"]
        new, again = ((times["write"] + times[way]) / times["refit"] for way in ("new", "reload"))
        print(
            f"{part}: {one['gb']:.2f} GB, takes {one['landed_gb']:.2f} {times['refit']:6.2f} ({times['proof']:7.2f}) "
            f"{times['copy']:7.3f} {times['write']:7.2f} {times['reload']:7.2f} {times['new']:11.2f} | "
            f"{new:8.1f} x {again:8.1f} x {times['refit'] / times['copy']:8.1f}",
            flush=True,
        )
        wrong = sorted({name for rank in ranks for name in rank["wrong"]})
        extra, whole = (max(rank["extra"][index] for rank in ranks) for index in range(2))
        verdicts += [
            (
                not wrong,
                f"{part}: {one['compared']} tensors of each rank are, bit for bit, what vLLM loads from the folder"
                + (f"; not {wrong[:3]} and {len(wrong[3:])} more" if wrong else ""),
            ),
            (new >= FASTER, f"{part}: {new:.1f} x faster than a folder and a new engine (bar: {FASTER:g})"),
            (
                extra <= one["buffers"],
                f"{part}: extra memory {extra / 2**20:.0f} MiB of the two buffers' {one['buffers'] / 2**20:.0f} MiB"
                f" (with the canary {whole / 2**20:.0f})",
            ),
        ]
    if "demo" in arguments.parts:
        demo = statistics.median(on_ranks(arguments, "demo", work)[0]["seconds"])
        verdicts.append((demo < DEMO_SECONDS, f"demo model: {demo:.3f} s with its proof (bar: {DEMO_SECONDS:g})"))
    for met, words in verdicts:
        print(f"{'met' if met else 'NOT MET'}: {words}")
    return all(met for met, _ in verdicts)


def main() -> int:
    arguments = parse(sys.argv[1:])
    if arguments.part:
        return as_part(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        return int(not bench(arguments, work.resolve()))


if __name__ == "__main__":
    sys.exit(main())
