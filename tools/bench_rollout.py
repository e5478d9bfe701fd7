"""Tokens/s of PivotRL's rollout path against raw vLLM on the same prompts, and the seconds of a refit with its proof.

  python tools/bench_rollout.py [--model FOLDER] [--prompts 64] [--samples 16] [--tokens 48] [--max-num-seqs 1024]
  torchrun --nproc-per-node 2 tools/bench_rollout.py --config configs/demo_cpu.yaml

All sides run in this process, on the same engine, in turns, from an empty prefix cache. Two baselines: `LLM.generate`
asked for what training needs (a seed for each request, log-probs of the sampled tokens, no text), which gives the very
same tokens; and `LLM.generate` as it comes (no seed, no log-probs, text made). `in two waves` gives the very same
tokens too: half of each group, then the other half, which is what `rollout.early_stop` costs where no group stops.
Every rank must reach the same point before and after each turn. Each ratio is the median of the rounds' own ratios, of
turns that follow each other, in an order that changes from round to round; CPU ratios are of this process's CPU
seconds, which other processes on the machine disturb less, and the last column is that of each side's best turn, which
they disturb least.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine, Request
    from pivotrl.session import Session

Timings = dict[str, list[tuple[float, float]]]
"""For each side, tokens per second and per CPU second, turn by turn."""


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=REPOSITORY / "pivotrl/demo/base", help="Hugging Face folder")
    parser.add_argument("--config", help="YAML file of a run: its model, engine and layout; measures the refit as well")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="with --model")
    parser.add_argument("--prompts", type=int, default=64, metavar="N", help="prompts (default 64)")
    parser.add_argument("--prompt-tokens", type=int, default=300, metavar="P", help="of each, at most (default 300)")
    parser.add_argument("--samples", type=int, default=16, metavar="G", help="samples of each prompt (default 16)")
    parser.add_argument("--tokens", type=int, default=48, metavar="T", help="sampled tokens, at most (default 48)")
    parser.add_argument("--repeats", type=int, default=7, metavar="R", help="turns of each side (default 7)")
    parser.add_argument(
        "--max-num-seqs", type=int, metavar="S", help="decoded at the same time, with --model (default: all)"
    )
    return parser.parse_args(argv)


def make_requests(arguments: argparse.Namespace, vocabulary: int) -> "list[Request]":
    """Prompts of random tokens, the first two thirds of each shared by four: turns of one trajectory."""
    import random

    from pivotrl.rollout.engine import Request

    rng = random.Random(0)
    requests, shared = [], []
    for number in range(arguments.prompts):
        if number % 4 == 0:
            shared = [rng.randrange(vocabulary) for _ in range(2 * arguments.prompt_tokens // 3)]
        tail = rng.randrange(1, arguments.prompt_tokens - len(shared) + 1)
        prompt = [*shared, *(rng.randrange(vocabulary) for _ in range(tail))]
        requests.append(Request(prompt, arguments.samples, number, 1.0, 1.0, arguments.tokens))
    return requests


def sides(engine: "Engine", requests: "list[Request]") -> dict[str, Callable[[], int]]:
    """Each side by name: a call that samples everything and returns how many tokens."""
    from dataclasses import replace

    from vllm import SamplingParams

    from pivotrl.rollout import environment
    from pivotrl.rollout.generation import sampling_params
    from pivotrl.rollout.split import split_requests

    mine = [requests[index] for index in split_requests(requests, engine.engines)[engine.engine_index]]
    prompts = [{"prompt_token_ids": request.prompt_ids} for request in mine]
    plain = [SamplingParams(n=r.n, temperature=r.temperature, max_tokens=r.max_tokens) for r in mine]

    def drawn(wave: "list[Request]") -> int:
        return sum(len(sample.token_ids) for samples in engine.generate_all(wave) for sample in samples)

    def waves() -> int:
        first = [replace(request, n=request.n // 2) for request in requests]
        rest = [replace(request, n=request.n - request.n // 2, first=request.n // 2) for request in requests]
        return drawn(first) + drawn(rest)

    def raw(params: list[SamplingParams]) -> int:
        with environment.uncompiled(engine.device_kind):
            outputs = engine.llm.generate(prompts, params, use_tqdm=False)
        return total(engine, sum(len(one.token_ids) for output in outputs for one in output.outputs))

    return {
        "pivotrl generate_all": lambda: drawn(requests),
        "pivotrl, in two waves": waves,
        "LLM.generate, same request": lambda: raw([sampling_params(request) for request in mine]),
        "LLM.generate, as it comes": lambda: raw(plain),
    }


def total(engine: "Engine", count: int) -> int:
    """The engines' counts together."""
    import torch
    import torch.distributed as dist

    tensor = torch.tensor(count)
    dist.all_reduce(tensor, group=engine.object_group)
    return int(tensor) // engine.config.tensor


