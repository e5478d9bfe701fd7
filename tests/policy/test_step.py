"""The objective's gradient on every layout equals transformers', sample by sample, in fp32."""

import json
from pathlib import Path

import pytest
import torch

from pivotrl.config import parse_config
from pivotrl.objective.loss import ResponseTokens, global_denominator, policy_loss
from pivotrl.policy.packing import Sample
from tests.launch import launch
from tests.policy.tiny import build, on_disk

OPTIMIZER = {"lr": 1e-3, "weight_decay": 0.1, "beta2": 0.95, "clip_grad": 0.05}
OBJECTIVE = {"beta": 0.1, "clip_low": 0.1, "clip_high": 0.1, "entropy_bonus": 0.01}

PLAIN = {"packing": "plain"}
ONE_RANK = [{}, {"micro_batch_tokens": 1}, {"micro_batch_tokens": 24}, {"micro_batch_tokens": 4096}, PLAIN]
TWO_RANKS = [
    {"parallel": {"tensor": 2, "expert": 2}},
    {"parallel": {"tensor": 2, "expert": 2}, "distributed": True},
    {"parallel": {"tensor": 2, "expert": 2}, **PLAIN},
    {"parallel": {"tensor": 2, "expert_tensor": 2}, "micro_batch_tokens": 4096},
    {"parallel": {"expert": 2}},
    {"parallel": {"expert": 2}, "distributed": True},
    {"parallel": {"expert": 2}, "micro_batch_tokens": 4096, **PLAIN},  # a dummy on the second rank, whose experts work
    {"parallel": {}, "micro_batch_tokens": 4096},
    {"parallel": {"pipeline": 2}},
]
FOUR_RANKS = [
    {"parallel": {"tensor": 2, "pipeline": 2, "expert": 2}},
    {"parallel": {"tensor": 2, "expert": 2, "expert_tensor": 2}},
    {"parallel": {"tensor": 2, "expert": 4}, "distributed": True},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and what transformers makes of a batch: log-probs, gradients, weights after one AdamW step."""
    folder = tmp_path_factory.mktemp("tiny_moe")
    model = build("moe")
    model.save_pretrained(folder)
    draw = torch.Generator().manual_seed(1)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    prompts = [tokens(length) for length in (17, 1, 30, 9)]
    # ragged groups, one of a single sample, prompts and responses of one token, a group whose samples stand apart
    drawn = [(0, 6), (0, 1), (1, 1), (3, 4), (0, 3), (1, 5), (2, 7), (3, 4), (0, 6), (3, 2)]
    advantages = [1.0, -0.5, 2.0, 0.0, -1.5, 0.75, 0.3, -0.7, 0.4, 1.2]
    samples = [
        Sample(prompts[prompt], tokens(response), [-2.0] * response, advantage)
        for (prompt, response), advantage in zip(drawn, advantages, strict=True)
    ]
    log_probs, entropies = zip(*(score(model, sample) for sample in samples), strict=True)

    def nearby(row: torch.Tensor) -> torch.Tensor:
        return row.detach() + 0.2 * torch.randn(row.shape, generator=draw)

    old, reference = [nearby(row) for row in log_probs], [nearby(row) for row in log_probs]
    config = parse_config(
        {"output": "unused", "model": {"path": str(folder)}, "objective": OBJECTIVE}, "test"
    ).objective
    denominator = global_denominator(config, [response for _, response in drawn])
    result = policy_loss(
        config,
        ResponseTokens(
            logp_T=torch.cat(log_probs),
            sample_index_T=torch.arange(len(drawn)).repeat_interleave(torch.tensor([r for _, r in drawn])),
            advantages_S=torch.tensor(advantages),
            old_logp_T=torch.cat(old),
            reference_logp_T=torch.cat(reference),
            entropy_T=torch.cat(entropies),
        ),
        denominator,
    )
    result.loss.backward()
    grads = on_disk({name: parameter.grad for name, parameter in model.named_parameters()})
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["clip_grad"])
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=OPTIMIZER["lr"],
        betas=(0.9, OPTIMIZER["beta2"]),
        eps=1e-8,
    )
    optimizer.step()
    torch.save(
        {
            "objective": OBJECTIVE,
            "optimizer": OPTIMIZER,
            "samples": [(s.prompt_ids, s.response_ids, s.sampler_log_probs, s.advantage) for s in samples],
            "denominator": denominator,
            "log_probs": [row.detach() for row in log_probs],
            "old": old,
            "reference": reference,
            "grads": grads,
            "stepped": on_disk({name: parameter.detach() for name, parameter in model.named_parameters()}),
        },
        folder / "reference.pt",
    )
    return folder


def score(model: torch.nn.Module, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and entropies of one sample's response tokens, by transformers, on its own row."""
    ids = torch.tensor([[*sample.prompt_ids, *sample.response_ids]])
    logits = model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1]
    log_softmax = logits.log_softmax(-1)
    picked = log_softmax.gather(-1, ids[0, len(sample.prompt_ids) :, None])[:, 0]
    return picked, -(log_softmax.exp() * log_softmax).sum(-1)


@pytest.mark.parametrize(("num_ranks", "cases"), [(1, ONE_RANK), (2, TWO_RANKS), (4, FOUR_RANKS)])
def test_gradient_and_step_equal_transformers_on_every_layout(folder: Path, num_ranks: int, cases: list) -> None:
    output = launch(num_ranks, Path(__file__).parent / "step_ranks.py", str(folder), json.dumps(cases), timeout=240)
    results = [json.loads(line.partition("CASE ")[2]) for line in output.splitlines() if "CASE " in line]
    assert len(results) == len(cases), output
    for result in results:
        assert result["log_probs"] < 1e-5, result
        assert result["grads"] is None or result["grads"] < 1e-6, result
        assert result["grads_relative"] is None or result["grads_relative"] < 5e-6, result
        assert result["stepped"] < 5e-5, result
        assert result["gain"] == 1 if PLAIN.items() <= result["case"].items() else result["gain"] > 1.05, result
    for key in ("log_probs", "grads", "grads_relative", "stepped"):  # seen with -s
        print(f"{num_ranks} ranks, {len(cases)} cases, largest {key}: {max(r[key] or 0 for r in results):.1e}")
    for key, tolerance in (("loss", 1e-6), ("grad_norm", 1e-5)):
        assert max(r[key] for r in results) - min(r[key] for r in results) < tolerance, results
