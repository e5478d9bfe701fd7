"""What transformers computes where tokens are sent to given experts: the reference of router replay.

The gate weights come from the router's own scores at those experts, so its gradient is that of a forced choice.

Legend: T = tokens of a sample that are an input (all but the last), L = layers, K = experts of a token.
"""

from collections.abc import Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.objective.loss import ResponseTokens, global_denominator, policy_loss
from pivotrl.policy.packing import Sample
from pivotrl.policy.routes import Routes, of_group
from tests.policy.tiny import build, on_disk

LAYERS, EXPERTS, TOP_K = 4, 8, 2
GROUPS = ((7, (3, 6)), (1, (1, 2)), (12, (4, 2, 5)), (3, (1, 4)), (9, (3,)))
"""For each group the tokens of its prompt, and those of each of its responses."""
OBJECTIVE = {"importance": "truncate", "importance_low": 0.7, "importance_high": 1.4}


def make(folder: Path) -> None:
    """Write a model to `folder`/now, another near it to `folder`/before, and `reference.pt`.

    The reference holds the samples, of which most have routes that no router would choose, and some none of their
    prompt, of their response, or of its end; and for the model of now, its log-probs and its own choices, log-probs and
    gradients where the samples' routes are forced, and log-probs where the choices of before are.
    """
    now, before = build("moe", num_hidden_layers=LAYERS), build("moe", num_hidden_layers=LAYERS)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in before.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.1 * parameter.std() * torch.randn(parameter.shape, generator=draw))
    now.save_pretrained(folder / "now")
    before.save_pretrained(folder / "before")
    samples = _samples(draw)
    with torch.no_grad():
        free, choices = zip(*(score(now, sample, None) for sample in samples), strict=True)
        earlier = [score(before, sample, None)[1] for sample in samples]
        old_routes = [score(now, sample, choice)[0] for sample, choice in zip(samples, earlier, strict=True)]
        forced = [score(now, sample, targets(sample))[0] for sample in samples]
    for sample, row in zip(samples, forced, strict=True):  # as if an engine of slightly other numbers had sampled
        sample.sampler_log_probs.extend((row + 0.4 * torch.randn(row.shape, generator=draw)).tolist())
    config = parse_config({"output": "unused", "model": {"path": "unused"}, "objective": OBJECTIVE}, "test").objective
    denominator = global_denominator(config, [len(sample.response_ids) for sample in samples])
    rows = [score(now, sample, targets(sample))[0] for sample in samples]
    result = policy_loss(
        config,
        ResponseTokens(
            logp_T=torch.cat(rows),
            sample_index_T=torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(row) for row in rows])),
            advantages_S=torch.tensor([sample.advantage for sample in samples]),
            sampler_logp_T=torch.cat([torch.tensor(sample.sampler_log_probs) for sample in samples]),
        ),
        denominator,
    )
    result.loss.backward()
    weights = [
        min(max((a - b).exp().item(), 0.7), 1.4)
        for s, r in zip(samples, rows, strict=True)
        for a, b in zip(r, torch.tensor(s.sampler_log_probs), strict=True)
    ]
    assert min(weights) == 0.7 and max(weights) == 1.4, "both bounds cut"
    torch.save(
        {
            "samples": samples,
            "choices": [_routes(sample, choice) for sample, choice in zip(samples, choices, strict=True)],
            "free": list(free),
            "forced": forced,
            "old_routes": old_routes,
            "denominator": denominator,
            "loss": result.loss.item(),
            "grads": on_disk({name: parameter.grad for name, parameter in now.named_parameters()}),
        },
        folder / "reference.pt",
    )


def _samples(draw: torch.Generator) -> list[Sample]:
    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    def routes(count: int) -> np.ndarray:
        scores = torch.rand((count, LAYERS, EXPERTS), generator=draw)
        return scores.argsort(-1)[..., :TOP_K].to(torch.uint8).numpy()

    samples = []
    for group, (prompt, lengths) in enumerate(GROUPS):
        prompt_ids = tokens(prompt)
        rows = [routes(length - 1 + (0 if index else prompt)) for index, length in enumerate(lengths)]
        for index, known in enumerate(of_group(rows, prompt)):
            if group == 3:
                known = Routes(known.prompt[:0], known.response)
            elif group == 2 and index == 2:
                known = Routes(known.prompt, known.response[:2])
            advantage = float(torch.randint(1, 9, (), generator=draw)) / 4 * (-1) ** index
            kept = None if group == 4 else known
            samples.append(Sample(prompt_ids, tokens(lengths[index]), [], advantage, kept))
    return samples


def targets(sample: Sample) -> Tensor:
    """int64 [T, L, K] of a sample's routes, -1 where it has none."""
    result = torch.full((len(sample) - 1, LAYERS, TOP_K), -1)
    if sample.routes is not None:
        for part, start in ((sample.routes.prompt, 0), (sample.routes.response, len(sample.prompt_ids))):
            result[start : start + len(part)] = torch.from_numpy(part.astype(np.int64))
    return result


def _routes(sample: Sample, choice: Tensor) -> Routes:
    both = choice.to(torch.uint8).numpy()
    return Routes(both[: len(sample.prompt_ids)], both[len(sample.prompt_ids) :])


def score(model: Any, sample: Sample, target: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log-probs [R] of the response, and the experts [T, L, K] that the tokens went to: the target's where it has."""
    ids = torch.tensor([[*sample.prompt_ids, *sample.response_ids]])
    chosen: list[Tensor] = []

    def route(gate: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = torch.nn.functional.linear(hidden.reshape(-1, gate.hidden_dim), gate.weight)
        probs = logits.softmax(-1, dtype=torch.float)
        indices = probs.topk(gate.top_k, dim=-1).indices
        if target is not None:
            wanted = target[:, len(chosen)]
            indices = torch.where(wanted >= 0, wanted, indices)
        chosen.append(indices)
        scores = probs.gather(-1, indices)
        return logits, scores / scores.sum(-1, keepdim=True), indices

    for layer in model.model.layers:
        layer.mlp.gate.forward = MethodType(route, layer.mlp.gate)
    logits = model(input_ids=ids[:, :-1]).logits[0, len(sample.prompt_ids) - 1 :]
    logp = logits.log_softmax(-1).gather(-1, ids[0, len(sample.prompt_ids) :, None])[:, 0]
    return logp, torch.stack(chosen, 1)


def largest_gap(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Largest difference of log-probs."""
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