def measure(engine: "Engine", calls: dict[str, Callable[[], int]], repeats: int) -> Timings:
    import torch.distributed as dist

    timings: Timings = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in list(calls.items())[:: 1 if repeat % 2 else -1]:
            engine.reset_prefix_cache()
            dist.barrier(group=engine.object_group)
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = call()
            dist.barrier(group=engine.object_group)
            if repeat:  # the first turn warms kernels
                timings[name].append(
                    (tokens / (time.perf_counter() - wall), tokens / engine.engines / (time.process_time() - cpu))
                )
    return timings


def show(timings: Timings) -> None:
    ours = next(iter(timings.values()))
    print(f"{'':28} {'tokens/s':>10} {'spread':>17} {'ratio':>7} {'CPU ratio':>10} {'best CPU':>9}")
    for name, turns in timings.items():
        wall = [turn[0] for turn in turns]
        best = max(turn[1] for turn in ours) / max(turn[1] for turn in turns)
        ratio, cpu_ratio = (
            statistics.median(our[i] / turn[i] for our, turn in zip(ours, turns, strict=True)) for i in (0, 1)
        )
        spread = f"{min(wall):8,.0f}-{max(wall):<8,.0f}"
        print(f"{name:28} {statistics.median(wall):10,.0f} {spread} {ratio:7.3f} {cpu_ratio:10.3f} {best:9.3f}")
    print("ratio: tokens/s of pivotrl generate_all over that side's")


def settings(engine: "Engine") -> str:
    """Of the engine that all sides share."""
    config = engine.llm.llm_engine.vllm_config
    scheduler, cache = config.scheduler_config, config.cache_config
    return (
        f"engine: max_num_seqs {scheduler.max_num_seqs}, max_num_batched_tokens {scheduler.max_num_batched_tokens}, "
        f"max_model_len {config.model_config.max_model_len}, KV cache {engine.config.kv_cache_gib:g} GiB in blocks of "
        f"{cache.block_size}, prefix caching {cache.enable_prefix_caching}, chunked prefill "
        f"{scheduler.enable_chunked_prefill}, eager {config.model_config.enforce_eager}"
    )


def show_refit(session: "Session", repeats: int) -> None:
    from pivotrl.rollout.refit import refit

    reports = [refit(session.policy, session.engine) for _ in range(repeats)]
    if session.world.rank == 0:
        seconds, proofs = [r.seconds for r in reports], [r.proof_seconds for r in reports]
        gap = max(r.canary_error for r in reports)
        print(
            f"refit + proof: median {statistics.median(seconds):.3f} s, {min(seconds):.3f} to {max(seconds):.3f} "
            f"(of it the proof {statistics.median(proofs):.3f}); {reports[0].tensors} tensors, "
            f"{reports[0].bytes / 1e6:.1f} MB; largest canary gap {gap:.2g}"
        )


def hardware() -> str:
    import torch
    import vllm

    from pivotrl.policy import device

    where = device.current()
    chip = torch.cuda.get_device_name() if where.kind == "cuda" else platform.processor() or platform.machine()
    return (
        f"{chip}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) a rank, load {os.getloadavg()[0]:.1f}; "
        f"vLLM {vllm.__version__}, torch {torch.__version__}; {time.strftime('%Y-%m-%d')}"
    )


def run(arguments: argparse.Namespace) -> None:
    from pivotrl.rollout.config import RolloutConfig
    from pivotrl.rollout.engine import Engine

    session = None
    if arguments.config:
        from pivotrl.config import load_config
        from pivotrl.session import open_session

        session = open_session(load_config(arguments.config, []))
        engine, model = session.engine, session.config.model.path
    else:
        if not (arguments.model / "config.json").is_file():
            raise ValueError(f"--model: no config.json in {arguments.model}: give a Hugging Face model folder")
        length = arguments.prompt_tokens + arguments.tokens
        sequences = arguments.max_num_seqs or arguments.prompts * arguments.samples
        chosen = RolloutConfig(max_model_len=length, max_num_seqs=sequences, kv_cache_gib=1.0)
        engine = Engine(chosen, arguments.model, arguments.dtype, seed=0)
        model = arguments.model
    requests = make_requests(arguments, len(engine.tokenizer))
    timings = measure(engine, sides(engine, requests), arguments.repeats)
    if engine.rank == 0:
        print(hardware())
        print(settings(engine))
        print(
            f"{model} {engine.dtype}: {engine.engines} engine(s) of {engine.config.tensor} rank(s); {len(requests)} "
            f"prompts of <= {arguments.prompt_tokens} tokens x {arguments.samples} samples of <= {arguments.tokens}"
        )
        show(timings)
    if session is not None:
        show_refit(session, 2 * arguments.repeats)


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        run(arguments)
    except ValueError as error:
        print(f"bench_rollout: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
