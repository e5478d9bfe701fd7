"""How far a trainer's log-probs are from a sampler's, with the sampler's routes replayed and without.

  python tools/bench_router_replay.py [--model FOLDER] [--tasks 24] [--noise 0.001 0.01]

No engine that returns routes runs on a CPU, so the sampler is a second copy of the policy, of another type or of other
weights, whose pass records. Both score the assistant's turns of the demo's expert, each behind its prompt. The gap is
|log-prob of the trainer - log-prob of the sampler| in nats, over all tokens of the turns. `flips` is the share of
choices (a token in a layer) in which the trainer's router, left alone, takes another set of experts than the
sampler's did, and `tokens` the share of tokens with such a choice in some layer.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

if TYPE_CHECKING:
    from torch import Tensor

    from pivotrl.policy.packing import Sample
    from pivotrl.policy.parallel import World
    from pivotrl.policy.step import Policy

CASES = [("float32", "bfloat16", 0.0)]
"""Sampler's type, trainer's type, noise on the trainer's weights; the noise asked for is tried in both types."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=REPOSITORY / "pivotrl/demo/base", help="Hugging Face folder, MoE")
    parser.add_argument("--tasks", type=int, default=24, metavar="N", help="dialogs (default 24)")
    parser.add_argument(
        "--noise", type=float, nargs="*", default=[0.001, 0.01], metavar="E",
        help="normal noise on every matrix, in units of its root mean square (default 0.001 0.01)",
    )  # fmt: skip
    return parser.parse_args(argv)


def turns(model: Path, tasks: int) -> "list[Sample]":
    """The assistant's turns of the demo's dialogs, each behind everything before it."""
    from transformers import AutoTokenizer

    from pivotrl.demo.pretrain import Encoder
    from pivotrl.demo.trajectories import rows
    from pivotrl.policy.packing import Sample

    encoder = Encoder(AutoTokenizer.from_pretrained(model))
    samples = []
    for row in rows(tasks, "bench_router_replay"):
        ids, _, spans = encoder.dialog(row["messages"], row["tools"])
        for message, (start, end) in zip(row["messages"], spans, strict=True):
            if message["role"] == "assistant":
                samples.append(Sample(ids[:start], ids[start:end]))
    return samples


def policy_of(model: Path, dtype: str, noise: float, world: "World") -> "Policy":
    import torch

    from pivotrl.config import parse_config
    from pivotrl.policy.step import Policy

    tree = {
        "output": "unused",
        "model": {"path": str(model), "dtype": dtype},
        "training": {"router_replay": "trainer", "packing": "plain", "micro_batch_tokens": 8192},
    }
    policy = Policy(parse_config(tree, "bench"), world)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if noise and parameter.dim() > 1:
                size = noise * parameter.float().square().mean().sqrt()
                parameter.copy_(parameter.float() + size * torch.randn(parameter.shape, generator=draw))
    return policy


def choices(policy: "Policy", samples: "list[Sample]") -> "tuple[Tensor, Tensor]":
    """Log-probs of all response tokens, and the sorted experts of every token: [tokens, layers, top_k]."""
    import torch

    with policy.routes.recording():
        logp = torch.cat(policy.log_probs(samples))
    layers = [torch.cat(policy.routes.layers[index].recorded) for index in sorted(policy.routes.layers)]
    return logp, torch.stack(layers, 1).sort(-1).values


def measure(model: Path, samples: "list[Sample]", case: tuple[str, str, float], world: "World") -> list[str]:
    import torch

    sampler_type, trainer_type, noise = case
    sampler, trainer = policy_of(model, sampler_type, 0.0, world), policy_of(model, trainer_type, noise, world)
    sampled, sampler_routes = choices(sampler, samples)
    free, free_routes = choices(trainer, samples)
    trainer.routes.take(sampler.routes)
    with trainer.routes.replaying():
        replayed = torch.cat(trainer.log_probs(samples))
    flipped = (sampler_routes != free_routes).any(-1)

    def gap(logp: "Tensor") -> "list[float]":
        apart = (logp - sampled).abs()
        return [apart.mean().item(), apart.quantile(0.99).item(), apart.max().item()]

    off, on = gap(free), gap(replayed)
    numbers = [f"{flipped.float().mean():.2%}", f"{flipped.any(-1).float().mean():.2%}"]
    numbers += [f"{value:.2e}" for value in (*off, *on)] + [f"{off[0] / on[0]:.2f}" if on[0] else "-"]
    return [f"{sampler_type} -> {trainer_type}", f"{noise:g}", *numbers]


def main() -> None:
    arguments = parse(sys.argv[1:])
    import torch

    from pivotrl.policy.config import ParallelConfig
    from pivotrl.policy.parallel import initialize

    world = initialize(ParallelConfig(), 0)
    samples = turns(arguments.model, arguments.tasks)
    tokens = sum(len(sample.response_ids) for sample in samples)
    print(f"{arguments.model.name}: {len(samples)} turns, {tokens} tokens; torch {torch.__version__} on a CPU")
    head = ["sampler -> trainer", "noise", "flips", "tokens"]
    head += [f"{name} {what}" for name in ("off", "on") for what in ("mean", "p99", "max")] + ["mean off/on"]
    rows = [head]
    for dtype in ("float32", "bfloat16"):
        rows += [measure(arguments.model, samples, (dtype, dtype, noise), world) for noise in arguments.noise]
    rows += [measure(arguments.model, samples, case, world) for case in CASES]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
