"""Imitation is cross entropy: transformers' loss and gradient on the same rows, on every layout. And the policy loss of
a row of several turns is that of the turns apart."""

import json
from pathlib import Path

import pytest
import torch

from tests.launch import launch
from tests.policy.tiny import build, on_disk

CASES = [
    {"parallel": {"tensor": 2, "expert": 2}},
    {"parallel": {"expert": 2}},
    {"parallel": {"pipeline": 2}, "micro_batch_tokens": 24},
    {"parallel": {}, "micro_batch_tokens": 4096},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, and transformers' mean cross entropy over the targets of a batch with its gradient."""
    folder = tmp_path_factory.mktemp("imitate")
    model = build("moe")
    model.save_pretrained(folder)
    draw = torch.Generator().manual_seed(4)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    samples = []
    shared = tokens(9)
    for prompt, length in ((tokens(5), 20), (tokens(1), 31), (shared, 6), (shared, 8), (tokens(12), 1)):
        mask = (torch.rand(length, generator=draw) < 0.5).tolist()
        mask[-1] = True
        samples.append((prompt, tokens(length), mask))
    samples.append((tokens(3), tokens(7), None))
    count, total = 0, torch.zeros(())
    for prompt, response, mask in samples:
        ids = torch.tensor([[*prompt, *response]])
        behind = [token if mask is None or mask[n] else -100 for n, token in enumerate(response)]
        labels = torch.tensor([-100] * len(prompt) + behind)
        logits = model(input_ids=ids).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(logits, labels[1:], reduction="sum")
        count += int((labels != -100).sum())
    loss = total / count
    loss.backward()
    grads = on_disk({name: parameter.grad for name, parameter in model.named_parameters()})
    torch.save({"samples": samples, "loss": loss.item(), "grads": grads}, folder / "reference.pt")
    return folder


def test_loss_and_gradient_equal_transformers_on_every_layout(folder: Path) -> None:
    output = launch(2, Path(__file__).parent / "imitate_ranks.py", str(folder), json.dumps(CASES), timeout=300)
    results = [json.loads(line.partition("CASE ")[2]) for line in output.splitlines() if "CASE " in line]
    assert len(results) == len(CASES), output
    for result in results:
        print(result)  # seen with -s
        assert max(result[key] for key in ("loss", "scored", "grads", "norm", "chained")) < 1e-6, result
