"""What transformers makes of three global batches, each response on a row of its own behind its own copy of the prompt.

In float64 throughout (the reference), and in float32 as transformers trains (which shows what float32 costs).
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.objective.loss import ResponseTokens, global_denominator, policy_loss
from pivotrl.policy.packing import Sample
from tests.policy.float64 import Float64Only
from tests.policy.tiny import build, on_disk

STEPS = 3
LAYERS = 4  # two stages of two chunks
OPTIMIZER = {"lr": 1e-3, "weight_decay": 0.1, "beta2": 0.95, "clip_grad": 0.05}
"""The gradient's norm is far above `clip_grad`: every step clips."""
OBJECTIVE = {"beta": 0.1, "clip_low": 0.1, "clip_high": 0.1, "entropy_bonus": 0.01}
GROUPS = (
    ((17, (3, 6, 1, 5)), (1, (1,)), (9, (4, 2)), (24, (2, 7, 3, 1)), (2, (5,))),
    ((11, (5, 1, 4, 2)), (6, (3,)), (1, (2, 1)), (19, (1, 6, 2, 4))),
    ((3, (1,)), (22, (4, 4, 1, 7)), (8, (2, 5)), (13, (3, 1, 6, 2)), (1, (3,))),
)
"""For each step the groups of its batch: the prompt's tokens, and those of each of its responses."""


def samples_of(step: int) -> list[Sample]:
    """The global batch of one step; the samples of a group have equal prompts."""
    draw = torch.Generator().manual_seed(step)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    samples = []
    for prompt, responses in GROUPS[step]:
        prompt_ids = tokens(prompt)
        for length in responses:
            advantage = (torch.randint(-8, 9, (), generator=draw) / 4).item() or 0.25
            samples.append(Sample(prompt_ids, tokens(length), [-2.0] * length, advantage))
    return samples


def run_config(folder: Path, **sections: dict[str, Any]) -> Any:
    """A run of the suite's objective and optimizer on the model in `folder`, changed section by section."""
    values: dict[str, Any] = {
        "output": str(folder / "run"),
        "model": {"path": str(folder), "dtype": "float32"},
        "objective": OBJECTIVE,
        "optimizer": OPTIMIZER,
    }
    for name, changes in sections.items():
        values[name] = values.get(name, {}) | changes
    return parse_config(values, "parity")


def make(kind: str, folder: Path) -> None:
    """Write the model of that kind, and `reference.pt` beside its weights."""
    single = build(kind, num_hidden_layers=LAYERS)
    single.save_pretrained(folder)
    with Float64Only():
        double = type(single)(single.config).double()
        double.load_state_dict(single.state_dict())
        start = on_disk({name: parameter.detach() for name, parameter in double.named_parameters()})
        _eager(double)
        others = other_log_probs(double)
        exact = train(double, others, run_config(folder).objective)
    torch.save(
        {
            "old": [old for old, _ in others],
            "reference": [reference for _, reference in others],
            "start": start,
            "exact": exact,
            "float32": train(_eager(single), others, run_config(folder).objective),
        },
        folder / "reference.pt",
    )


def _eager(model: Any) -> Any:
    model.config._attn_implementation = model.config._experts_implementation = "eager"
    return model


def other_log_probs(model: Any) -> list[tuple[list[Tensor], list[Tensor]]]:
    """For each step, log-probs of an old and of a reference policy: near the model's own, float32 numbers."""
    draw = torch.Generator().manual_seed(7)

    def nearby(row: Tensor) -> Tensor:
        return (row.detach() + 0.2 * torch.randn(row.shape, generator=draw)).to(torch.half).to(torch.double)

    result = []
    for step in range(STEPS):
        rows = [score(model, sample)[1] for sample in samples_of(step)]
        result.append(([nearby(row) for row in rows], [nearby(row) for row in rows]))
    return result


def score(model: Any, sample: Sample) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [R, V], log-probs [R] and entropies [R] of one sample's response tokens, on its own row."""
    ids = torch.tensor([[*sample.prompt_ids, *sample.response_ids]])
    logits = model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1]
    log_softmax = logits.log_softmax(-1)
    picked = log_softmax.gather(-1, ids[0, len(sample.prompt_ids) :, None])[:, 0]
    return logits, picked, -(log_softmax.exp() * log_softmax).sum(-1)


def train(model: Any, others: list, objective: Any) -> dict[str, Any]:
    """Three steps of AdamW: logits, log-probs, loss and gradients of the first, and the weights behind the last."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=OPTIMIZER["lr"],
        betas=(0.9, OPTIMIZER["beta2"]),
        eps=1e-8,
    )
    result: dict[str, Any] = {}
    for step in range(STEPS):
        samples = samples_of(step)
        logits, log_probs, entropies = zip(*(score(model, sample) for sample in samples), strict=True)
        lengths = [len(sample.response_ids) for sample in samples]
        old, reference = ([row.to(log_probs[0].dtype) for row in rows] for rows in others[step])
        loss = policy_loss(
            objective,
            ResponseTokens(
                logp_T=torch.cat(log_probs),
                sample_index_T=torch.repeat_interleave(torch.arange(len(samples)), torch.tensor(lengths)),
                advantages_S=torch.tensor([sample.advantage for sample in samples], dtype=log_probs[0].dtype),
                old_logp_T=torch.cat(old),
                reference_logp_T=torch.cat(reference),
                entropy_T=torch.cat(entropies),
            ),
            global_denominator(objective, lengths),
        ).loss
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            result["logits"] = [row.detach() for row in logits]
            result["log_probs"] = [row.detach() for row in log_probs]
            result["grads"] = on_disk({name: parameter.grad for name, parameter in model.named_parameters()})
            result["loss"] = loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["clip_grad"])
        optimizer.step()
        result.setdefault("grad_norm", norm.item())
    result["weights"] = on_disk({name: parameter.detach() for name, parameter in model.named_parameters()})
    return result
