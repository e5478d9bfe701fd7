"""Seconds of a refit with its proof beside a Hugging Face folder written and reloaded, and beside one plain copy.

  torchrun --nproc-per-node 2 tools/bench_refit.py [--tensor 2] [--layers 12] [--repeats 5] [--work FOLDER]

A random Qwen3-MoE (0.5 B parameters, bfloat16) lies in a trainer of TP2 x EP2 and goes to engines of 1 or 2 ranks.
Reloading is told two ways: vLLM's `reload_weights`, which on a CPU leaves the experts unpacked, so that the engine then
computes something else (tests/rollout has that as a test), and a new engine, which is right. The folder is what the
policy's export writes on rank 0. What lands in the engine is compared bit for bit with that folder's tensors, as it
lands. Extra memory is the peak of the process's resident memory during a refit less what it was before. Ratios are of
medians in one run.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensor", type=int, default=1, help="ranks of one engine, 1 or 2 (default 1)")
    parser.add_argument("--layers", type=int, default=12, help="layers; 12 are 0.5 B parameters (default 12)")
    parser.add_argument("--repeats", type=int, default=5, metavar="R", help="refits that are timed (default 5)")
    parser.add_argument(
        "--buffer-mib", type=int, default=128, metavar="M", help="rollout.refit_buffer_mib (default 128)"
    )
    parser.add_argument("--work", type=Path, help="folder for the models (default: a temporary one)")
    return parser.parse_args(argv)


def make_model(folder: Path, layers: int) -> None:
    """A random Qwen3-MoE of 12 x 38 M + 43 M parameters, with the demo's tokenizer."""
    import shutil

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
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(REPOSITORY / "pivotrl/demo/base" / name, folder)


def timed(call: Callable[[], Any]) -> float:
    """Seconds until every rank is done."""
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - start


def resident(key: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def extra_memory(call: Callable[[], Any]) -> int:
    """Peak resident bytes of a call above those before it."""
    import ctypes
    import gc

    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return resident("VmHWM") - before


def write_folder(policy: Any, folder: Path) -> None:
    """The policy as a Hugging Face folder (collective); rank 0 writes."""
    import torch.distributed as dist
    from safetensors.torch import save_file

    first = dist.get_rank() == 0
    tensors = {name: tensor.contiguous().clone() for name, tensor in policy.export() if first}
    if first:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    dist.barrier()


def reload(engine: Any, folder: Path) -> None:
    """vLLM's own loader, into the running engine."""
    from safetensors import safe_open

    def stored() -> Any:
        with safe_open(folder / "model.safetensors", "pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)

    runner = engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner
    runner.reload_weights(weights_iterator=stored())


def differences(policy: Any, engine: Any, folder: Path) -> list[str]:
    """Tensors of which some box did not land bit for bit as the folder has it (collective)."""
    import torch
    from safetensors import safe_open

    from pivotrl.rollout.receiver import Receiver
    from pivotrl.rollout.refit import refit

    wrong: set[str] = set()
    landed = Receiver.landed

    with safe_open(folder / "model.safetensors", "pt") as file:

        def truth(name: str, bounds: Any) -> torch.Tensor:
            if ".experts." not in name:
                return file.get_slice(name)[tuple(slice(*pair) for pair in bounds)]
            prefix, kind = name.rsplit(".", 1)
            (first, last), rows, columns = bounds
            half = (rows[0] >= 576) if kind == "gate_up_proj" else 0
            single = ("up_proj" if half else "gate_proj") if kind == "gate_up_proj" else "down_proj"
            inner = (slice(rows[0] - half * 576, rows[1] - half * 576), slice(*columns))
            return torch.stack([file.get_slice(f"{prefix}.{e}.{single}.weight")[inner] for e in range(first, last)])

        def compare(self: Receiver, move: Any, bounds: Any) -> None:
            if not torch.equal(self.place(move, bounds), truth(move.tensor, bounds)):
                wrong.add(move.tensor)
            landed(self, move, bounds)

        Receiver.landed = compare
        refit(policy, engine)
        Receiver.landed = landed
    return sorted(wrong)


def run(arguments: argparse.Namespace, work: Path) -> None:
    import torch
    import torch.distributed as dist

    from pivotrl.config import load_config
    from pivotrl.policy.parallel import initialize
    from pivotrl.policy.step import Policy
    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.refit import refit

    model, out = work / "model", work / "out"
    overrides = [
        f"model.path={model}",
        "model.dtype=bfloat16",
        "training.offload=true",
        f"rollout.tensor={arguments.tensor}",
        f"rollout.refit_buffer_mib={arguments.buffer_mib}",
        "rollout.kv_cache_gib=0.1",
    ]
    config = load_config(str(REPOSITORY / "configs/demo_cpu.yaml"), overrides)
    world = initialize(config.parallel, seed=0)
    if world.rank == 0:
        model.mkdir(parents=True, exist_ok=True)
        out.mkdir(exist_ok=True)
        if not (model / "model.safetensors").exists():
            make_model(model, arguments.layers)
    dist.barrier()
    policy = Policy(config, world)
    policy.sleep()
    start = time.perf_counter()
    engine = Engine(config.rollout, str(model), "bfloat16", 0, world)
    started = time.perf_counter() - start
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.25)  # other weights than the engine has
    first = refit(policy, engine)
    reports = [refit(policy, engine) for _ in range(arguments.repeats)]
    written = timed(lambda: write_folder(policy, out))
    reloaded = timed(lambda: reload(engine, out))
    wrong = differences(policy, engine, out)
    extra = extra_memory(lambda: refit(policy, engine))
    size = reports[0].landed_bytes
    source, target = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    copied = min(timed(lambda: target.copy_(source)) for _ in range(3))
    everyone: list = [None] * world.world_size
    dist.all_gather_object(everyone, (wrong, extra), group=world.object_group)
    if world.rank == 0:
        seconds = statistics.median(report.seconds for report in reports)
        proofs = statistics.median(report.proof_seconds for report in reports)
        last = reports[-1]
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}; bfloat16, TP2 EP2 to"
        )
        print(
            f"{engine.engines} engine(s) of {arguments.tensor} rank(s); model {last.bytes / 1e9:.2f} GB, a rank takes"
        )
        print(f"{last.landed_bytes / 1e9:.2f} GB, of it {last.remote_bytes / 1e9:.2f} from the other rank")
        print(f"refit and proof          {seconds:8.2f} s (proof {proofs:.2f}; with the plan {first.seconds:.2f})")
        print(f"folder written           {written:8.2f} s")
        print(f"  reload_weights         {reloaded:8.2f} s (experts left wrong on a CPU)")
        print(f"  a new engine           {started:8.2f} s")
        print(f"one plain copy           {copied:8.2f} s")
        print(
            f"folder and new engine / refit {(written + started) / seconds:.1f} (bar: 5), "
            f"folder and reload_weights / refit {(written + reloaded) / seconds:.1f}, "
            f"refit / copy {seconds / copied:.1f}"
        )
        print(f"not equal bit for bit: {sorted({name for names, _ in everyone for name in names}) or 'none'}")
        peak = max(extra for _, extra in everyone)
        print(
            f"extra memory {peak / 2**20:.0f} MiB of the two buffers' {2 * arguments.buffer_mib} MiB "
            f"(messages {last.buffer_bytes / 2**20:.0f} MiB, the rest is the CPU engine's packing)"
        )


def main() -> int:
    arguments = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        run(arguments, arguments.work or Path(temporary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
